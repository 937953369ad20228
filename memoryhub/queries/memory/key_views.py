"""A key as people look at it: its value and all that happened to it. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db.models import Q

from memoryhub.errors import KeyNotFoundError
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, fitting
from memoryhub.queries.memory import keys
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.queries.paging.page_views import Step
from memoryhub.queries.replay import payloads
from memoryhub.queries.replay.states import now_of, state_of

#: Events of a key that its view tells, and how many of a journal are looked through.
HISTORY, REACH = 60, 20_000
_SETS = ("key.set", "key.retimed")
#: What names the keys that it is about, and what is about all of them.
_NAMED = (*_SETS, "key.deleted", "keys.expired")
_ALL = ("keys.cleared", "checkpoint.restored")
#: A restore of something that is not told here may have moved the key.
_UNTOLD = -1


class _Left(NamedTuple):
    """What an event left of a key: its version and who wrote its value; 0 for none."""

    version: int
    #: None: that is not told here.
    wrote: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStep:
    """An event of a key, and the value it left."""

    step: Step
    #: The event that wrote that value; 0: it left none, None: that is not told here.
    wrote: int | None
    value: Any = None
    opened: bool = False
    #: It is gone for good.
    erased: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """A key as of an event; it may be gone, and still have a history."""

    name: str
    #: None when it is not there.
    line: KeyLine | None
    #: When it expired, if that is why it is not there.
    passed: datetime | None
    #: Newest first, at most `HISTORY`.
    history: tuple[KeyStep, ...]
    more_history: bool

    @property
    def erased(self) -> bool:
        return self.line is not None and self.line.erased


def get_view(thread: Thread, name: str, *, seq: int | None = None) -> KeyView:
    """A key as of `seq`. At most seven queries. `thread` comes with its subject.

    Raises KeyNotFoundError for one that never was.
    """
    state = state_of(thread, seq)
    entry, now = state.memory.contents.keys.get(name), now_of(state, seq)
    there = {name: entry} if entry is not None and entry.visible(now) else {}
    lines = keys.lines(thread, state, there, content=True) if there else ()
    newest = _candidates(thread, name, up_to=state.seq)
    whole = state.seq <= REACH and len(newest) <= 2 * HISTORY
    steps = _key_steps(reversed(newest), whole=whole, inherited=state.inherited_clock)
    if not lines and not steps and not _candidates(thread, name):
        raise KeyNotFoundError
    history = tuple(reversed(steps))[:HISTORY]
    return KeyView(
        name=name,
        line=lines[0] if lines else None,
        passed=entry.expires_at if entry is not None and not there else None,
        history=_with_values(thread, history, sizes=_sizes(newest)),
        more_history=len(steps) > HISTORY or len(newest) > 2 * HISTORY,
    )


def _candidates(thread: Thread, name: str, *, up_to: int | None = None) -> list[Step]:
    """Newest first; of those that are about all keys, also such as did nothing here.

    Without a seq those that name the key, of the journal as it is now.
    """
    about = Q(type__in=_NAMED, body__contains=f'"key":"{name}"')
    if up_to is None:
        up_to = thread.head_seq
    else:
        about |= Q(type__in=_ALL)
    rows = Event.objects.filter(
        about,
        thread_id=thread.id,
        seq__gt=up_to - REACH,
        seq__lte=up_to,
    )
    newest = rows.defer("payload").order_by("-seq")[: 2 * HISTORY + 1]
    return [step for step in map(_step, newest) if _about(step.body, name)]


def _step(row: Event) -> Step:
    return Step(
        seq=row.seq,
        at=row.at,
        type=row.type,
        actor=row.actor,
        body=orjson.loads(row.body),
    )


def _about(body: Mapping[str, Any], name: str) -> bool:
    """Whether an event is about this very key: databases may fold case."""
    if "keys" in body:
        return any(each["key"] == name for each in body["keys"])
    return bool(body.get("key", name) == name)


def _sizes(steps: Iterable[Step]) -> dict[int, int]:
    """Bytes of the value that each of them wrote."""
    return {step.seq: step.body["bytes"] for step in steps if step.type == "key.set"}


def _with_values(
    thread: Thread, history: Sequence[KeyStep], *, sizes: Mapping[int, int]
) -> tuple[KeyStep, ...]:
    """Open the values of the newest, as many as one answer has. At most one query."""
    left = dict.fromkeys(each.wrote for each in history)
    wrote = [seq for seq in left if seq is not None and seq in sizes]
    count = fitting((sizes[seq] for seq in wrote), max_bytes=PART_BYTES)
    places = [(thread.id, seq) for seq in wrote[:count]]
    found = payloads.opened_at(thread, places) if places else {}
    return tuple(
        _with_value(each, found.get((thread.id, each.wrote or 0))) for each in history
    )


def _with_value(each: KeyStep, found: payloads.Opened | None) -> KeyStep:
    if found is None:
        return each
    if found.content is None:
        return replace(each, erased=True)
    return replace(each, value=found.content["value"], opened=True)


def _key_steps(steps: Iterable[Step], *, whole: bool, inherited: int) -> list[KeyStep]:
    """Of the candidates, oldest first, those that moved the key or may have."""
    moved: list[KeyStep] = []
    held = _Left(0, 0) if whole and not inherited else _Left(_UNTOLD, None)
    #: What each event that is told left of the key.
    after = {0: held}
    for step in steps:
        new = _left(step, after, held, inherited)
        if new is None or (new.version == held.version and step.type in _ALL):
            continue
        after[step.seq] = held = new
        moved.append(KeyStep(step=step, wrote=new.wrote))
    return moved


def _left(
    step: Step, after: Mapping[int, _Left], held: _Left, inherited: int
) -> _Left | None:
    """What an event left of the key; None if it is about no keys."""
    if step.type == "key.set":
        return _Left(step.seq, step.seq)
    if step.type == "key.retimed":
        return _Left(step.seq, held.wrote)
    if step.type != "checkpoint.restored":
        return _Left(0, 0)
    if "keys" not in step.body["parts"]:
        return None
    target = step.body["target"] - inherited
    if target <= 0:
        return _Left(_UNTOLD, None)
    return after[max(seq for seq in after if seq <= target)]
