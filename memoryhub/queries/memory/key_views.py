"""Views of a key: its value and its history. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db.models import Q

from memoryhub.errors import KeyNotFoundError
from memoryhub.journal import texts
from memoryhub.models.events import ChangesKeysOrTask, Event
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, count_fitting
from memoryhub.queries.memory import keys
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.queries.paging.page_views import PageStep
from memoryhub.queries.replay.states import compute_instant, load_state

#: Number of events in a key's history, and number of journal events searched.
HISTORY, REACH = 60, 20_000
_SETS = ("key.set", "key.retimed")
#: Event types that name their keys, and event types that concern all keys.
_NAMED = (*_SETS, "key.deleted", "keys.expired")
_ALL = ("keys.cleared", "checkpoint.restored")
TYPES = (*_NAMED, *_ALL)
#: A restore of a checkpoint outside the history; the restore may have moved the key.
_UNKNOWN = -1


class _KeyAfter(NamedTuple):
    """A key after an event: its version and the event that wrote its value; 0: none."""

    version: int
    #: None: the writing event is outside the history.
    wrote: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStep:
    """An event of a key, and the key's value after the event."""

    step: PageStep
    #: The event that wrote the value; 0: no value, None: the event is outside the
    #: history.
    wrote: int | None
    value: Any = None
    opened: bool = False
    #: Whether the value has been erased.
    erased: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """A key as of an event; an absent key can still have a history."""

    name: str
    #: None when the key is absent.
    line: KeyLine | None
    #: Expiry instant, if the key is absent because it expired.
    passed: datetime | None
    #: Newest first, at most `HISTORY`.
    history: tuple[KeyStep, ...]
    more_history: bool

    @property
    def erased(self) -> bool:
        return self.line is not None and self.line.erased


def get_view(thread: Thread, name: str, *, seq: int | None = None) -> KeyView:
    """Return a key as of `seq`. At most seven queries. `thread` comes with its subject.

    Raises KeyNotFoundError for a key that never existed.
    """
    state = load_state(thread, seq)
    entry, now = state.memory.contents.keys.get(name), compute_instant(state, seq)
    there = {name: entry} if entry is not None and entry.is_visible(now) else {}
    lines = keys.build_lines(thread, state, there, content=True) if there else ()
    newest = _list_candidates(thread, name, up_to=state.seq)
    whole = state.seq <= REACH and len(newest) <= 2 * HISTORY
    steps = _select_steps(
        reversed(newest), whole=whole, inherited=state.inherited_clock
    )
    if not lines and not steps and not _list_candidates(thread, name):
        raise KeyNotFoundError
    history = tuple(reversed(steps))[:HISTORY]
    return KeyView(
        name=name,
        line=lines[0] if lines else None,
        passed=entry.expires_at if entry is not None and not there else None,
        history=_open_values(thread, history, sizes=_map_sizes(newest)),
        more_history=len(steps) > HISTORY or len(newest) > 2 * HISTORY,
    )


def _list_candidates(
    thread: Thread, name: str, *, up_to: int | None = None
) -> list[PageStep]:
    """List events that may concern the key, newest first.

    Events that concern all keys are included even if they did not change this key.
    Without `up_to`, list only the events that name the key, up to the thread's head.
    """
    about = Q(type__in=_NAMED, body__contains=f'"key":"{name}"')
    if up_to is None:
        up_to = thread.head_seq
    else:
        about |= Q(type__in=_ALL)
    rows = Event.objects.filter(
        ChangesKeysOrTask("type"),
        about,
        thread_id=thread.id,
        seq__gt=up_to - REACH,
        seq__lte=up_to,
    )
    newest = rows.defer("payload").order_by("-seq")[: 2 * HISTORY + 1]
    return [step for step in map(_build_step, newest) if _is_about(step.body, name)]


def _build_step(row: Event) -> PageStep:
    return PageStep(
        seq=row.seq,
        at=row.at,
        type=row.type,
        actor=row.actor,
        body=orjson.loads(row.body),
    )


def _is_about(body: Mapping[str, Any], name: str) -> bool:
    """Tell whether an event names exactly this key: databases may fold case."""
    if "keys" in body:
        return any(each["key"] == name for each in body["keys"])
    return bool(body.get("key", name) == name)


def _map_sizes(steps: Iterable[PageStep]) -> dict[int, int]:
    """Map each event that set the key to the bytes of its value."""
    return {step.seq: step.body["bytes"] for step in steps if step.type == "key.set"}


def _open_values(
    thread: Thread, history: Sequence[KeyStep], *, sizes: Mapping[int, int]
) -> tuple[KeyStep, ...]:
    """Open the newest values, as many as fit one response. At most one query."""
    left = dict.fromkeys(each.wrote for each in history)
    wrote = [seq for seq in left if seq is not None and seq in sizes]
    count = count_fitting((sizes[seq] for seq in wrote), max_bytes=PART_BYTES)
    places = [(thread.id, seq) for seq in wrote[:count]]
    found = texts.open_events_at(thread, places) if places else {}
    return tuple(
        _add_value(each, found.get((thread.id, each.wrote or 0))) for each in history
    )


def _add_value(each: KeyStep, found: texts.OpenedEvent | None) -> KeyStep:
    if found is None:
        return each
    if found.content is None:
        return replace(each, erased=True)
    return replace(each, value=found.content["value"], opened=True)


def _select_steps(
    steps: Iterable[PageStep], *, whole: bool, inherited: int
) -> list[KeyStep]:
    """Select, oldest first, the candidate events that moved the key or may have."""
    moved: list[KeyStep] = []
    held = _KeyAfter(0, 0) if whole and not inherited else _KeyAfter(_UNKNOWN, None)
    #: The key after each event of the history.
    after = {0: held}
    for step in steps:
        new = _compute_after(step, after, held, inherited)
        if new is None or (new.version == held.version and step.type in _ALL):
            continue
        after[step.seq] = held = new
        moved.append(KeyStep(step=step, wrote=new.wrote))
    return moved


def _compute_after(
    step: PageStep, after: Mapping[int, _KeyAfter], held: _KeyAfter, inherited: int
) -> _KeyAfter | None:
    """Return the key after an event; None if a restore did not restore keys."""
    if step.type == "key.set":
        return _KeyAfter(step.seq, step.seq)
    if step.type == "key.retimed":
        return _KeyAfter(step.seq, held.wrote)
    if step.type != "checkpoint.restored":
        return _KeyAfter(0, 0)
    if "keys" not in step.body["parts"]:
        return None
    target = step.body["target"] - inherited
    if target <= 0:
        return _KeyAfter(_UNKNOWN, None)
    return after[max(seq for seq in after if seq <= target)]
