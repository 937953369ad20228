"""Imports: recorded runs enter threads through the ordinary writer, each once.

An import may be killed anywhere and repeated: present messages stay, and missing
messages follow. Memory does not grow with the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from memoryhub.errors import (
    BudgetDiffersError,
    CorruptError,
    NotFoundError,
    PageErasedError,
    ProjectDeletedError,
    Refusal,
    StaleError,
    SubjectErasedError,
    ThreadErasedError,
    UnavailableError,
    ValueErasedError,
)
from memoryhub.kernel.formats.records import BadRecord, TextPosition
from memoryhub.kernel.formats.transcripts import (
    ImportedBlock,
    ImportedLine,
    ImportedMessage,
    ImportedRun,
    ImportedThread,
    Item,
    KnowledgeItem,
    Omission,
)
from memoryhub.models.projects import Project
from memoryhub.services.imports.intakes import Intake
from memoryhub.services.imports.knowledge_imports import KnowledgeIntake
from memoryhub.services.turns.simulations import Simulation

BATCH_MESSAGES = 200
#: Content bytes in one transaction, so that other writers do not wait long.
BATCH_BYTES = 4 * 1_048_576
#: Lines of all threads together that wait until a batch is full.
WAITING_LINES = 2_000

#: Refusals that mean: the thread differs from what the file would make.
_DIFFERENCES = (StaleError, NotFoundError)
_ERASED = (SubjectErasedError, ThreadErasedError, ValueErasedError, PageErasedError)
#: Errors that every later record would meet too.
_FATAL = (
    UnavailableError,
    CorruptError,
    ProjectDeletedError,
    BudgetDiffersError,
)


@dataclass(slots=True)
class ImportCounts:
    """Counts of an import so far."""

    #: Threads that were created or grew; threads, blocks and claims that were complete
    #: before, or that were erased (also if the subject or the run's info was).
    runs: int = 0
    present: int = 0
    erased: int = 0
    slots: int = 0
    turns: int = 0
    #: Blocks and claims that were written.
    blocks: int = 0
    claims: int = 0
    #: Those of `present` that are blocks or claims.
    present_blocks: int = 0
    present_claims: int = 0
    #: Bad runs or lines that were left out.
    skipped: int = 0
    #: Oddities that did not stop the import, by code.
    warnings: Counter[str] = field(default_factory=Counter)
    #: Parts of the file that have no place here, by the file's names for them.
    omitted: Counter[str] = field(default_factory=Counter)
    #: Acts of simulated paging, by word.
    paging: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class _LineThread:
    """Thread whose lines are scattered over the file."""

    place: TextPosition
    index: int
    intake: Intake | None = None
    written: int = 0
    #: The thread takes no more lines: it is bad, or it was erased.
    over: bool = False
    erased: bool = False


class _PendingLines:
    """Lines that wait until a batch of their thread is full.

    The batches depend on the file alone, so that a killed and repeated import makes the
    same batches as an uninterrupted one.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[ImportedLine]] = {}
        self._count = self._bytes = 0

    def add_line(self, line: ImportedLine) -> list[list[ImportedLine]]:
        """Add a line, and return the batches that are complete with the line."""
        lines = self._lines.setdefault(line.thread.name, [])
        lines.append(line)
        self._count += 1
        self._bytes += len(line.message.text)
        if self._count >= WAITING_LINES or self._bytes >= BATCH_BYTES:
            return self.drain()
        if len(lines) < BATCH_MESSAGES:
            return []
        del self._lines[line.thread.name]
        self._count -= len(lines)
        self._bytes -= sum(len(each.message.text) for each in lines)
        return [lines]

    def drain(self) -> list[list[ImportedLine]]:
        """Return all waiting lines, one batch for each thread."""
        batches = list(self._lines.values())
        self._lines, self._count, self._bytes = {}, 0, 0
        return batches


class Import:
    """One pass over a file: `import_items`, then look at `counts` and `complete`."""

    def __init__(
        self,
        project: Project,
        *,
        skip_bad: bool = False,
        dry_run: bool = False,
        budget: int | None = None,
    ) -> None:
        self.project = project
        self.skip_bad = skip_bad
        self.dry_run = dry_run
        #: Budget in tokens for simulated paging; None: no simulation.
        self.budget = budget
        self.counts = ImportCounts()
        #: Whether the end of the file was reached.
        self.complete = False
        self._waiting = _PendingLines()
        self._chats: dict[str, _LineThread] = {}
        self._knowledge = KnowledgeIntake(project=project, dry_run=dry_run)

    def import_items(self, items: Iterable[Item]) -> Iterator[BadRecord | ImportCounts]:
        """Import the items in order. Yields bad items, and the counts after each batch.

        Ends with the first Bad unless `skip_bad`, and always with a final Bad; earlier
        items are on disk then.
        """
        for step in self._iter_steps(items):
            yield step
            if isinstance(step, BadRecord) and self._should_stop(step):
                self._count_grown_threads()
                return
        self.complete = True

    def _should_stop(self, bad: BadRecord) -> bool:
        """Return whether a bad item ends the import."""
        return bad.final or not self.skip_bad

    def _iter_steps(self, items: Iterable[Item]) -> Iterator[BadRecord | ImportCounts]:
        """Iterate over the steps of the import."""
        for item in items:
            if isinstance(item, BadRecord):
                if self._should_stop(item):
                    yield from self._write_batches(self._waiting.drain())
                self.counts.skipped += 1
                yield item
            elif isinstance(item, ImportedRun):
                yield from self._write_run(item)
            elif isinstance(item, Omission):
                self.counts.omitted.update(item.parts)
            elif isinstance(item, KnowledgeItem):
                yield from self._write_knowledge(item)
            else:
                yield from self._write_batches(self._waiting.add_line(item))
        yield from self._write_batches(self._waiting.drain())
        for chat in self._chats.values():
            yield from self._finish_thread(chat)

    def _write_run(self, run: ImportedRun) -> Iterator[BadRecord | ImportCounts]:
        """Write a whole run, batch by batch."""
        self._count_warnings("extra_field", run.unknown_fields)
        written = 0
        try:
            intake = self._begin_intake(run.thread)
            for batch in _split_batches(run.messages):
                written += self._write_batch(
                    intake, run.thread, batch, len(run.messages)
                )
                yield self.counts
            intake.finish()
        except _ERASED:
            self.counts.erased += 1
        except Refusal as refusal:
            self.counts.skipped += 1
            yield _build_bad(refusal, run.place, run=run.index)
        else:
            self._count_thread(written)
            yield self.counts

    def _write_knowledge(
        self, item: KnowledgeItem
    ) -> Iterator[BadRecord | ImportCounts]:
        """Write a block or a claim, and count it."""
        try:
            written = self._knowledge.write_item(item)
        except _ERASED:
            self.counts.erased += 1
        except Refusal as refusal:
            self.counts.skipped += 1
            yield _build_bad(refusal, item.place, message=item.index)
        else:
            self.counts.present += 1 - written
            if isinstance(item, ImportedBlock):
                self.counts.blocks += written
                self.counts.present_blocks += 1 - written
            else:
                self.counts.claims += written
                self.counts.present_claims += 1 - written
            yield self.counts

    def _write_batches(
        self, batches: Iterable[list[ImportedLine]]
    ) -> Iterator[BadRecord | ImportCounts]:
        """Write batches of lines, each of one thread."""
        for lines in batches:
            first = lines[0]
            chat = self._chats.get(first.thread.name)
            if chat is None:
                chat = _LineThread(place=first.place, index=first.index)
                self._chats[first.thread.name] = chat
            if not chat.over:
                yield from self._write_lines(chat, lines)
            elif not chat.erased:
                self.counts.skipped += len(lines)

    def _write_lines(
        self, chat: _LineThread, lines: list[ImportedLine]
    ) -> Iterator[BadRecord | ImportCounts]:
        """Write lines of one thread."""
        thread, messages = lines[0].thread, [line.message for line in lines]
        try:
            chat.intake = chat.intake or self._begin_intake(thread)
            chat.written += self._write_batch(
                chat.intake, thread, messages, len(messages)
            )
        except _ERASED:
            chat.over = chat.erased = True
            self.counts.erased += 1
        except Refusal as refusal:
            chat.over = True
            self.counts.skipped += len(lines)
            yield _build_bad(refusal, lines[0].place, message=lines[0].index)
        else:
            yield self.counts

    def _finish_thread(self, chat: _LineThread) -> Iterator[BadRecord | ImportCounts]:
        """Finish a thread when the file has no more lines for it."""
        if chat.over or chat.intake is None:
            return
        try:
            chat.intake.finish()
        except Refusal as refusal:
            self.counts.skipped += 1
            yield _build_bad(refusal, chat.place, message=chat.index)
        else:
            self._count_thread(chat.written)

    def _begin_intake(self, thread: ImportedThread) -> Intake:
        """Begin the intake of a thread."""
        simulation = None
        if self.budget is not None:
            simulation = Simulation(budget=self.budget, counts=self.counts.paging)
        return Intake.begin(
            self.project, thread, dry_run=self.dry_run, simulation=simulation
        )

    def _write_batch(
        self,
        intake: Intake,
        thread: ImportedThread,
        batch: Sequence[ImportedMessage],
        total: int,
    ) -> int:
        """Write a batch; return how many of its messages were new."""
        written = 0
        for part in [batch] if self.budget is None else _split_answers(batch):
            fresh = intake.append_messages(thread, part, total=total)
            self.counts.slots += len(fresh)
            self.counts.turns += sum(message.turn_begins for message in fresh)
            written += len(fresh)
        self._count_warnings(
            "unknown_call", sum(message.unknown_call for message in batch)
        )
        return written

    def _count_thread(self, written: int) -> None:
        """Count a thread as grown or as already present."""
        if written:
            self.counts.runs += 1
        else:
            self.counts.present += 1

    def _count_grown_threads(self) -> None:
        """Count the threads that grew from lines before the import stopped."""
        grown = [chat for chat in self._chats.values() if chat.written]
        self.counts.runs += sum(not chat.over for chat in grown)

    def _count_warnings(self, code: str, times: int) -> None:
        """Count warnings of a code."""
        if times:
            self.counts.warnings[code] += times


def _split_batches(
    messages: Sequence[ImportedMessage],
) -> Iterator[list[ImportedMessage]]:
    """Split the messages into batches, each for one transaction."""
    batch: list[ImportedMessage] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += len(message.text)
        if len(batch) >= BATCH_MESSAGES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _split_answers(
    batch: Sequence[ImportedMessage],
) -> Iterator[Sequence[ImportedMessage]]:
    """Split the messages so that each later part begins with a model's message."""
    starts = [n for n, message in enumerate(batch) if n and message.turn_begins]
    for start, end in pairwise([0, *starts, len(batch)]):
        yield batch[start:end]


def _build_bad(
    refusal: Refusal,
    place: TextPosition,
    *,
    run: int | None = None,
    message: int | None = None,
) -> BadRecord:
    """Build the bad item that reports a refusal."""
    differs = isinstance(refusal, _DIFFERENCES)
    return BadRecord(
        code="differs" if differs else getattr(refusal, "invalid_code", refusal.code),
        place=place,
        run=run,
        message=message,
        final=isinstance(refusal, _FATAL),
        detail=refusal.sentence if isinstance(refusal, BudgetDiffersError) else "",
    )
