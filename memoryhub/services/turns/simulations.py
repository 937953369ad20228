"""Simulations: paging driven by an import, to look at it on recorded traffic.

Before each message of the assistant its model call is played: pages that the messages
refer to are fetched back, a turn is begun, its request packed and recorded. Each step
is a transaction of its own and is found again after a kill, never done twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import orjson

from memoryhub import journal
from memoryhub.errors import (
    BudgetDiffersError,
    FaultBudgetError,
    FaultConfidenceError,
    PageErasedError,
    PageUnknownError,
)
from memoryhub.journal import Receipt
from memoryhub.journal.log import log
from memoryhub.journal.writing import texts
from memoryhub.kernel.commands import Command, MadeLevels
from memoryhub.kernel.formats.transcripts import Message
from memoryhub.kernel.levels import making
from memoryhub.kernel.messages.words import content_words
from memoryhub.kernel.packing.packing import TooSmallError
from memoryhub.kernel.packing.selection import Options
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    FaultPage,
)
from memoryhub.kernel.state.events import ImportAdvanced, Limits, SlotAppended
from memoryhub.kernel.state.page_events import (
    By,
    FaultRefused,
    PageFaulted,
    PageLowered,
    PageMapped,
    PageReferenced,
    TurnBegan,
    TurnPacked,
    list_evictions,
)
from memoryhub.kernel.state.pages import FULL, Location, slot_page_id
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.kernel.text.references import References
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers
from memoryhub.queries.turns import contexts
from memoryhub.services.turns import turns

#: Pages fetched back before one turn. More than a turn may, so that refusals show.
FAULTS = 8
#: Of a context window, what is left for rules, manifest and tools.
RESERVED = 4_000
#: What is counted of a simulation beside evictions, by the events that tell of it.
COUNTED = {
    TurnPacked: "contexts",
    PageMapped: "maps",
    PageFaulted: "faults",
    FaultRefused: "refusals",
    PageLowered: "lowerings",
}
_REFUSALS = (
    FaultBudgetError,
    FaultConfidenceError,
    PageErasedError,
    PageUnknownError,
)
_FETCHING = (PageFaulted, FaultRefused, PageReferenced)

Send = Callable[[Command], Receipt]


def config(budget: int) -> Limits:
    """Return the config of a thread that is paged under such a budget."""
    return Limits(budget_tokens=budget, reserved_tokens=min(RESERVED, budget // 2))


@dataclass(slots=True, kw_only=True)
class Simulation:
    """The paging of one thread that an import writes."""

    budget: int
    counts: Counter[str]
    references: References = field(default_factory=References)
    #: Since the last turn: who brought an id, and the earlier slots that hold it.
    shared: list[tuple[By, tuple[int, ...]]] = field(default_factory=list)
    #: After the last messages; None when it has to be read.
    state: ThreadState | None = None

    def note(self, messages: Sequence[Message], *, first: int) -> None:
        """Note that the thread holds these, from that slot on."""
        for slot, message in enumerate(messages, start=first):
            if message.turn_begins:
                self.shared.clear()
            by: By = "tool" if message.role == "tool" else "system"
            text = content_words(message.content)
            found = self.references.note(slot, text)
            self.shared += [(by, slots) for slots in found]

    def wrote(
        self, receipt: Receipt, messages: Sequence[Message], *, first: int
    ) -> None:
        """Note messages as written; the next turn is of the thread as it is now."""
        self.note(messages, first=first)
        self.state = receipt.state
        self._count(receipt)

    def begin_turn(self, thread: Thread | None, send: Send) -> None:
        """Play the model call that the next message answers.

        Emits page.faulted or fault.refused each, turn.began and turn.packed, as far as
        they are not there yet. `thread` comes with its subject, if there is one.
        """
        # A state in hand is that after messages which this process has written.
        began = _begun(thread) if thread and self.state is None else None
        if thread and began:
            turn, state = began.n, _state(thread, thread.head_seq)
        else:
            self._fetch(thread, send)
            receipt = send(BeginTurn(simulated=True, by="system"))
            self._count(receipt)
            assert receipt.state is not None
            turn, state = receipt.turn, receipt.state
        self._pack(thread or _thread(state), state, turn, send)

    def _fetch(self, thread: Thread | None, send: Send) -> None:
        """Fetch back what is referred to and not mapped, as far as it is allowed."""
        if thread is None or not self.shared:
            return
        state, done = self.state, set[int]()
        if state is None:
            advanced, done = _fetched(thread)
            state = _state(thread, advanced)
        wanted = _unmapped(self.shared, state)
        wanted = {slot: by for slot, by in wanted.items() if slot not in done}
        made = _made(thread, [*wanted])
        for slot, by in wanted.items():
            command = FaultPage(page_id=slot_page_id(slot), made=made.get(slot), by=by)
            try:
                self._count(send(command))
            except _REFUSALS:
                # Journaled no more, since this exchange has had its ten.
                self.counts["refusals"] += 1

    def _pack(self, thread: Thread, state: ThreadState, turn: int, send: Send) -> None:
        if turn in state.paging.packed:
            return
        narrower = self.budget < state.paging.settings.budget_tokens
        options = Options(
            name=names.called(thread.name, thread.subject_id),
            turn=turn,
            token_budget=self.budget if narrower else None,
        )
        try:
            before = contexts.before(thread, turn)
            packed = contexts.pack(thread, state, options, before=before)
        except TooSmallError:
            self.counts["unpacked"] += 1
            return
        command = turns.record(
            packed,
            turn=turn,
            as_of_seq=state.seq,
            prefix=contexts.prefix_tokens(thread, turn, packed, before=before),
            simulated=True,
        )
        self._count(send(command))

    def _count(self, receipt: Receipt) -> None:
        for each in receipt.events:
            if name := COUNTED.get(type(each.event)):
                self.counts[name] += 1
            if evicted := [*list_evictions(each.event)]:
                self.counts["evictions"] += len(evicted)


def require_budget(thread: Thread, budget: int) -> None:
    """Raise BudgetDiffersError if turns of the thread were played under another one.

    What was packed says so; before that, what the thread was made for. One query.
    """
    rows = Event.objects.filter(thread=thread, type=TurnPacked.event_type)
    rows = rows.filter(body__contains='"simulated":true').defer("payload")
    row = rows.order_by("-seq").first()
    packed = None if row is None else log.recorded(row).event
    if isinstance(packed, TurnPacked):
        was: int | None = packed.budget
    else:
        was = Limits(**orjson.loads(thread.config)).budget_tokens
    # Where no turn was begun and no budget set, none was asked for yet.
    if was != budget and (was is not None or thread.turn_count):
        raise BudgetDiffersError(was=was, requested=budget)


def begun(thread: Thread) -> bool:
    """Return whether a simulated turn waits for the message that it was begun for."""
    return _begun(thread) is not None


def _begun(thread: Thread) -> TurnBegan | None:
    types = (TurnBegan.event_type, SlotAppended.event_type)
    rows = Event.objects.filter(thread=thread, type__in=types).defer("payload")
    row = rows.order_by("-seq").first()
    event = None if row is None else log.recorded(row).event
    return event if isinstance(event, TurnBegan) and event.simulated else None


def _fetched(thread: Thread) -> tuple[int, set[int]]:
    """The seq of the last messages, and the slots that were asked for since then."""
    rows = Event.objects.filter(thread=thread).defer("payload")
    advanced = rows.filter(type=ImportAdvanced.event_type).order_by("-seq").first()
    seq = 0 if advanced is None else advanced.seq
    types = [event.event_type for event in _FETCHING]
    since = [
        log.recorded(row).event for row in rows.filter(seq__gt=seq, type__in=types)
    ]
    fetched = {each.page_id for each in since if isinstance(each, _FETCHING)}
    return seq, {int(each.removeprefix("slot-")) for each in fetched if each}


def _unmapped(
    shared: Sequence[tuple[By, tuple[int, ...]]], state: ThreadState
) -> dict[int, By]:
    """By slot, of each id the newest that is not mapped; and who refers to it."""
    frames, chosen = state.paging.frames, dict[int, By]()
    for by, slots in shared:
        away = [slot for slot in slots if slot_page_id(slot) not in frames]
        if away and len(chosen) < FAULTS:
            chosen.setdefault(away[0], by)
    return chosen


def _made(thread: Thread, slots: Sequence[int]) -> dict[int, MadeLevels]:
    """The levels of these slots. Two queries, or none."""
    if not slots:
        return {}
    rows = Slot.objects.filter(thread=thread, index__in=slots)
    seqs = dict(rows.values_list("index", "seq"))
    places = {slot: Location(thread.id, seq, FULL) for slot, seq in seqs.items()}
    opened = texts.opened(thread, [*places.values()])
    count = tokenizers.of(thread).count
    return {
        slot: making.made_of(opened[place], version=1, count=count)
        for slot, place in places.items()
        if place in opened
    }


def _thread(state: ThreadState) -> Thread:
    return Thread.objects.select_related("subject").get(id=state.id)


def _state(thread: Thread, seq: int) -> ThreadState:
    return journal.state_at(thread, seq).state
