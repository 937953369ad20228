"""Simulations: paging driven by an import, to study paging on recorded traffic.

Before each message of the assistant its model call is played: referenced pages are
fetched back, a turn is begun, its request packed and recorded. Each step is a
transaction of its own, is found again after a crash, and is never repeated.
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
from memoryhub.journal import OrderReceipt, texts
from memoryhub.journal.log import log
from memoryhub.kernel.commands import Command, MadeLevels
from memoryhub.kernel.formats.transcripts import ImportedMessage
from memoryhub.kernel.levels import making
from memoryhub.kernel.messages.words import render_content_words
from memoryhub.kernel.packing.refusals import TooSmallError
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    FaultPage,
)
from memoryhub.kernel.state.events import ImportAdvanced, SlotAppended, ThreadConfig
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
from memoryhub.kernel.state.pages import FULL, Location, build_slot_page_id
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.kernel.text.references import References
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers
from memoryhub.queries.turns import contexts
from memoryhub.services.turns import turns

#: Most pages fetched back before one turn: more than a turn may fetch, so that refusals
#: show.
MAX_FAULTS = 8
#: Tokens of the context window reserved for rules, manifest and tools.
RESERVED_TOKENS = 4_000
#: Counted events of a simulation, besides evictions, with their words.
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

Send = Callable[[Command], OrderReceipt]


def build_config(budget: int) -> ThreadConfig:
    """Build the config of a thread that is paged under this budget."""
    return ThreadConfig(
        budget_tokens=budget, reserved_tokens=min(RESERVED_TOKENS, budget // 2)
    )


@dataclass(slots=True, kw_only=True)
class Simulation:
    """Simulated paging of one thread that an import writes."""

    budget: int
    counts: Counter[str]
    references: References = field(default_factory=References)
    #: References since the last turn: their author, and the earlier slots that contain
    #: the id.
    pending_references: list[tuple[By, tuple[int, ...]]] = field(default_factory=list)
    #: State after the last messages; None when it has to be read.
    state: ThreadState | None = None

    def note_references(
        self, messages: Sequence[ImportedMessage], *, first: int
    ) -> None:
        """Note the references in messages of the thread, from slot `first` on."""
        for slot, message in enumerate(messages, start=first):
            if message.turn_begins:
                self.pending_references.clear()
            by: By = "tool" if message.role == "tool" else "system"
            text = render_content_words(message.content)
            found = self.references.note(slot, text)
            self.pending_references += [(by, slots) for slots in found]

    def note_written(
        self, receipt: OrderReceipt, messages: Sequence[ImportedMessage], *, first: int
    ) -> None:
        """Note messages as written, and keep the state for the next turn."""
        self.note_references(messages, first=first)
        self.state = receipt.state
        self._count_events(receipt)

    def begin_turn(self, thread: Thread | None, send: Send) -> None:
        """Play the model call that the next message answers.

        Emits page.faulted or fault.refused each, turn.began and turn.packed, unless
        emitted before. `thread` comes with its subject, if there is one.
        """
        # A kept state is the one after messages that this process has written.
        began = _find_begun_turn(thread) if thread and self.state is None else None
        if thread and began:
            turn, state = began.n, _get_state(thread, thread.head_seq)
        else:
            self._fetch_pages(thread, send)
            receipt = send(BeginTurn(simulated=True, by="system"))
            self._count_events(receipt)
            assert receipt.state is not None
            turn, state = receipt.turn, receipt.state
        self._pack_turn(thread or _get_thread(state), state, turn, send)

    def _fetch_pages(self, thread: Thread | None, send: Send) -> None:
        """Fetch back referenced pages that are not mapped, as far as allowed."""
        if thread is None or not self.pending_references:
            return
        state, done = self.state, set[int]()
        if state is None:
            advanced, done = _find_fetched(thread)
            state = _get_state(thread, advanced)
        wanted = _choose_unmapped(self.pending_references, state)
        wanted = {slot: by for slot, by in wanted.items() if slot not in done}
        made = _make_levels(thread, [*wanted])
        for slot, by in wanted.items():
            command = FaultPage(
                page_id=build_slot_page_id(slot), made=made.get(slot), by=by
            )
            try:
                self._count_events(send(command))
            except _REFUSALS:
                # Not journaled, as this exchange has used its ten.
                self.counts["refusals"] += 1

    def _pack_turn(
        self, thread: Thread, state: ThreadState, turn: int, send: Send
    ) -> None:
        """Pack and record the request of a turn, unless packed already."""
        if turn in state.paging.packed:
            return
        narrower = self.budget < state.paging.settings.budget_tokens
        options = PackingOptions(
            name=names.remove_subject(thread.name, thread.subject_id),
            turn=turn,
            token_budget=self.budget if narrower else None,
        )
        try:
            before = contexts.find_previous(thread, turn)
            packed = contexts.pack_request(thread, state, options, before=before)
        except TooSmallError:
            self.counts["unpacked"] += 1
            return
        command = turns.build_record(
            packed,
            turn=turn,
            as_of_seq=state.seq,
            prefix=contexts.count_prefix_tokens(thread, turn, packed, before=before),
            simulated=True,
        )
        self._count_events(send(command))

    def _count_events(self, receipt: OrderReceipt) -> None:
        """Count the events of a receipt."""
        for each in receipt.events:
            if name := COUNTED.get(type(each.event)):
                self.counts[name] += 1
            if evicted := [*list_evictions(each.event)]:
                self.counts["evictions"] += len(evicted)


def require_budget(thread: Thread, budget: int) -> None:
    """Raise BudgetDiffersError if turns of the thread had another budget.

    Reads the budget of packed turns; before any, that of the thread's config. One
    query.
    """
    rows = Event.objects.filter(thread=thread, type=TurnPacked.event_type)
    rows = rows.filter(body__contains='"simulated":true').defer("payload")
    row = rows.order_by("-seq").first()
    packed = None if row is None else log.to_recorded(row).event
    if isinstance(packed, TurnPacked):
        was: int | None = packed.budget
    else:
        was = ThreadConfig(**orjson.loads(thread.config)).budget_tokens
    # Without turns and budget no budget was requested yet.
    if was != budget and (was is not None or thread.turn_count):
        raise BudgetDiffersError(was=was, requested=budget)


def has_begun_turn(thread: Thread) -> bool:
    """Return whether a simulated turn waits for its message."""
    return _find_begun_turn(thread) is not None


def _find_begun_turn(thread: Thread) -> TurnBegan | None:
    """Find the simulated turn that no message follows yet."""
    types = (TurnBegan.event_type, SlotAppended.event_type)
    rows = Event.objects.filter(thread=thread, type__in=types).defer("payload")
    row = rows.order_by("-seq").first()
    event = None if row is None else log.to_recorded(row).event
    return event if isinstance(event, TurnBegan) and event.simulated else None


def _find_fetched(thread: Thread) -> tuple[int, set[int]]:
    """Find the seq of the last messages, and the slots fetched since then."""
    rows = Event.objects.filter(thread=thread).defer("payload")
    advanced = rows.filter(type=ImportAdvanced.event_type).order_by("-seq").first()
    seq = 0 if advanced is None else advanced.seq
    types = [event.event_type for event in _FETCHING]
    since = [
        log.to_recorded(row).event for row in rows.filter(seq__gt=seq, type__in=types)
    ]
    fetched = {each.page_id for each in since if isinstance(each, _FETCHING)}
    return seq, {int(each.removeprefix("slot-")) for each in fetched if each}


def _choose_unmapped(
    shared: Sequence[tuple[By, tuple[int, ...]]], state: ThreadState
) -> dict[int, By]:
    """Choose for each id its newest slot not mapped, with the reference's author."""
    frames, chosen = state.paging.frames, dict[int, By]()
    for by, slots in shared:
        away = [slot for slot in slots if build_slot_page_id(slot) not in frames]
        if away and len(chosen) < MAX_FAULTS:
            chosen.setdefault(away[0], by)
    return chosen


def _make_levels(thread: Thread, slots: Sequence[int]) -> dict[int, MadeLevels]:
    """Make the levels of these slots. Two queries, or none."""
    if not slots:
        return {}
    rows = Slot.objects.filter(thread=thread, index__in=slots)
    seqs = dict(rows.values_list("index", "seq"))
    places = {slot: Location(thread.id, seq, FULL) for slot, seq in seqs.items()}
    opened = texts.open_texts(thread, [*places.values()])
    count = tokenizers.get_for_thread(thread).count
    return {
        slot: making.make_levels(opened[place], version=1, count=count)
        for slot, place in places.items()
        if place in opened
    }


def _get_thread(state: ThreadState) -> Thread:
    return Thread.objects.select_related("subject").get(id=state.id)


def _get_state(thread: Thread, seq: int) -> ThreadState:
    return journal.fold_thread(thread, seq).state
