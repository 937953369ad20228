"""One batch: many commands decided, appended and projected in one transaction.

A refusal fails its own command only. A thread that another process moved meanwhile
makes the whole attempt void; it is decided again on the fresh state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
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
from memoryhub.journal import audit
from memoryhub.journal.log import fence, heads, requests, snapshots, thread_terms
from memoryhub.journal.log.heads import Head, Heads
from memoryhub.journal.log.orders import Address, Order, Receipt
from memoryhub.journal.rows import erased_rows, projections, statements, tombstones
from memoryhub.journal.rows.rows import EventRow
from memoryhub.journal.writing import sealing, texts
from memoryhub.journal.writing.activity import activity
from memoryhub.journal.writing.page_table import PageTable
from memoryhub.kernel.commands import Draft, ForkThread, RetireThread
from memoryhub.kernel.memory.keys import EraseValues
from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.kernel.replay import Recorded, decide, evolve
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads.threads import inherit, require_alive
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import name_salt
from memoryhub.vault.keys import keys

Outcome = Receipt | Refusal
#: Words of the actors that a restriction or a closed subject keeps out.
_AGENTS = ("agent", "import")
#: What a hold stops: content goes by these, or is on its way out.
_ENDING = (DeletePage, EraseValues, RetireThread)


def _processes(order: Order) -> bool:
    """Whether it is by one whom a restriction keeps out.

    A worker that names the epoch writes what it has made of what it read; others only
    end what is over.
    """
    word = order.actor.partition(":")[0]
    return word in _AGENTS or (word == "worker" and order.epoch is not None)


@dataclass(slots=True, kw_only=True)
class Batch:
    """The work of one attempt; thrown away when the attempt is void."""

    heads: Heads
    clock: Callable[[], datetime]
    subjects: dict[UUID, fence.Fenced] = field(default_factory=dict)
    #: Until when those are held, if any order would end something.
    held: dict[UUID, datetime] = field(default_factory=dict)
    served: dict[tuple[UUID, bytes], requests.Served] = field(default_factory=dict)
    #: Heads before and after, by thread, of those that moved.
    moved: dict[UUID, tuple[Head, Head]] = field(default_factory=dict)
    events: list[EventRow] = field(default_factory=list)
    rows: projections.Rows = field(default_factory=projections.Rows)
    kept: list[Snapshot] = field(default_factory=list)
    #: Threads that this batch makes, by project and name.
    born: dict[tuple[UUID, str], UUID] = field(default_factory=dict)
    #: Names that no thread has any more, for it was erased.
    dead: dict[tombstones.Name, tombstones.Dead] = field(default_factory=dict)
    opened: dict[UUID, keys.SubjectKeys] = field(default_factory=dict)
    #: Once all statements are sent; the commit alone is still to come.
    outcomes: list[Outcome] | None = None

    def run(self, orders: Sequence[Order], *, locked: bool) -> list[Outcome]:
        """Decide, append, commit. Raises MovedError when another process was faster."""
        with transaction.atomic():
            addresses = [order.address for order in orders]
            if locked:
                # Subjects before threads: who erases locks them in that order.
                self.heads.refresh(addresses, locked=False)
                fence.hold(self._subject_ids(orders))
            self.heads.refresh(addresses, locked=locked)
            self.subjects = fence.hold(self._subject_ids(orders))
            if any(isinstance(order.command, _ENDING) for order in orders):
                self.held = fence.held_until(self.subjects, at=self.clock())
            self.dead = tombstones.dead_names(self._unknown(orders))
            self.served = requests.look_up(orders, now=self.clock())
            outcomes = [self._outcome(order) for order in orders]
            self._write()
            # Last, for it locks what every appender of any thread waits for.
            if edits := _edits(orders, outcomes):
                audit.append_all(edits)
            self.outcomes = outcomes
        return self.accepted(outcomes)

    def accepted(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Remember what the batch moved, which is on disk now."""
        self.heads.accept(after for _, after in self.moved.values())
        activity.moved(self.moved.values(), self.rows.requests)
        for thread, page_id in self.rows.pages.deleted:
            texts.texts.forget(thread, page_id)
        for each in self.rows.erased:
            texts.texts.forget_records(each.ranges)
        if self.rows.pages.deleted or self.rows.erased:
            for subject in {after.state.subject for _, after in self.moved.values()}:
                thread_terms.forget(subject)
                texts.forget_requests(subject)
        return outcomes

    def committed(self) -> list[Outcome] | None:
        """Return the outcomes of a commit that got no answer; None if it was lost.

        What was sent vouches for itself: the chain of each head is there, or is not.
        """
        if self.outcomes is None:
            return None
        for thread, (_, after) in self.moved.items():
            last = Event.objects.filter(thread_id=thread, seq=after.state.seq)
            if [*map(bytes, last.values_list("chain", flat=True))] != [after.chain]:
                return None
        return self.accepted(self.outcomes)

    def _subject_ids(self, orders: Sequence[Order]) -> set[UUID]:
        loaded = {head.state.subject for head in self.heads.held()}
        born = {o.address.birth.subject for o in orders if o.address.birth}
        forked = {
            o.command.parent.subject
            for o in orders
            if isinstance(o.command, ForkThread)
        }
        return loaded | born | forked

    def _unknown(self, orders: Sequence[Order]) -> set[tombstones.Name]:
        """Names that no thread has, whether or not these orders would make one."""
        unknown = [o.address for o in orders if not self.heads.holds(o.address)]
        return {(each.project, name) for each in unknown for name in each.names}

    def _outcome(self, order: Order) -> Outcome:
        try:
            return self._perform(order)
        except Refusal as refusal:
            return refusal

    def _perform(self, order: Order) -> Receipt:
        if repeat := self._repeat(order):
            return repeat
        head = self._head(order)
        fresh = head.state.seq == 0
        self._admit(order, head)
        self._require_free(order, head.state.subject)
        if order.if_match is not None:
            _require_seen(order.if_match, head.state)
        now = self.clock()
        if head.state.at:
            # Time may stand still in a thread but never goes back; order is seq.
            now = max(now, head.state.at)
        drafts = self._decide(order, head.state, now)
        self._refuse_erased(order, head.state.subject, drafts)
        if fresh and not order.address.home:
            fence.count_thread(order.address.project)
        recorded, after = self._append(head, drafts, order, now)
        receipt = Receipt(
            thread=head.state.id,
            subject=head.state.subject,
            name=order.address.name,
            seq=after.state.seq,
            events=tuple(recorded),
            turn=after.state.turn_count,
            created=fresh,
            state=after.state,
        )
        self._serve(order, receipt)
        return receipt

    def _repeat(self, order: Order) -> Receipt | None:
        if order.request is None:
            return None
        place = (order.address.project, requests.PersonRequest.of(order).digest)
        served = self.served.get(place)
        if served is None:
            return None
        if head := self._loaded_head(order.address):
            # What may not be written any more is not told again either.
            self._admit(order, head)
            require_alive(head.state)
        if served.request != requests.PersonRequest.of(order).fingerprint:
            raise IdempotencyMismatchError
        return replace(served.receipt(), name=order.address.name)

    def _serve(self, order: Order, receipt: Receipt) -> None:
        if order.request is not None:
            place = (order.address.project, requests.PersonRequest.of(order).digest)
            self.served[place] = requests.Served.of(order, receipt)

    def _loaded_head(self, address: Address) -> Head | None:
        """The head as the batch has moved it so far.

        Of a bound key's name: another subject's is not there.
        """
        for name in address.names:
            head = self.heads.find(address, name)
            if born := self.born.get((address.project, name)):
                head = self.moved[born][1]
            if head and address.reaches(head.state.subject):
                return self.moved.get(head.state.id, (head, head))[1]
        return None

    def _head(self, order: Order) -> Head:
        """The head of the order's thread; a new one for a new name."""
        address, head = order.address, self._loaded_head(order.address)
        if address.fresh:
            if head is not None:
                raise _taken(head.state)
            self._require_never_erased(address)
            assert isinstance(order.command, ForkThread)
            return self._newborn(order, order.command.parent.subject)
        if head is not None:
            if address.home and not head.state.home:
                raise NameTakenError
            return head
        if not address.home:
            self._require_never_erased(address)
        if address.birth is None:
            raise NotFoundError
        return self._newborn(order, address.birth.subject)

    def _require_never_erased(self, address: Address) -> None:
        for name in address.names:
            dead = self.dead.get((address.project, name))
            if dead and address.reaches(dead.subject):
                raise dead.refusal(address.bound)

    def _newborn(self, order: Order, subject: UUID) -> Head:
        name = order.address.names[0]
        fence.require_own_name(order.address, name, subject)
        state = ThreadState(id=uuid7(), project=order.address.project, subject=subject)
        if isinstance(order.command, ForkThread):
            state = inherit(order.command.parent, state)
        return Head.newborn(state, name=name, salt=name_salt())

    def _admit(self, order: Order, head: Head) -> None:
        bound = order.address.bound
        if bound is not None and head.state.subject != bound:
            raise NotFoundError
        if head.state.status == "importing":
            raise NotFoundError
        subject = self.subjects.get(head.state.subject)
        if order.erases:
            # Nothing of what it writes is sealed, so it needs no key either.
            return
        if subject is None or subject.state in ("erasing", "erased"):
            raise SubjectErasedError
        subject.require_project()
        if subject.state == "restricted" and _processes(order):
            raise SubjectRestrictedError
        if order.epoch is not None and order.epoch != subject.epoch:
            raise StaleError(head_seq=head.state.seq)
        # A key that is missing must refuse here, before anything is counted; it is
        # used to the end, so that nothing refuses half-way.
        if subject.id not in self.opened:
            opened = keys.subject_keys(subject.id, epoch=subject.epoch)
            self.opened[subject.id] = opened

    def _require_free(self, order: Order, subject: UUID) -> None:
        """Raise a Refusal if the order would end what has to be kept for now."""
        if not isinstance(order.command, _ENDING):
            return
        if until := self.held.get(subject):
            raise SubjectHeldError(until=until.isoformat(timespec="seconds"))
        frozen = self.subjects[subject].state == "restricted"
        if frozen and isinstance(order.command, EraseValues):
            # Its value goes by nobody's wish, so nothing is lost by its waiting.
            raise SubjectRestrictedError

    def _refuse_erased(self, order: Order, subject: UUID, drafts: list[Draft]) -> None:
        """Raise ValueErasedError for what was erased; the eraser writes no values."""
        if self.subjects[subject].tombstones and not order.erases:
            tombstones.require_welcome(self.opened[subject], drafts)

    def _decide(self, order: Order, state: ThreadState, now: datetime) -> list[Draft]:
        """All drafts of the order; a new thread's birth comes first."""
        birth, command = order.address.birth, order.command
        if isinstance(command, ForkThread):
            # What the command was made of was read before this transaction.
            erasures = erased_rows.erasures_since(command.parent)
            command = replace(command, erased=erasures)
        if state.seq or birth is None or birth.command is order.command:
            return decide(state, command, self._pages(state), at=now)
        born = decide(state, birth.command, self._pages(state), at=now)
        for seq, draft in enumerate(born, start=1):
            event = Recorded(seq=seq, at=now, actor=order.actor, event=draft.event)
            state = evolve(state, event, after=draft.after)
        pages = self._pages(state)
        return [*born, *decide(state, command, pages, at=now)]

    def _pages(self, state: ThreadState) -> PageTable:
        return PageTable(state, self.rows, key=self.opened.get(state.subject))

    def _append(
        self, head: Head, drafts: list[Draft], order: Order, now: datetime
    ) -> tuple[list[Recorded], Head]:
        moving, written = head, []
        for draft in drafts:
            recorded = Recorded(
                seq=moving.state.seq + 1, at=now, actor=order.actor, event=draft.event
            )
            moving = self._record(moving, recorded, draft)
            written.append(recorded)
        if not written:
            return [], head
        after = self._kept(heads.listed(moving))
        first = self.moved.get(head.state.id, (head, head))[0]
        self.moved[head.state.id] = (first, after)
        if first.state.seq == 0:
            self.born[order.address.project, head.name] = head.state.id
        return written, after

    def _record(self, head: Head, recorded: Recorded, draft: Draft) -> Head:
        """Add one event's rows to the batch; the head that it leads to."""
        key = self.opened.get(head.state.subject)
        row = sealing.sealed_row(head, recorded, draft.payload, key=key)
        self.events.append(row)
        after = evolve(head.state, recorded, after=draft.after)
        projections.project(self.rows, head.state, recorded, after)
        return replace(
            head,
            state=after,
            chain=row.chain,
            last_type=recorded.event.event_type,
        )

    def _kept(self, head: Head) -> Head:
        """The head, with a snapshot in the batch if one is due."""
        key = self.opened.get(head.state.subject)
        # The eraser opens no key: who writes next keeps one.
        if key is None or not snapshots.due(head.state, kept_seq=head.kept_seq):
            return head
        self.kept.append(snapshots.snapshot_row(head.state, key=key))
        return replace(head, kept_seq=head.state.seq)

    def _write(self) -> None:
        heads.write(self.moved)
        statements.EVENTS.rows(self.events)
        projections.write(self.rows)
        if self.kept:
            Snapshot.objects.bulk_create(self.kept)
        requests.keep(self.served, now=self.clock())
        self._keep_totals()

    def _keep_totals(self) -> None:
        """After all that they count: other processes wait for these from here on."""
        changes = self.rows.totals
        changes.events(self.events)
        for thread, (before, after) in self.moved.items():
            # A fork is born with its parent's state.
            was = before.state.status if before.state.seq else "new"
            changes.status(thread, before=was, after=after.state.status)
        subjects = {each: now.state.subject for each, (_, now) in self.moved.items()}
        changes.write(subjects)


def _edits(orders: Sequence[Order], outcomes: Sequence[Outcome]) -> list[audit.Entry]:
    """What operators changed, for the audit log."""
    return [
        audit.Entry(
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
        and isinstance(each, Receipt)
        and each.events
        and not each.replayed
    ]


def _require_seen(seq: int, state: ThreadState) -> None:
    """Raise StaleError when somebody has written since `seq`.

    What workers write changes nothing that anybody could have decided by: it sweeps
    what had expired, makes levels, takes values whose time in history was over.
    """
    if not state.active_seq <= seq <= state.seq:
        raise StaleError(head_seq=state.seq)


def _taken(state: ThreadState) -> Refusal:
    gone = state.status in ("retired", "erased")
    return ThreadErasedError() if gone else NameTakenError()
