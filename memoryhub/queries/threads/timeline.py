"""The timeline: what a thread's events did, one by one and from afar. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from memoryhub.journal.log import log
from memoryhub.journal.log.log import Folded
from memoryhub.journal.rows import projections
from memoryhub.kernel import state_json
from memoryhub.kernel.memory.nouns import measured
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import WorkingMemory
from memoryhub.kernel.threads.slots import agent_time
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.threads.events import EventLine
from memoryhub.queries.threads.slots import SlotLine

#: Kinds of events that a reader jumps to.
MARKS = (
    "thread.forked",
    "thread.closed",
    "thread.reopened",
    "thread.configured",
    "thread.described",
    "thread.retired",
    "run.recorded",
    "turn.began",
    "page.faulted",
    "fault.refused",
    "page.evicted",
    "pages.evicted",
    "checkpoint.taken",
    "checkpoint.restored",
)
#: Events that a jump looks over at most.
REACH = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A field of the state that an event moved, as plain JSON values."""

    name: str
    before: object
    after: object

    @property
    def delta(self) -> int | None:
        old, new = self.before, self.after
        return new - old if type(old) is int and type(new) is int else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The state as of an event, and what that event changed."""

    state: ThreadState
    changes: tuple[Change, ...]
    chain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The nearest marks before and after a seq; None if there is none in reach."""

    previous: int | None
    next: int | None


#: Fields of the state that every event moves, or that say nothing to a reader.
_PLAIN = frozenset({"id", "project", "subject", "seq", "at", "active_seq", "active_at"})


def get_moment(thread: Thread, seq: int) -> Moment:
    """Return the state at `seq` and what its event changed.

    Four queries and a bounded fold. `thread` comes with its subject. Raises
    SeqUnknownError beyond the head.
    """
    if seq == 0:
        return Moment(state=log.empty_state(thread), changes=(), chain="")
    states = replay.states_at(thread, (seq - 1, seq))
    return moment_of(states[seq - 1], states[seq])


def moment_of(before: Folded | None, after: Folded) -> Moment:
    """Return a state, and what its event made of the one before it. Pure.

    Before the first event there is none.
    """
    if before is None:
        return Moment(state=after.state, changes=(), chain="")
    return Moment(
        state=after.state,
        changes=differences(before.state, after.state),
        chain=after.chain.hex(),
    )


def differences(before: ThreadState, after: ThreadState) -> tuple[Change, ...]:
    """Return the fields that differ between two states of a thread, in their order."""
    old, new = _plain(before), _plain(after)
    changed = [name for name in new if name not in _PLAIN and old[name] != new[name]]
    found: list[Change] = []
    for name in changed:
        if isinstance(new[name], dict):
            found += _entries(name, old[name], new[name])
        else:
            found.append(Change(name=name, before=old[name], after=new[name]))
    return tuple(found)


def _plain(state: ThreadState) -> dict[str, Any]:
    """The state as plain values; figures in the place of thousands of pages and keys.

    Which of them moved is what the event itself tells.
    """
    paging = state.paging
    plain = state_json.to_json(state._replace(paging=Paging(), memory=WorkingMemory()))
    plain["paging"] = {
        "mapped": len(paging.frames),
        "tokens": paging.used,
        "hot": len(paging.hot),
        "pinned": len(paging.pins),
        "pages": paging.pages,
        "tlb": len(paging.tlb.held),
        "faults_spent": paging.spent.faults,
        "fault_tokens_spent": paging.spent.tokens,
        **projections.paging_counters(state),
    }
    plain["memory"] = _memory(state.memory)
    return plain


def _memory(memory: WorkingMemory) -> dict[str, Any]:
    """What is reported of each noun; what is expired and not yet swept counts."""
    contents = memory.contents
    return {
        "keys": len(contents.keys),
        "key_bytes": contents.key_bytes,
        **measured(contents, "timeline"),
        "checkpoints": memory.taken,
        "automatic_checkpoints": len(memory.automatic),
    }


def get_marks(thread: Thread, seq: int, *, near: Sequence[EventLine]) -> Marks:
    """Return where the jump buttons lead.

    At most two queries, over REACH events each. `near` are the events around `seq`, in
    order: mostly the marks are among them.
    """
    found = [line.seq for line in near if line.type in MARKS]
    marks = Event.objects.filter(thread_id=thread.id, type__in=MARKS)
    seqs = marks.values_list("seq", flat=True)
    previous = max((mark for mark in found if mark < seq), default=None)
    if previous is None:
        before = seqs.filter(seq__lt=seq, seq__gte=seq - REACH)
        previous = before.order_by("-seq").first()
    following = min((mark for mark in found if mark > seq), default=None)
    if following is None:
        after = seqs.filter(seq__gt=seq, seq__lte=seq + REACH)
        following = after.order_by("seq").first()
    return Marks(previous=previous, next=following)


def slot_of(thread: Thread, line: EventLine, *, turn: int) -> SlotLine:
    """Return the slot that a `slot.appended` brought.

    No query: the event has it all.
    """
    event = SlotAppended.model_validate_json(orjson.dumps(dict(line.body)))
    payload = line.payload or {}
    return SlotLine(
        thread=thread.id,
        index=event.index,
        seq=line.seq,
        home=thread.id,
        at=line.at,
        turn=turn,
        from_name=event.from_name,
        to_name=event.to_name,
        type=event.type,
        role=event.role,
        tokens=event.tokens,
        bytes=event.bytes,
        agent_at=agent_time(payload),
        own_name=event.own_name,
        is_self_call=payload.get("is_self_call"),
        erased=line.erased,
        content=payload.get("content"),
        usage_instructions=payload.get("usage_instructions", ""),
        todo_nudge=payload.get("todo_nudge", ""),
    )


def _entries(name: str, old: dict[str, object], new: dict[str, object]) -> list[Change]:
    """What changed inside a field that is itself a map."""
    return [
        Change(name=f"{name} · {key}", before=old.get(key, 0), after=new.get(key, 0))
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]
