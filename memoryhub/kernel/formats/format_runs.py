"""The format `runs`: one JSON array, each element a whole recorded run.

Pure. A run is `{task_id, trial, reward, info, traj: [messages]}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import records
from memoryhub.kernel.formats.records import BadRecord, FileRecord
from memoryhub.kernel.formats.transcripts import (
    MESSAGE,
    Calls,
    ImportedMessage,
    ImportedRun,
    ImportedThread,
    ImportOptions,
    Item,
    Omission,
    get_code,
    read_message,
    read_user_id,
    render_limits,
    require_name,
    require_thread_name,
)
from memoryhub.kernel.state.events import LabelValue
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

#: A message is nested two levels deep in its run.
LIMITS = strict_json.JsonLimits(
    max_bytes=16 * 1_048_576, max_nodes=200_000, max_depth=MESSAGE.max_depth + 2
)
#: The member that holds a run's messages.
TRAJECTORY = "traj"
_CONTENTS = frozenset({"info", TRAJECTORY})
_FIELDS = _CONTENTS | {"task_id", "trial", "reward"}


def read(
    found: Iterator[FileRecord | BadRecord], options: ImportOptions
) -> Iterator[Item]:
    """Yield an ImportedRun for each element, unless any part of it is bad."""
    return read_each(found, lambda record: _read_run(record, options))


def read_conversations(
    found: Iterator[FileRecord | BadRecord],
    member: str,
    build: Callable[[FileRecord, Any, Counter[str]], ImportedRun | None],
) -> Iterator[Item]:
    """Yield an ImportedRun for each conversation; the key `member` holds its messages.

    `build` returns None for a conversation without words, and counts what it leaves
    out, which comes last.
    """
    parts = Counter[str]()
    yield from read_each(
        found,
        lambda record: _read_conversation(
            record, member, lambda record, value: build(record, value, parts)
        ),
    )
    # A unary plus leaves out what is zero.
    if parts := +parts:
        yield Omission(parts=parts)


def _read_conversation(
    record: FileRecord,
    member: str,
    build: Callable[[FileRecord, Any], ImportedRun | None],
) -> ImportedRun | BadRecord | None:
    try:
        value = strict_json.parse(record.raw, LIMITS, contents=frozenset({member}))
        if not isinstance(value, dict):
            raise InvalidError(code="object_expected")
        return build(record, value)
    except JsonRefusedError as refusal:
        final = refusal.code == "invalid_json"
        where = refusal.offset or 0
        return record.build_bad(
            refusal.code,
            where,
            run=record.index,
            final=final,
            detail=render_limits(refusal),
        )
    except InvalidError as refusal:
        return record.build_bad(
            get_code(refusal), run=record.index, detail=render_limits(refusal)
        )


def read_each(
    found: Iterator[FileRecord | BadRecord],
    read_one: Callable[[FileRecord], ImportedRun | BadRecord | None],
) -> Iterator[Item]:
    """Yield the result of `read_one` for each record; of two equal runs the first."""
    seen: set[str] = set()
    for record in found:
        if isinstance(record, BadRecord):
            yield record
            continue
        run = read_one(record)
        if isinstance(run, ImportedRun):
            if run.thread.name in seen:
                run = record.build_bad("duplicate_run", run=record.index)
            else:
                seen.add(run.thread.name)
        if run is not None:
            yield run


def _read_run(record: FileRecord, options: ImportOptions) -> ImportedRun | BadRecord:
    try:
        value = strict_json.parse(record.raw, LIMITS, contents=_CONTENTS)
    except JsonRefusedError as refusal:
        return blame(record, refusal, TRAJECTORY)
    try:
        thread, trajectory = _build_thread(value, options), _require_trajectory(value)
    except InvalidError as refusal:
        return record.build_bad(refusal.invalid_code, run=record.index)
    messages = read_messages(record, trajectory, thread, TRAJECTORY)
    if isinstance(messages, BadRecord):
        return messages
    return ImportedRun(
        thread=thread,
        messages=messages,
        index=record.index,
        place=record.place,
        unknown_fields=len(value.keys() - _FIELDS),
    )


def read_messages(
    record: FileRecord, contents: list[Any], thread: ImportedThread, member: str
) -> tuple[ImportedMessage, ...] | BadRecord:
    """Return all messages in the record's `member`, or the first bad one."""
    calls, messages = Calls(), list[ImportedMessage]()
    for number, content in enumerate(contents):
        try:
            message = read_message(content, thread=thread.name, calls=calls)
        except (InvalidError, JsonRefusedError) as refusal:
            spans = records.find_elements(record.raw, member=member.encode())
            begin, _ = next(islice(spans, number, None), (0, 0))
            code = get_code(refusal)
            return record.build_bad(
                code,
                begin,
                run=record.index,
                message=number,
                detail=render_limits(refusal),
            )
        messages.append(message)
    return tuple(messages)


def blame(record: FileRecord, refusal: JsonRefusedError, member: str) -> BadRecord:
    """Return a BadRecord for a refused run, at the message that the parser refused.

    Broken JSON is final: brackets can't be trusted to end the run where they seem to.
    """
    where, number = refusal.offset or 0, None
    spans = records.find_elements(record.raw, member=member.encode())
    for nth, (begin, end) in enumerate(spans):
        try:
            strict_json.parse(record.raw[begin:end], MESSAGE)
        except JsonRefusedError as inner:
            if inner.code == refusal.code:
                number, where = nth, begin + (inner.offset or 0)
                break
    return record.build_bad(
        refusal.code,
        where,
        run=record.index,
        message=number,
        final=refusal.code == "invalid_json",
        detail=render_limits(refusal),
    )


def _build_thread(value: Any, options: ImportOptions) -> ImportedThread:
    """Build the thread of a run. Raise InvalidError."""
    if not isinstance(value, dict):
        raise InvalidError(code="object_expected")
    task, trial = _require_task(value), _require_trial(value)
    reward, info = _get_reward(value), value.get("info")
    labels: dict[str, LabelValue] = {"source": options.source, "format": "runs"}
    labels |= {"task_id": task, "trial": trial}
    if reward is not None:
        labels["reward"] = reward
    return ImportedThread(
        name=require_thread_name(f"{options.source}:{task}:{trial}"),
        user_id=options.user_id or read_user_id(_get_path(info, "task", "user_id")),
        scope=ScopeLabels(
            agent_type=options.agent_type or options.source,
            agent_instance=require_name(f"task-{task}", loc="task_id"),
            session=require_name(f"trial-{trial}", loc="trial"),
        ),
        labels=labels,
        format="runs",
        trial=trial,
        reward=reward,
        info=info,
    )


def _require_task(run: dict[str, Any]) -> str | int:
    task = _require_member(run, "task_id")
    if isinstance(task, int) and not isinstance(task, bool):
        return task
    return require_name(task, loc="task_id")


def _require_trial(run: dict[str, Any]) -> int:
    trial = _require_member(run, "trial")
    if not isinstance(trial, int) or isinstance(trial, bool):
        raise InvalidError(code="type", loc="trial")
    return trial


def _get_reward(run: dict[str, Any]) -> float | None:
    reward = run.get("reward")
    if reward is None:
        return None
    if not isinstance(reward, int | float) or isinstance(reward, bool):
        raise InvalidError(code="type", loc="reward")
    return float(reward)


def _require_trajectory(run: dict[str, Any]) -> list[Any]:
    trajectory = _require_member(run, TRAJECTORY)
    if not isinstance(trajectory, list):
        raise InvalidError(code="type", loc=TRAJECTORY)
    if not trajectory:
        # A thread without a message would not show that the run was imported.
        raise InvalidError(code="value", loc=TRAJECTORY)
    return trajectory


def _require_member(run: dict[str, Any], name: str) -> Any:
    if run.get(name) is None:
        raise InvalidError(code="missing", loc=name)
    return run[name]


def _get_path(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
