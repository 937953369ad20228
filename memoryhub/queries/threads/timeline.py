"""Timeline of a thread: the changes by each event, and marks to jump to.

Never writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from memoryhub.journal.log import log
from memoryhub.journal.log.log import FoldedThread
from memoryhub.journal.rows import projections
from memoryhub.kernel import state_json
from memoryhub.kernel.memory.nouns import measure_contents
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.knowledge import Knowledge
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import WorkingMemory
from memoryhub.kernel.threads.slots import parse_agent_time
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.threads.events import ThreadEventLine
from memoryhub.queries.threads.slots import SlotLine

#: Event types of marks: events that a reader jumps to.
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
#: Maximum number of events searched for a mark.
REACH = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFieldChange:
    """A field of the state that an event changed, as plain JSON values."""

    name: str
    before: object
    after: object

    @property
    def delta(self) -> int | None:
        old, new = self.before, self.after
        return new - old if type(old) is int and type(new) is int else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMoment:
    """The state as of an event, and the changes by that event."""

    state: ThreadState
    changes: tuple[StateFieldChange, ...]
    chain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestMarks:
    """The nearest marks before and after a seq; None if no mark is in reach."""

    previous: int | None
    next: int | None


#: Fields of the state that every event changes, or that mean nothing to a reader.
_PLAIN = frozenset({"id", "project", "subject", "seq", "at", "active_seq", "active_at"})


def get_moment(thread: Thread, seq: int) -> TimelineMoment:
    """Return the state at `seq` and the changes by its event.

    Four queries and a bounded fold. `thread` comes with its subject. Raises
    SeqUnknownError beyond the head.
    """
    if seq == 0:
        return TimelineMoment(state=log.build_empty_state(thread), changes=(), chain="")
    states = replay.load_states_at(thread, (seq - 1, seq))
    return build_moment(states[seq - 1], states[seq])


def build_moment(before: FoldedThread | None, after: FoldedThread) -> TimelineMoment:
    """Build the moment of a state, with the changes since the state before. Pure.

    Without a state before, there are no changes.
    """
    if before is None:
        return TimelineMoment(state=after.state, changes=(), chain="")
    return TimelineMoment(
        state=after.state,
        changes=list_differences(before.state, after.state),
        chain=after.chain.hex(),
    )


def list_differences(
    before: ThreadState, after: ThreadState
) -> tuple[StateFieldChange, ...]:
    """List the fields that differ between two states of a thread, in field order."""
    old, new = _to_plain(before), _to_plain(after)
    # A state without calls has no such field.
    names = [name for name in {**old, **new} if name not in _PLAIN]
    changed = [name for name in names if old.get(name) != new.get(name)]
    found: list[StateFieldChange] = []
    for name in changed:
        was, now = old.get(name), new.get(name)
        if isinstance(was, dict) and isinstance(now, dict):
            found += _list_entry_changes(name, was, now)
        else:
            found.append(StateFieldChange(name=name, before=was, after=now))
    return tuple(found)


def _to_plain(state: ThreadState) -> dict[str, Any]:
    """Convert a state to plain values, with counts in place of pages, keys and facts.

    The event itself names what it changed.
    """
    paging = state.paging
    emptied = state._replace(
        paging=Paging(), memory=WorkingMemory(), knowledge=Knowledge()
    )
    plain = state_json.to_json(emptied)
    plain["paging"] = {
        "mapped": len(paging.frames),
        "tokens": paging.used,
        "hot": len(paging.hot),
        "pinned": len(paging.pins),
        "pages": paging.pages,
        "tlb": len(paging.tlb.held),
        "faults_spent": paging.spent.faults,
        "fault_tokens_spent": paging.spent.tokens,
        **projections.count_paging(state),
    }
    plain["memory"] = _count_memory(state.memory)
    plain["knowledge"] = _count_knowledge(state.knowledge)
    return plain


def _count_knowledge(knowledge: Knowledge) -> dict[str, Any]:
    """Count assertions, settings, and the exchanges that were searched for facts."""
    assertions = knowledge.assertions.values()
    threads = [*knowledge.consolidated.values()]
    return {
        "assertions": len(knowledge.assertions),
        "retracted": sum(each.retracted_seq is not None for each in assertions),
        "settings": len(knowledge.configured),
        "messages_searched": sum(each.to for each in threads),
        "failed_exchanges": sum(len(each.failed) for each in threads),
        "requested_exchanges": sum(map(len, knowledge.requested.values())),
        "model_hosts": len(knowledge.hosts),
    }


def _count_memory(memory: WorkingMemory) -> dict[str, Any]:
    """Count the records of each noun, expired keys not yet swept included."""
    contents = memory.contents
    return {
        "keys": len(contents.keys),
        "key_bytes": contents.key_bytes,
        **measure_contents(contents, "timeline"),
        "checkpoints": memory.taken,
        "automatic_checkpoints": len(memory.automatic),
    }


def get_marks(
    thread: Thread, seq: int, *, near: Sequence[ThreadEventLine]
) -> NearestMarks:
    """Return the marks before and after a seq.

    At most two queries, over REACH events each. `near` are the events around `seq`, in
    order; usually the marks are among them.
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
    return NearestMarks(previous=previous, next=following)


def build_slot_line(thread: Thread, line: ThreadEventLine, *, turn: int) -> SlotLine:
    """Build the line of the slot that a `slot.appended` event appended.

    No query: the event has all fields.
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
        agent_at=parse_agent_time(payload),
        own_name=event.own_name,
        is_self_call=payload.get("is_self_call"),
        erased=line.erased,
        struck_seq=None,
        content=payload.get("content"),
        usage_instructions=payload.get("usage_instructions", ""),
        todo_nudge=payload.get("todo_nudge", ""),
    )


def _list_entry_changes(
    name: str, old: dict[str, object], new: dict[str, object]
) -> list[StateFieldChange]:
    """List the changes inside a field that is itself a map."""
    return [
        StateFieldChange(
            name=f"{name} · {key}", before=old.get(key, 0), after=new.get(key, 0)
        )
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]
