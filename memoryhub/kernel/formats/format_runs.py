"""The format `runs`: one JSON array, each element a whole recorded run.

Pure. A run is `{task_id, trial, reward, info, traj: [messages]}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import records
from memoryhub.kernel.formats.records import Bad, Record
from memoryhub.kernel.formats.transcripts import (
    MESSAGE,
    Calls,
    Item,
    Message,
    Options,
    Run,
    Thread,
    code_of,
    limits_of,
    read_message,
    read_user_id,
    require_name,
    require_thread_name,
)
from memoryhub.kernel.state.events import LabelValue
from memoryhub.kernel.state.state import Scope
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

#: A message stands two levels down in its run.
LIMITS = strict_json.Limits(
    max_bytes=16 * 1_048_576, max_nodes=200_000, max_depth=MESSAGE.max_depth + 2
)
#: The member that holds a run's messages.
TRAJECTORY = "traj"
_CONTENTS = frozenset({"info", TRAJECTORY})
_FIELDS = _CONTENTS | {"task_id", "trial", "reward"}


def read(found: Iterator[Record | Bad], options: Options) -> Iterator[Item]:
    """Yield a Run for each element, unless it or any message of it is bad."""
    return read_each(found, lambda record: _read(record, options))


def read_conversations(
    found: Iterator[Record | Bad],
    member: str,
    build: Callable[[Record, Any], Run | None],
) -> Iterator[Item]:
    """Yield a Run for each conversation of an export whose messages `member` holds.

    `build` returns None for one in which nobody said anything.
    """
    return read_each(found, lambda record: _read_conversation(record, member, build))


def _read_conversation(
    record: Record, member: str, build: Callable[[Record, Any], Run | None]
) -> Run | Bad | None:
    try:
        value = strict_json.parse(record.raw, LIMITS, contents=frozenset({member}))
        if not isinstance(value, dict):
            raise InvalidError(code="object_expected")
        return build(record, value)
    except JsonRefusedError as refusal:
        final = refusal.code == "invalid_json"
        where = refusal.offset or 0
        return record.bad(
            refusal.code,
            where,
            run=record.index,
            final=final,
            detail=limits_of(refusal),
        )
    except InvalidError as refusal:
        return record.bad(code_of(refusal), run=record.index, detail=limits_of(refusal))


def read_each(
    found: Iterator[Record | Bad], read_one: Callable[[Record], Run | Bad | None]
) -> Iterator[Item]:
    """Yield what `read_one` makes of each record; of two equal runs the first."""
    seen: set[str] = set()
    for record in found:
        if isinstance(record, Bad):
            yield record
            continue
        run = read_one(record)
        if isinstance(run, Run):
            if run.thread.name in seen:
                run = record.bad("duplicate_run", run=record.index)
            else:
                seen.add(run.thread.name)
        if run is not None:
            yield run


def _read(record: Record, options: Options) -> Run | Bad:
    try:
        value = strict_json.parse(record.raw, LIMITS, contents=_CONTENTS)
    except JsonRefusedError as refusal:
        return blame(record, refusal, TRAJECTORY)
    try:
        thread, trajectory = _thread(value, options), _trajectory(value)
    except InvalidError as refusal:
        return record.bad(refusal.invalid_code, run=record.index)
    messages = read_messages(record, trajectory, thread, TRAJECTORY)
    if isinstance(messages, Bad):
        return messages
    return Run(
        thread=thread,
        messages=messages,
        index=record.index,
        place=record.place,
        unknown_fields=len(value.keys() - _FIELDS),
    )


def read_messages(
    record: Record, contents: list[Any], thread: Thread, member: str
) -> tuple[Message, ...] | Bad:
    """Return all messages that stand in the record's `member`, or the first bad one."""
    calls, messages = Calls(), list[Message]()
    for number, content in enumerate(contents):
        try:
            message = read_message(content, thread=thread.name, calls=calls)
        except (InvalidError, JsonRefusedError) as refusal:
            spans = records.find_elements(record.raw, member=member.encode())
            begin, _ = next(islice(spans, number, None), (0, 0))
            code = code_of(refusal)
            return record.bad(
                code,
                begin,
                run=record.index,
                message=number,
                detail=limits_of(refusal),
            )
        messages.append(message)
    return tuple(messages)


def blame(record: Record, refusal: JsonRefusedError, member: str) -> Bad:
    """Return the message that the parser refused the run for, if it was one.

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
    return record.bad(
        refusal.code,
        where,
        run=record.index,
        message=number,
        final=refusal.code == "invalid_json",
        detail=limits_of(refusal),
    )


def _thread(value: Any, options: Options) -> Thread:
    """The thread of a run. Raises InvalidError."""
    if not isinstance(value, dict):
        raise InvalidError(code="object_expected")
    task, trial = _task(value), _trial(value)
    reward, info = _reward(value), value.get("info")
    labels: dict[str, LabelValue] = {"source": options.source, "format": "runs"}
    labels |= {"task_id": task, "trial": trial}
    if reward is not None:
        labels["reward"] = reward
    return Thread(
        name=require_thread_name(f"{options.source}:{task}:{trial}"),
        user_id=options.user_id or read_user_id(_dig(info, "task", "user_id")),
        scope=Scope(
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


def _task(run: dict[str, Any]) -> str | int:
    task = _member(run, "task_id")
    if isinstance(task, int) and not isinstance(task, bool):
        return task
    return require_name(task, loc="task_id")


def _trial(run: dict[str, Any]) -> int:
    trial = _member(run, "trial")
    if not isinstance(trial, int) or isinstance(trial, bool):
        raise InvalidError(code="type", loc="trial")
    return trial


def _reward(run: dict[str, Any]) -> float | None:
    reward = run.get("reward")
    if reward is None:
        return None
    if not isinstance(reward, int | float) or isinstance(reward, bool):
        raise InvalidError(code="type", loc="reward")
    return float(reward)


def _trajectory(run: dict[str, Any]) -> list[Any]:
    trajectory = _member(run, TRAJECTORY)
    if not isinstance(trajectory, list):
        raise InvalidError(code="type", loc=TRAJECTORY)
    if not trajectory:
        # A thread without a message would not tell that the run was imported.
        raise InvalidError(code="value", loc=TRAJECTORY)
    return trajectory


def _member(run: dict[str, Any], name: str) -> Any:
    if run.get(name) is None:
        raise InvalidError(code="missing", loc=name)
    return run[name]


def _dig(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
