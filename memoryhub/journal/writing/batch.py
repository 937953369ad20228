"""One batch: many commands decided, appended and projected in one transaction.

A refusal fails its own command only. If another process moved one of the threads
meanwhile, the whole attempt is void, and the batch is decided again on fresh states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from memoryhub.errors import (
    IdempotencyMismatchError,
    NameTakenError,
    NotFoundError,
    Refusal,
    StaleError,
    SubjectErasedError,
    SubjectHeldError,
    SubjectRestrictedError,
    ThreadErasedError,
)
from memoryhub.journal import audit, texts
from memoryhub.journal.log import fence, heads, requests, snapshots, thread_terms
from memoryhub.journal.log.heads import Heads, ThreadHead
from memoryhub.journal.log.orders import Address, NewThread, Order, OrderReceipt
from memoryhub.journal.rows import (
    erased_rows,
    projections,
    statements,
    tombstones,
    webhook_rows,
)
from memoryhub.journal.rows.rows import EventTableRow
from memoryhub.journal.writing import sealing
from memoryhub.journal.writing.activity import activity
from memoryhub.journal.writing.page_table import StoredPageTable
from memoryhub.kernel.commands import EventDraft, ForkThread, RetireThread
from memoryhub.kernel.memory.keys import EraseValues
from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.kernel.replay import RecordedEvent, decide, evolve
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PagesCited, TurnPacked
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads.threads import inherit_state, require_alive
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import name_salt
from memoryhub.vault.keys import keys


class SubjectMadeError(Exception):
    """Another request has made the person whom an order would have made."""


Outcome = OrderReceipt | Refusal | SubjectMadeError
#: Kinds of actors that a restriction or a closed subject keeps out.
_AGENTS = ("agent", "import")
#: Commands that a legal hold stops: they delete content, or lead to its deletion.
_ENDING = (DeletePage, EraseValues, RetireThread)


def _is_processing(order: Order) -> bool:
    """Return whether the order's actor is one that a restriction keeps out.

    A worker that names the epoch writes results of what it has read; other workers only
    end what is over.
    """
    word = order.actor.partition(":")[0]
    return word in _AGENTS or (word == "worker" and order.epoch is not None)


@dataclass(slots=True, kw_only=True)
class WriteBatch:
    """The work of one attempt; discarded when the attempt is void."""

    heads: Heads
    clock: Callable[[], datetime]
    subjects: dict[UUID, fence.FencedSubject] = field(default_factory=dict)
    #: Ends of legal holds by subject, if any order would delete content.
    held: dict[UUID, datetime] = field(default_factory=dict)
    served: dict[tuple[UUID, bytes], requests.ServedRequest] = field(
        default_factory=dict
    )
    #: Heads before and after, by thread, of the threads that moved.
    moved: dict[UUID, tuple[ThreadHead, ThreadHead]] = field(default_factory=dict)
    events: list[EventTableRow] = field(default_factory=list)
    rows: projections.ProjectedRows = field(default_factory=projections.ProjectedRows)
    kept: list[Snapshot] = field(default_factory=list)
    #: Threads that this batch makes, by project and name.
    born: dict[tuple[UUID, str], UUID] = field(default_factory=dict)
    #: Names of erased threads.
    dead: dict[tombstones.Name, tombstones.DeadName] = field(default_factory=dict)
    opened: dict[UUID, keys.SubjectKeys] = field(default_factory=dict)
    #: Times between requests and the answers right after these, by project.
    answered: list[tuple[UUID, timedelta]] = field(default_factory=list)
    #: Set once all statements are sent and only the commit remains.
    outcomes: list[Outcome] | None = None

    def run(self, orders: Sequence[Order], *, locked: bool) -> list[Outcome]:
        """Decide, append, commit. Raises MovedError when another process was faster."""
        with transaction.atomic():
            addresses = [order.address for order in orders]
            if locked:
                # Subjects before threads: an eraser locks them in that order.
                self.heads.refresh(addresses, locked=False)
                fence.hold(self._list_subject_ids(orders))
            self.heads.refresh(addresses, locked=locked)
            self.subjects = fence.hold(self._list_subject_ids(orders))
            if any(isinstance(order.command, _ENDING) for order in orders):
                self.held = fence.list_hold_ends(self.subjects, at=self.clock())
            self.dead = tombstones.find_dead_names(self._list_unknown_names(orders))
            self.served = requests.look_up(orders, now=self.clock())
            outcomes = [self._try_perform(order) for order in orders]
            self._write()
            # Last, because it locks the row that every appender of any thread waits
            # for.
            if edits := _build_edits(orders, outcomes):
                audit.append_all(edits)
            self.outcomes = outcomes
        return self.accept(outcomes)

    def accept(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Remember the batch's changes, which are on disk now; return the outcomes."""
        self.heads.accept(after for _, after in self.moved.values())
        activity.count_moves(self.moved.values(), self.rows.requests)
        activity.count_answers(self.answered)
        for thread, page_id in self.rows.pages.deleted:
            texts.texts.forget(thread, page_id)
        for each in self.rows.erased:
            texts.texts.forget_records(each.ranges)
        if self.rows.pages.deleted or self.rows.erased:
            for subject in {after.state.subject for _, after in self.moved.values()}:
                thread_terms.forget(subject)
                texts.forget_requests(subject)
        return outcomes

    def recover_outcomes(self) -> list[Outcome] | None:
        """Return the outcomes of a commit that got no answer; None if it was lost.

        The stored chain shows it: either each moved head's hash is in the journal, or
        not. See decision 7.
        """
        if self.outcomes is None:
            return None
        for thread, (_, after) in self.moved.items():
            last = Event.objects.filter(thread_id=thread, seq=after.state.seq)
            if [*map(bytes, last.values_list("chain", flat=True))] != [after.chain]:
                return None
        return self.accept(self.outcomes)

    def _list_subject_ids(self, orders: Sequence[Order]) -> set[UUID]:
        loaded = {head.state.subject for head in self.heads.list_held()}
        born = {o.address.birth.subject for o in orders if o.address.birth}
        forked = {
            o.command.parent.subject
            for o in orders
            if isinstance(o.command, ForkThread)
        }
        return loaded | born | forked

    def _list_unknown_names(self, orders: Sequence[Order]) -> set[tombstones.Name]:
        """Return names that no thread has, whether or not an order would create one."""
        unknown = [o.address for o in orders if not self.heads.has_thread(o.address)]
        return {(each.project, name) for each in unknown for name in each.names}

    def _try_perform(self, order: Order) -> Outcome:
        birth = order.address.birth
        try:
            if birth is None or birth.insert_subject is None:
                return self._perform_order(order)
            # A refusal takes the person back as well.
            with transaction.atomic():
                self._insert_subject(birth)
                return self._perform_order(order)
        except (Refusal, SubjectMadeError) as refusal:
            return refusal

    def _insert_subject(self, birth: NewThread) -> None:
        assert birth.insert_subject is not None
        if birth.insert_subject().id != birth.subject:
            raise SubjectMadeError
        self.subjects |= fence.hold([birth.subject])

    def _perform_order(self, order: Order) -> OrderReceipt:
        if repeat := self._repeat(order):
            return repeat
        head = self._resolve_head(order)
        fresh = head.state.seq == 0
        self._admit(order, head)
        self._require_not_held(order, head.state.subject)
        if order.if_match is not None:
            _require_seen(order.if_match, head.state)
        now = self.clock()
        if head.state.at:
            # Time may stand still in a thread but never goes back; seq gives the order.
            now = max(now, head.state.at)
        drafts = self._build_drafts(order, head.state, now)
        self._refuse_erased(order, head.state.subject, drafts)
        if fresh and not order.address.home:
            fence.count_thread(order.address.project)
        recorded, after = self._append(head, drafts, order, now)
        receipt = OrderReceipt(
            thread=head.state.id,
            subject=head.state.subject,
            name=order.address.name,
            seq=after.state.seq,
            events=tuple(recorded),
            turn=after.state.turn_count,
            created=fresh,
            state=after.state,
        )
        self._record_served(order, receipt)
        return receipt

    def _repeat(self, order: Order) -> OrderReceipt | None:
        if order.request is None:
            return None
        place = (order.address.project, requests.PersonRequest.from_order(order).digest)
        served = self.served.get(place)
        if served is None:
            return None
        if head := self._find_head(order.address):
            # A result that could not be written any more is not repeated either.
            self._admit(order, head)
            require_alive(head.state)
        if served.request != requests.PersonRequest.from_order(order).fingerprint:
            raise IdempotencyMismatchError
        return replace(served.get_receipt(), name=order.address.name)

    def _record_served(self, order: Order, receipt: OrderReceipt) -> None:
        if order.request is not None:
            place = (
                order.address.project,
                requests.PersonRequest.from_order(order).digest,
            )
            self.served[place] = requests.ServedRequest.from_order(order, receipt)

    def _find_head(self, address: Address) -> ThreadHead | None:
        """Return the head as the batch has moved it so far.

        A bound key does not find another subject's thread by its name.
        """
        for name in address.names:
            head = self.heads.find(address, name)
            if born := self.born.get((address.project, name)):
                head = self.moved[born][1]
            if head and address.can_reach(head.state.subject):
                return self.moved.get(head.state.id, (head, head))[1]
        return None

    def _resolve_head(self, order: Order) -> ThreadHead:
        """Return the head of the order's thread; a new head for a new name."""
        address, head = order.address, self._find_head(order.address)
        if address.fresh:
            if head is not None:
                raise _build_taken_refusal(head.state)
            self._require_never_erased(address)
            assert isinstance(order.command, ForkThread)
            return self._build_new_head(order, order.command.parent.subject)
        if head is not None:
            if address.home and not head.state.home:
                raise NameTakenError
            return head
        if not address.home:
            self._require_never_erased(address)
        if address.birth is None:
            raise NotFoundError
        return self._build_new_head(order, address.birth.subject)

    def _require_never_erased(self, address: Address) -> None:
        for name in address.names:
            dead = self.dead.get((address.project, name))
            if dead and address.can_reach(dead.subject):
                raise dead.build_refusal(address.bound)

    def _build_new_head(self, order: Order, subject: UUID) -> ThreadHead:
        name = order.address.names[0]
        fence.require_own_name(order.address, name, subject)
        state = ThreadState(id=uuid7(), project=order.address.project, subject=subject)
        if isinstance(order.command, ForkThread):
            state = inherit_state(order.command.parent, state)
        return ThreadHead.build_new(state, name=name, salt=name_salt())

    def _admit(self, order: Order, head: ThreadHead) -> None:
        bound = order.address.bound
        if bound is not None and head.state.subject != bound:
            raise NotFoundError
        if head.state.status == "importing":
            raise NotFoundError
        subject = self.subjects.get(head.state.subject)
        if order.is_erasure:
            # The eraser seals nothing, so it needs no key either.
            return
        if subject is None or subject.state in ("erasing", "erased"):
            raise SubjectErasedError
        subject.require_project()
        if subject.state == "restricted" and _is_processing(order):
            raise SubjectRestrictedError
        if order.epoch is not None and order.epoch != subject.epoch:
            raise StaleError(head_seq=head.state.seq)
        # A missing key must be refused here, before anything is counted. The opened key
        # serves the whole batch, so that no later step can be refused.
        if subject.id not in self.opened:
            opened = keys.get_subject_keys(subject.id, epoch=subject.epoch)
            self.opened[subject.id] = opened

    def _require_not_held(self, order: Order, subject: UUID) -> None:
        """Raise a Refusal if the order would delete content that must be kept now."""
        if not isinstance(order.command, _ENDING):
            return
        if until := self.held.get(subject):
            raise SubjectHeldError(until=until.isoformat(timespec="seconds"))
        frozen = self.subjects[subject].state == "restricted"
        if frozen and isinstance(order.command, EraseValues):
            # No person asked for this erasure, so waiting loses nothing.
            raise SubjectRestrictedError

    def _refuse_erased(
        self, order: Order, subject: UUID, drafts: list[EventDraft]
    ) -> None:
        """Raise ValueErasedError if a draft not of the eraser holds an erased value."""
        if self.subjects[subject].tombstones and not order.is_erasure:
            tombstones.require_not_erased(self.opened[subject], drafts)

    def _build_drafts(
        self, order: Order, state: ThreadState, now: datetime
    ) -> list[EventDraft]:
        """Return all drafts of the order; those that create a new thread come first."""
        birth, command = order.address.birth, order.command
        if isinstance(command, ForkThread):
            # The command was made from a read before this transaction: add erasures
            # since then.
            erasures = erased_rows.list_erasures_since(command.parent)
            command = replace(command, erased=erasures)
        if state.seq or birth is None or birth.command is order.command:
            return decide(state, command, self._build_page_table(state), at=now)
        born = decide(state, birth.command, self._build_page_table(state), at=now)
        for seq, draft in enumerate(born, start=1):
            event = RecordedEvent(seq=seq, at=now, actor=order.actor, event=draft.event)
            state = evolve(state, event, after=draft.after)
        pages = self._build_page_table(state)
        return [*born, *decide(state, command, pages, at=now)]

    def _build_page_table(self, state: ThreadState) -> StoredPageTable:
        return StoredPageTable(state, self.rows, key=self.opened.get(state.subject))

    def _append(
        self, head: ThreadHead, drafts: list[EventDraft], order: Order, now: datetime
    ) -> tuple[list[RecordedEvent], ThreadHead]:
        moving, written = head, []
        for draft in drafts:
            recorded = RecordedEvent(
                seq=moving.state.seq + 1, at=now, actor=order.actor, event=draft.event
            )
            moving = self._record(moving, recorded, draft)
            written.append(recorded)
        if not written:
            return [], head
        after = self._add_snapshot(heads.refresh_listed_at(moving))
        first = self.moved.get(head.state.id, (head, head))[0]
        self.moved[head.state.id] = (first, after)
        if first.state.seq == 0:
            self.born[order.address.project, head.name] = head.state.id
        return written, after

    def _record(
        self, head: ThreadHead, recorded: RecordedEvent, draft: EventDraft
    ) -> ThreadHead:
        """Add one event's rows to the batch; return the head after the event."""
        key = self.opened.get(head.state.subject)
        if head.last_type == TurnPacked.event_type and _is_answer(recorded.event):
            assert head.state.at is not None
            time = recorded.at - head.state.at
            self.answered.append((head.state.project, time))
        row = sealing.seal_row(head, recorded, draft.payload, key=key)
        self.events.append(row)
        after = evolve(head.state, recorded, after=draft.after)
        projections.project(self.rows, head.state, recorded, after)
        return replace(
            head,
            state=after,
            chain=row.chain,
            last_type=recorded.event.event_type,
        )

    def _add_snapshot(self, head: ThreadHead) -> ThreadHead:
        """Return the head, after adding a snapshot to the batch if one is due."""
        key = self.opened.get(head.state.subject)
        # The eraser opens no key: the next writer adds the snapshot.
        if key is None or not snapshots.is_due(head.state, kept_seq=head.kept_seq):
            return head
        self.kept.append(snapshots.build_snapshot_row(head.state, key=key))
        return replace(head, kept_seq=head.state.seq)

    def _write(self) -> None:
        heads.write(self.moved, self.rows)
        statements.EVENTS.write(self.events)
        projections.write(self.rows)
        if self.kept:
            Snapshot.objects.bulk_create(self.kept)
        requests.keep(self.served, now=self.clock())
        self._queue_for_webhooks()
        self._write_totals()

    def _queue_for_webhooks(self) -> None:
        """Queue the moved threads for webhooks, in projects that have any."""
        wanted = {each.id for each in self.subjects.values() if each.has_webhooks}
        moves = {
            thread: (after.state.project, before.state.seq, after.state.seq)
            for thread, (before, after) in self.moved.items()
            if after.state.subject in wanted
        }
        if moves:
            webhook_rows.write(moves, self.events)

    def _write_totals(self) -> None:
        """Write the totals last: other processes wait for them until the commit."""
        changes = self.rows.totals
        changes.count_events(self.events)
        for thread, (before, after) in self.moved.items():
            # A new fork begins with its parent's state.
            was = before.state.status if before.state.seq else "new"
            changes.count_status(thread, before=was, after=after.state.status)
        subjects = {each: now.state.subject for each, (_, now) in self.moved.items()}
        changes.write(subjects)


def _is_answer(event: EventBody) -> bool:
    """Return whether a model's message begins with this event; citations come first."""
    if isinstance(event, SlotAppended):
        return event.role == "assistant"
    return isinstance(event, PagesCited)


def _build_edits(
    orders: Sequence[Order], outcomes: Sequence[Outcome]
) -> list[audit.AuditNote]:
    """Return audit entries for the changes that operators made."""
    return [
        audit.AuditNote(
            actor=order.actor,
            action="operator.edited",
            project=order.address.project,
            target_kind="thread",
            target_id=str(each.thread),
            subject=each.state.subject if each.state else None,
            count=len(each.events),
            first_seq=each.events[0].seq,
            last_seq=each.events[-1].seq,
        )
        for order, each in zip(orders, outcomes, strict=True)
        if order.actor.startswith("operator:")
        and isinstance(each, OrderReceipt)
        and each.events
        and not each.replayed
    ]


def _require_seen(seq: int, state: ThreadState) -> None:
    """Raise StaleError when somebody other than a worker has written since `seq`.

    Workers' events change nothing that a sender could have relied on: they sweep
    expired keys, make levels, and erase values whose time in history was over. See
    decision 40.
    """
    if not state.active_seq <= seq <= state.seq:
        raise StaleError(head_seq=state.seq)


def _build_taken_refusal(state: ThreadState) -> Refusal:
    gone = state.status in ("retired", "erased")
    return ThreadErasedError() if gone else NameTakenError()
