"""Imports: recorded runs enter threads through the ordinary writer, each once.

An import may be killed anywhere and repeated: what is there stays, what is missing
follows. Memory does not grow with the file.
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
    ProjectDeletedError,
    Refusal,
    StaleError,
    SubjectErasedError,
    ThreadErasedError,
    UnavailableError,
    ValueErasedError,
)
from memoryhub.kernel.formats.records import Bad, TextPosition
from memoryhub.kernel.formats.transcripts import Item, Line, Message, Run, Thread
from memoryhub.models.projects import Project
from memoryhub.services.imports.intakes import Intake
from memoryhub.services.turns.simulations import Simulation

BATCH_MESSAGES = 200
#: Of content in one transaction, so that other writers never wait long for theirs.
BATCH_BYTES = 4 * 1_048_576
#: Lines of all threads together that wait for a batch of their thread to fill.
WAITING_LINES = 2_000

#: The thread moved on or turned out to be another's: not what the file would make.
_DIFFERS = (StaleError, NotFoundError)
_ERASED = (SubjectErasedError, ThreadErasedError, ValueErasedError)
#: Trouble that the next record would meet too.
_FINAL = (
    UnavailableError,
    CorruptError,
    ProjectDeletedError,
    BudgetDiffersError,
)


@dataclass(slots=True)
class Counts:
    """What an import has done so far."""

    #: Threads that were made or grew, that held it all, that were erased, or whose
    #: subject or run's info was.
    runs: int = 0
    present: int = 0
    erased: int = 0
    slots: int = 0
    turns: int = 0
    #: Runs or lines left out because they are bad.
    skipped: int = 0
    #: By code: oddities that did not stop anything.
    warnings: Counter[str] = field(default_factory=Counter)
    #: What paging did, where it is simulated; by word.
    paging: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class _Chat:
    """A thread whose lines come now and then."""

    place: TextPosition
    index: int
    intake: Intake | None = None
    written: int = 0
    #: It takes no more lines: it is bad, or it was erased.
    over: bool = False
    erased: bool = False


class _Waiting:
    """Lines that wait until there is a batch of their thread.

    What makes a batch depends on the file alone, so that an import that was killed and
    repeated makes the same ones as one that was not.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[Line]] = {}
        self._count = self._bytes = 0

    def add(self, line: Line) -> list[list[Line]]:
        """Add a line, and return the batches that are due with it."""
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

    def drain(self) -> list[list[Line]]:
        """Return all that waits, a batch a thread."""
        batches = list(self._lines.values())
        self._lines, self._count, self._bytes = {}, 0, 0
        return batches


class Import:
    """One pass over a file: `take` its items, then look at `counts`, `complete`."""

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
        #: Tokens of the context that paging is simulated with; None: it is not.
        self.budget = budget
        self.counts = Counts()
        #: Whether the end of the file was reached.
        self.complete = False
        self._waiting = _Waiting()
        self._chats: dict[str, _Chat] = {}

    def take(self, items: Iterable[Item]) -> Iterator[Bad | Counts]:
        """Import the items in their order. Yields what is bad, and the counts.

        Ends with the first Bad unless `skip_bad`, and always with a final one; what
        came before it is on disk then. The counts come after each batch.
        """
        for step in self._steps(items):
            yield step
            if isinstance(step, Bad) and self._stops(step):
                self._settle_what_was_written()
                return
        self.complete = True

    def _stops(self, bad: Bad) -> bool:
        return bad.final or not self.skip_bad

    def _steps(self, items: Iterable[Item]) -> Iterator[Bad | Counts]:
        for item in items:
            if isinstance(item, Bad):
                if self._stops(item):
                    yield from self._flush(self._waiting.drain())
                self.counts.skipped += 1
                yield item
            elif isinstance(item, Run):
                yield from self._run(item)
            else:
                yield from self._flush(self._waiting.add(item))
        yield from self._flush(self._waiting.drain())
        for chat in self._chats.values():
            yield from self._end(chat)

    def _run(self, run: Run) -> Iterator[Bad | Counts]:
        """Write a whole run, batch by batch."""
        self._warn("extra_field", run.unknown_fields)
        written = 0
        try:
            intake = self._begin(run.thread)
            for batch in _batches(run.messages):
                written += self._take(intake, run.thread, batch, len(run.messages))
                yield self.counts
            intake.finish()
        except _ERASED:
            self.counts.erased += 1
        except Refusal as refusal:
            self.counts.skipped += 1
            yield _bad(refusal, run.place, run=run.index)
        else:
            self._settle(written)
            yield self.counts

    def _flush(self, batches: Iterable[list[Line]]) -> Iterator[Bad | Counts]:
        """Write lines, each batch those of one thread."""
        for lines in batches:
            first = lines[0]
            chat = self._chats.get(first.thread.name)
            if chat is None:
                chat = _Chat(place=first.place, index=first.index)
                self._chats[first.thread.name] = chat
            if not chat.over:
                yield from self._extend(chat, lines)
            elif not chat.erased:
                self.counts.skipped += len(lines)

    def _extend(self, chat: _Chat, lines: list[Line]) -> Iterator[Bad | Counts]:
        thread, messages = lines[0].thread, [line.message for line in lines]
        try:
            chat.intake = chat.intake or self._begin(thread)
            chat.written += self._take(chat.intake, thread, messages, len(messages))
        except _ERASED:
            chat.over = chat.erased = True
            self.counts.erased += 1
        except Refusal as refusal:
            chat.over = True
            self.counts.skipped += len(lines)
            yield _bad(refusal, lines[0].place, message=lines[0].index)
        else:
            yield self.counts

    def _end(self, chat: _Chat) -> Iterator[Bad | Counts]:
        """The file has no more lines for this thread."""
        if chat.over or chat.intake is None:
            return
        try:
            chat.intake.finish()
        except Refusal as refusal:
            self.counts.skipped += 1
            yield _bad(refusal, chat.place, message=chat.index)
        else:
            self._settle(chat.written)

    def _begin(self, thread: Thread) -> Intake:
        simulation = None
        if self.budget is not None:
            simulation = Simulation(budget=self.budget, counts=self.counts.paging)
        return Intake.begin(
            self.project, thread, dry_run=self.dry_run, simulation=simulation
        )

    def _take(
        self, intake: Intake, thread: Thread, batch: Sequence[Message], total: int
    ) -> int:
        """How many of the batch were written."""
        written = 0
        for part in [batch] if self.budget is None else _answers(batch):
            fresh = intake.take(thread, part, total=total)
            self.counts.slots += len(fresh)
            self.counts.turns += sum(message.turn_begins for message in fresh)
            written += len(fresh)
        self._warn("unknown_call", sum(message.unknown_call for message in batch))
        return written

    def _settle(self, written: int) -> None:
        if written:
            self.counts.runs += 1
        else:
            self.counts.present += 1

    def _settle_what_was_written(self) -> None:
        """Count the threads of lines that have grown, though the file goes on."""
        grown = [chat for chat in self._chats.values() if chat.written]
        self.counts.runs += sum(not chat.over for chat in grown)

    def _warn(self, code: str, times: int) -> None:
        if times:
            self.counts.warnings[code] += times


def _batches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The messages in batches that one transaction takes."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += len(message.text)
        if len(batch) >= BATCH_MESSAGES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _answers(batch: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """The messages in parts, each of which but the first begins with a model's."""
    starts = [n for n, message in enumerate(batch) if n and message.turn_begins]
    for start, end in pairwise([0, *starts, len(batch)]):
        yield batch[start:end]


def _bad(
    refusal: Refusal,
    place: TextPosition,
    *,
    run: int | None = None,
    message: int | None = None,
) -> Bad:
    differs = isinstance(refusal, _DIFFERS)
    return Bad(
        code="differs" if differs else getattr(refusal, "invalid_code", refusal.code),
        place=place,
        run=run,
        message=message,
        final=isinstance(refusal, _FINAL),
        detail=refusal.sentence if isinstance(refusal, BudgetDiffersError) else "",
    )
