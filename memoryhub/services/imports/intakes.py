"""Intakes: one thread taking the messages that a file has for it.

The thread's journal says how many messages it holds and their rolling digest. A file
that begins with the same messages goes on behind them; any other is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from uuid import UUID

from memoryhub import journal
from memoryhub.errors import StaleError, ThreadErasedError
from memoryhub.journal import Address, Birth, Order, Receipt
from memoryhub.journal.rows import tombstones
from memoryhub.kernel.commands import (
    Command,
    CreateThread,
    Imported,
    ImportMessages,
)
from memoryhub.kernel.formats import transcripts
from memoryhub.kernel.formats.transcripts import Message
from memoryhub.kernel.levels import tokens
from memoryhub.kernel.levels.tokens import Tokenizer
from memoryhub.kernel.state.events import ImportAdvanced, Limits, RunRecorded
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers
from memoryhub.services.people import subjects
from memoryhub.services.turns import simulations
from memoryhub.services.turns.simulations import Simulation
from memoryhub.vault.keys import blind_index, keys

_GONE = (Thread.Status.ERASED, Thread.Status.RETIRED)


@dataclass(slots=True, kw_only=True)
class Intake:
    """How far a thread is, in the file and in its journal."""

    project: UUID
    #: None only in a dry run, of a subject that does not exist yet.
    subject: UUID | None
    epoch: int = 1
    dry_run: bool = False
    #: Messages of the file so far, and their digest.
    count: int = 0
    digest: bytes = b""
    #: What the thread held before this import.
    stored: int = 0
    stored_digest: str = ""
    #: How its paging is driven; None: it is not.
    simulation: Simulation | None = None
    #: Of the thread, as far as it is run here.
    tokenizer: Tokenizer = tokens.EST
    #: An import that was killed has begun the turn of the next message.
    begun: bool = False

    @classmethod
    def begin(
        cls,
        project: Project,
        thread: transcripts.Thread,
        *,
        dry_run: bool,
        simulation: Simulation | None = None,
    ) -> Self:
        """Find the thread and its subject, who is made if both are new.

        Raises SubjectErasedError, ThreadErasedError, BudgetDiffersError, and StaleError
        for a thread of another subject or with slots that no import wrote. At most
        seven queries.
        """
        subject = _subject(project.id, thread.user_id)
        row = Thread.objects.filter(project=project, name=thread.name).first()
        if row is None:
            if tombstones.dead_names([(project.id, thread.name)]):
                raise ThreadErasedError
            # Not before: one that is refused leaves nobody behind.
            if subject is None and thread.user_id is not None and not dry_run:
                subject = subjects.find_or_create(project.id, thread.user_id)
        intake = cls(
            project=project.id, subject=None, dry_run=dry_run, simulation=simulation
        )
        if subject is not None:
            intake.subject, intake.epoch = subject.id, subject.epoch
        if row is None:
            return intake
        if row.status in _GONE:
            raise ThreadErasedError
        if last := _last_advance(row):
            intake.stored, intake.stored_digest = last.count, last.digest
        if row.subject_id != intake.subject or row.slot_count != intake.stored:
            raise StaleError
        if simulation is not None and intake.stored:
            simulations.require_budget(row, simulation.budget)
        intake.begun = simulations.begun(row)
        intake.tokenizer = tokenizers.of(row)
        return intake

    def take(
        self, thread: transcripts.Thread, messages: Sequence[Message], *, total: int
    ) -> Sequence[Message]:
        """Append what the thread does not hold yet, and return that.

        Emits run.recorded with the first batch, slot.appended and turn.began for each
        message, and import.advanced; in one transaction with the thread's making.
        Raises StaleError when the thread holds other messages; nothing is written then.
        """
        held = messages[: max(self.stored - self.count, 0)]
        fresh = messages[len(held) :]
        after = self._count(thread, held)
        if held and after == self.stored and self.digest.hex() != self.stored_digest:
            raise StaleError
        if self.simulation is not None and not self.dry_run:
            self._simulate(self.simulation, thread, held, fresh)
        if not fresh:
            return fresh
        self._count(thread, fresh)
        command = ImportMessages(
            after=after,
            messages=self._imported(fresh),
            digest=self.digest.hex(),
            run=None if after else _run(thread, total=total),
            info=None if after else strict_json.as_sent(_info(thread)),
        )
        if not self.dry_run:
            size = sum(len(message.text) for message in fresh)
            receipt = self._perform(thread, command, size=size)
            if self.simulation is not None:
                self.simulation.wrote(receipt, fresh, first=after)
        return fresh

    def _simulate(
        self,
        simulation: Simulation,
        thread: transcripts.Thread,
        held: Sequence[Message],
        fresh: Sequence[Message],
    ) -> None:
        """Play the model call that the first new message answers, if it is one."""
        simulation.note(held, first=self.count - len(held))
        if fresh and fresh[0].turn_begins:
            rows = Thread.objects.select_related("subject")
            row = rows.filter(project=self.project, name=thread.name).first()
            simulation.begin_turn(row, partial(self._perform, thread))

    def _imported(self, fresh: Sequence[Message]) -> tuple[Imported, ...]:
        """Each with its turn, but for turns that a simulation begins, or has begun."""
        begins = [self.simulation is None and each.turn_begins for each in fresh]
        begins[0] = begins[0] and not self.begun
        self.begun = False
        return tuple(
            Imported(slot=measuring.of_message(message, self.tokenizer), turn=turn)
            for message, turn in zip(fresh, begins, strict=True)
        )

    def finish(self) -> None:
        """Finish: the file has no more.

        Raises StaleError if the thread holds more of it.
        """
        if self.count < self.stored:
            raise StaleError

    def _count(self, thread: transcripts.Thread, messages: Sequence[Message]) -> int:
        """How many messages there are with these, which are now in the digest."""
        if self.subject is not None:
            opened = keys.subject_keys(self.subject, epoch=self.epoch)
            if not self.count:
                info = strict_json.canonical(thread.info)
                self.digest = blind_index.dedupe(opened, info)
            for message in messages:
                text = strict_json.canonical(message.content)
                self.digest = blind_index.roll(opened, self.digest, text)
        self.count += len(messages)
        return self.count

    def _perform(
        self, thread: transcripts.Thread, command: Command, *, size: int = 0
    ) -> Receipt:
        assert self.subject is not None
        budget = None if self.simulation is None else self.simulation.budget
        birth = CreateThread(
            subject=self.subject,
            scope=thread.scope,
            labels=thread.labels,
            config=Limits() if budget is None else simulations.config(budget),
        )
        return journal.perform(
            Order(
                # Bound, lest it enter a thread that someone made for another subject
                # since we looked.
                address=Address(
                    project=self.project,
                    name=thread.name,
                    birth=Birth(subject=self.subject, command=birth),
                    bound=self.subject,
                ),
                command=command,
                actor="import",
                size=size,
            )
        )


def _subject(project: UUID, user_id: str | None) -> Subject | None:
    """The subject; None for one that does not exist yet."""
    if user_id is None:
        return subjects.anonymous(project)
    return subjects.find(project, user_id)


def _last_advance(thread: Thread) -> ImportAdvanced | None:
    rows = Event.objects.filter(thread=thread, type=ImportAdvanced.event_type)
    row = rows.only("body").order_by("-seq").first()
    return ImportAdvanced.model_validate_json(row.body) if row else None


def _run(thread: transcripts.Thread, *, total: int) -> RunRecorded:
    """`total` is what is known by then: of lines that come one by one, a batch."""
    return RunRecorded(format=thread.format, messages=total)


def _info(thread: transcripts.Thread) -> Any:
    """What else is known of the run; nothing of it stands in the clear."""
    fields = {"trial": thread.trial, "reward": thread.reward, "info": thread.info}
    return {name: value for name, value in fields.items() if value is not None}
