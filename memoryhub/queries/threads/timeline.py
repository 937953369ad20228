"""The timeline: what a thread's events did, one by one and from afar. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from memoryhub.journal.log import log
from memoryhub.journal.rows import projections
from memoryhub.kernel import state_json
from memoryhub.kernel.memory.nouns import measured
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import WorkingMemory
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.events import EventLine
from memoryhub.queries.threads.forks import get_segments
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
    "checkpoint.taken",
    "checkpoint.restored",
)
#: Events that a jump looks over at most.
REACH = 20_000
BUCKETS = 200
#: Slots that the minimap reads one by one; a longer thread shows its snapshots.
_READ_SLOTS = 5_000


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
class Bucket:
    """A stretch of the journal, first to last seq, in the minimap."""

    first: int
    last: int
    slots: int = 0
    turns: int = 0
    tokens: int = 0
    #: Of the slot with the most tokens; None in a stretch without slots.
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The nearest marks before and after a seq; None if there is none in reach."""

    previous: int | None
    next: int | None


#: Fields of the state that every event moves, or that say nothing to a reader.
_PLAIN = frozenset({"id", "project", "subject", "seq", "at", "active_seq", "active_at"})


def get_moment(thread: Thread, seq: int) -> Moment:
    """The state at `seq` and what its event changed. Four queries and a bounded fold.

    `thread` comes with its subject. Raises SeqUnknownError beyond the head.
    """
    if seq == 0:
        return Moment(state=log.empty_state(thread), changes=(), chain="")
    before = replay.state_at(thread, seq - 1)
    after = log.follow(before, up_to=seq)
    return Moment(
        state=after.state,
        changes=differences(before.state, after.state),
        chain=after.chain.hex(),
    )


def differences(before: ThreadState, after: ThreadState) -> tuple[Change, ...]:
    """The fields that differ between two states of a thread, in their order."""
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
    """Where the jump buttons lead. At most two queries, over REACH events each.

    `near` are the events around `seq`, in order: mostly the marks are among them.
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
    """The slot that a `slot.appended` brought. No query: the event has it all."""
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
        agent_at=slots.agent_at(payload),
        own_name=event.own_name,
        is_self_call=payload.get("is_self_call"),
        erased=line.erased,
        content=payload.get("content"),
        usage_instructions=payload.get("usage_instructions", ""),
        todo_nudge=payload.get("todo_nudge", ""),
    )


def get_minimap(thread: Thread) -> tuple[Bucket, ...]:
    """The whole journal in at most BUCKETS stretches. Two queries.

    A short thread is drawn from its slots, a long one from the counters of its
    snapshots, so that a million events cost the same.
    """
    own = thread.slot_count - get_segments(thread)[-1].first
    if own <= _READ_SLOTS and thread.head_seq <= 4 * _READ_SLOTS:
        return _from_slots(thread)
    return _from_snapshots(thread)


def _from_slots(thread: Thread) -> tuple[Bucket, ...]:
    width = max(1, -(-thread.head_seq // BUCKETS))
    slots: dict[int, list[tuple[int, str | None]]] = {}
    rows = Slot.objects.filter(thread_id=thread.id)
    for seq, role, tokens in rows.values_list("seq", "role", "tokens"):
        slots.setdefault((seq - 1) // width, []).append((tokens, role))
    turns: dict[int, int] = {}
    begun = Turn.objects.filter(thread_id=thread.id, seq__lte=thread.head_seq)
    for seq in begun.values_list("seq", flat=True):
        turns[(seq - 1) // width] = turns.get((seq - 1) // width, 0) + 1
    return tuple(
        _bucket(thread, place, width, slots.get(place, []), turns.get(place, 0))
        for place in range(-(-thread.head_seq // width))
    )


def _bucket(
    thread: Thread,
    place: int,
    width: int,
    slots: list[tuple[int, str | None]],
    turns: int,
) -> Bucket:
    return Bucket(
        first=place * width + 1,
        last=min((place + 1) * width, thread.head_seq),
        slots=len(slots),
        turns=turns,
        tokens=sum(tokens for tokens, _ in slots),
        role=max(slots, key=lambda slot: slot[0])[1] or "other" if slots else None,
    )


def _from_snapshots(thread: Thread) -> tuple[Bucket, ...]:
    rows = Snapshot.objects.filter(thread_id=thread.id).order_by("seq")
    kept = [
        (seq, orjson.loads(counters))
        for seq, counters in rows.values_list("seq", "counters")
    ]
    kept.append(
        (
            thread.head_seq,
            {"slots": thread.slot_count, "turns": thread.turn_count},
        )
    )
    every = max(1, -(-len(kept) // BUCKETS))
    ends = [*kept[every - 1 :: every]]
    if ends[-1] is not kept[-1]:
        ends.append(kept[-1])
    return tuple(_stretches(get_segments(thread)[-1].first, ends))


def _stretches(
    inherited: int, ends: list[tuple[int, dict[str, int]]]
) -> Iterable[Bucket]:
    seq, slots, turns = 0, inherited, 0
    for end, counters in ends:
        yield Bucket(
            first=seq + 1,
            last=end,
            slots=counters["slots"] - slots,
            turns=counters["turns"] - turns,
            role="other" if counters["slots"] > slots else None,
        )
        seq, slots, turns = end, counters["slots"], counters["turns"]


def _entries(name: str, old: dict[str, object], new: dict[str, object]) -> list[Change]:
    """What changed inside a field that is itself a map."""
    return [
        Change(name=f"{name} · {key}", before=old.get(key, 0), after=new.get(key, 0))
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]
