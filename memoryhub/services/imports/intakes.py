"""Intakes: one thread that receives the messages that a file has for it.

The thread's journal holds the number of imported messages and their rolling digest. A
file that begins with the same messages continues after them; any other file is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from uuid import UUID

from memoryhub import journal
from memoryhub.errors import StaleError, ThreadErasedError
from memoryhub.journal import Address, NewThread, Order, OrderReceipt
from memoryhub.journal.rows import tombstones
from memoryhub.kernel.commands import (
    Command,
    CreateThread,
    ImportMessages,
    RunMessage,
)
from memoryhub.kernel.context import tokens
from memoryhub.kernel.context.tokens import Tokenizer
from memoryhub.kernel.formats import transcripts
from memoryhub.kernel.formats.transcripts import ImportedMessage
from memoryhub.kernel.state.events import ImportAdvanced, RunRecorded, ThreadConfig
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
    """Progress of a thread, in the file and in the thread's journal."""

    project: UUID
    #: None only in a dry run, for a subject that does not exist yet.
    subject: UUID | None
    epoch: int = 1
    dry_run: bool = False
    #: Number of the file's messages so far, and their digest.
    count: int = 0
    digest: bytes = b""
    #: The same, begun with data that can change: earlier versions stored this one.
    older: bytes = b""
    #: Number of messages that the thread held before this import.
    stored: int = 0
    stored_digest: str = ""
    #: Simulation that drives the thread's paging; None: no simulation.
    simulation: Simulation | None = None
    #: The thread's tokenizer, if this server runs it.
    tokenizer: Tokenizer = tokens.EST
    #: A killed import has begun the turn of the next message.
    has_turn_begun: bool = False

    @classmethod
    def begin(
        cls,
        project: Project,
        thread: transcripts.ImportedThread,
        *,
        dry_run: bool,
        simulation: Simulation | None = None,
    ) -> Self:
        """Find the thread and its subject, who is created if both are new.

        Raises SubjectErasedError, ThreadErasedError, BudgetDiffersError, and StaleError
        for a thread of another subject or with slots that no import wrote. At most
        seven queries.
        """
        subject = _find_subject(project.id, thread.user_id)
        row = Thread.objects.filter(project=project, name=thread.name).first()
        if row is None:
            if tombstones.find_dead_names([(project.id, thread.name)]):
                raise ThreadErasedError
            # Only now: a refused import must create no subject.
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
        if last := _find_last_advance(row):
            intake.stored, intake.stored_digest = last.count, last.digest
        if row.subject_id != intake.subject or row.slot_count != intake.stored:
            raise StaleError
        if simulation is not None and intake.stored:
            simulations.require_budget(row, simulation.budget)
        intake.has_turn_begun = simulations.has_begun_turn(row)
        intake.tokenizer = tokenizers.get_for_thread(row)
        return intake

    def append_messages(
        self,
        thread: transcripts.ImportedThread,
        messages: Sequence[ImportedMessage],
        *,
        total: int,
    ) -> Sequence[ImportedMessage]:
        """Append the messages that the thread does not hold yet, and return these.

        Emits run.recorded with the first batch, slot.appended and turn.began for each
        message, and import.advanced; in one transaction with the thread's creation.
        Raises StaleError when the thread holds other messages; nothing is written then.
        """
        held = messages[: max(self.stored - self.count, 0)]
        fresh = messages[len(held) :]
        after = self._digest_messages(thread, held)
        if held and after == self.stored and self.digest.hex() != self.stored_digest:
            if self.older.hex() != self.stored_digest:
                raise StaleError
            self.digest = self.older
        if self.simulation is not None and not self.dry_run:
            self._simulate_turn(self.simulation, thread, held, fresh)
        if not fresh:
            return fresh
        self._digest_messages(thread, fresh)
        command = ImportMessages(
            after=after,
            messages=self._build_imported(fresh),
            digest=self.digest.hex(),
            run=None if after else _build_run(thread, total=total),
            info=None if after else strict_json.dump_stored(_build_info(thread)),
        )
        if not self.dry_run:
            size = sum(len(message.text) for message in fresh)
            receipt = self._perform_command(thread, command, size=size)
            if self.simulation is not None:
                self.simulation.note_written(receipt, fresh, first=after)
        return fresh

    def _simulate_turn(
        self,
        simulation: Simulation,
        thread: transcripts.ImportedThread,
        held: Sequence[ImportedMessage],
        fresh: Sequence[ImportedMessage],
    ) -> None:
        """Play the model call that the first new message answers, if any."""
        simulation.note_references(held, first=self.count - len(held))
        if fresh and fresh[0].turn_begins:
            rows = Thread.objects.select_related("subject")
            row = rows.filter(project=self.project, name=thread.name).first()
            simulation.begin_turn(row, partial(self._perform_command, thread))

    def _build_imported(
        self, fresh: Sequence[ImportedMessage]
    ) -> tuple[RunMessage, ...]:
        """Build the imported messages; turns begun by a simulation are left out."""
        begins = [self.simulation is None and each.turn_begins for each in fresh]
        begins[0] = begins[0] and not self.has_turn_begun
        self.has_turn_begun = False
        return tuple(
            RunMessage(
                slot=measuring.measure_message(message, self.tokenizer), turn=turn
            )
            for message, turn in zip(fresh, begins, strict=True)
        )

    def finish(self) -> None:
        """Check, at the end of the file, that the thread holds no further messages.

        Raises StaleError if the thread holds more.
        """
        if self.count < self.stored:
            raise StaleError

    def _digest_messages(
        self, thread: transcripts.ImportedThread, messages: Sequence[ImportedMessage]
    ) -> int:
        """Add the messages to the digest; return the number of messages so far."""
        if self.subject is not None:
            opened = keys.get_subject_keys(self.subject, epoch=self.epoch)
            if not self.count:
                info = strict_json.dump_canonical(thread.info)
                self.older = blind_index.digest_content(opened, info)
                if thread.can_change:
                    info = strict_json.dump_canonical(None)
                self.digest = blind_index.digest_content(opened, info)
            for message in messages:
                text = strict_json.dump_canonical(message.content)
                self.digest = blind_index.digest_sequence(opened, self.digest, text)
                self.older = blind_index.digest_sequence(opened, self.older, text)
        self.count += len(messages)
        return self.count

    def _perform_command(
        self, thread: transcripts.ImportedThread, command: Command, *, size: int = 0
    ) -> OrderReceipt:
        """Perform a command in the thread, which is created if new."""
        assert self.subject is not None
        budget = None if self.simulation is None else self.simulation.budget
        birth = CreateThread(
            subject=self.subject,
            scope=thread.scope,
            labels=thread.labels,
            config=ThreadConfig()
            if budget is None
            else simulations.build_config(budget),
        )
        return journal.perform(
            Order(
                # Bound to the subject, as another process may have created the thread
                # for another subject since the look-up.
                address=Address(
                    project=self.project,
                    name=thread.name,
                    birth=NewThread(subject=self.subject, command=birth),
                    bound=self.subject,
                ),
                command=command,
                actor="import",
                size=size,
            )
        )


def _find_subject(project: UUID, user_id: str | None) -> Subject | None:
    """Find the subject of a user id; None if it does not exist yet."""
    if user_id is None:
        return subjects.get_anonymous(project)
    return subjects.find(project, user_id)


def _find_last_advance(thread: Thread) -> ImportAdvanced | None:
    """Find the last import.advanced event of a thread."""
    rows = Event.objects.filter(thread=thread, type=ImportAdvanced.event_type)
    row = rows.only("body").order_by("-seq").first()
    return ImportAdvanced.model_validate_json(row.body) if row else None


def _build_run(thread: transcripts.ImportedThread, *, total: int) -> RunRecorded:
    """Build the run's record; `total` is only a batch's size for scattered lines."""
    return RunRecorded(format=thread.format, messages=total)


def _build_info(thread: transcripts.ImportedThread) -> Any:
    """Build the run's further data, which is stored sealed only."""
    fields = {"trial": thread.trial, "reward": thread.reward, "info": thread.info}
    return {name: value for name, value in fields.items() if value is not None}
