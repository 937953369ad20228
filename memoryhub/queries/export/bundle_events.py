"""Events of a bundle: read thread by thread in short batches, and opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import orjson

from memoryhub.errors import CorruptError
from memoryhub.journal.log import chain, event_lines
from memoryhub.journal.log.event_lines import EventLine
from memoryhub.journal.rows import statements
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.text import names
from memoryhub.models.subjects import Subject
from memoryhub.queries.export import bundle_cuts
from memoryhub.queries.export.bundle_cuts import Cut, ThreadCut
from memoryhub.queries.export.bundle_files import Chunk, chunks
from memoryhub.vault.keys import keys, payloads
from memoryhub.vault.keys.payloads import PayloadAddress, Purpose

#: Events read in one statement.
BATCH = 1_000
_SEALED = frozenset(kind for kind, event in TYPES.items() if event.sealed)


class Seen:
    """What was found on the way through the events."""

    def __init__(self) -> None:
        #: Events whose content is gone.
        self.erased = 0
        #: By type, the threads that have such events, or go on from one that has.
        self.threads: dict[str, set[UUID]] = {}

        #: Threads, and how far their events go.
        self.moved: dict[UUID, ThreadCut] = {}

    def cut(self, cut: Cut) -> Cut:
        """Return how far the events have gone."""
        parts = (self.moved.get(part.id, part) for part in cut.parts)
        return replace(cut, parts=tuple(parts))

    def note(self, part: ThreadCut, lines: Iterable[EventLine]) -> None:
        self.moved[part.id] = part
        for line in lines:
            self.erased += line.erased is not None
            self.threads.setdefault(line.type, set()).add(part.id)

    def among(self, needs: Iterable[str], cut: Cut) -> set[UUID]:
        """Return the threads that one of these events can have made something in."""
        found = {thread for kind in needs for thread in self.threads.get(kind, ())}
        # Parents come before their forks.
        for part in cut.parts:
            if part.parent in found:
                found.add(part.id)
        return found


def iter_events(cut: Cut) -> Iterator[tuple[ThreadCut, list[EventLine]]]:
    """Yield all events up to the cut, in batches of one thread each.

    A query a batch. A page deleted or a value erased since has taken content from
    before the cut: the thread then goes on to where that is told, so that no gap is
    without its reason.
    """
    for cut_part in cut.parts:
        part, after = cut_part, 0
        while after < part.head_seq:
            batch = statements.select_events(
                part.id, after=after, up_to=part.head_seq, limit=BATCH
            )
            if not batch:
                raise CorruptError(missing_seq=after + 1)
            lines = _opened(cut.subject, part, batch)
            if max(line.erased or 0 for line in lines) > part.head_seq:
                part = bundle_cuts.moved_on(part)
            yield part, lines
            after = lines[-1].seq


def texts(cut: Cut, seen: Seen) -> Iterator[Chunk]:
    """Yield `events.jsonl`, chunk by chunk."""
    for part, lines in iter_events(cut):
        seen.note(part, lines)
        yield from chunks(event_lines.written(line) + b"\n" for line in lines)


def _opened(
    subject: Subject, part: ThreadCut, rows: list[tuple[Any, ...]]
) -> list[EventLine]:
    opened = keys.subject_keys(subject.id, epoch=subject.epoch)
    read = _Reader(opened, subject.project_id, part)
    return [read.line(row) for row in rows]


class _Reader:
    """Makes lines of a thread's rows. What one does for each event counts."""

    def __init__(
        self, opened: keys.SubjectKeys, project: UUID, part: ThreadCut
    ) -> None:
        self._part = part
        self._thread = str(part.id)
        self._gone = part.status == "erased"
        place = PayloadAddress(
            project=project,
            subject=opened.subject,
            thread=part.id,
            seq=0,
            purpose=Purpose.PAYLOAD,
        )
        self._open = payloads.opener(opened, place)

    def line(self, row: tuple[Any, ...]) -> EventLine:
        seq, kind, at, actor, body, payload, erased, link = row
        if self._part.blank is not None:
            body = _blanked(kind, body, self._part.blank)
        content = None
        if kind not in _SEALED:
            # Of one that never had content, `erased_by` tells who blanked its names.
            erased = None
        elif payload is not None and self._gone:
            # Its payloads are on their way out; nobody is shown them any more.
            erased = self._part.head_seq
        elif payload is not None:
            content = self._open(seq, bytes(payload))
        digest = bytes(link).hex()
        return EventLine(
            self._thread, seq, kind, at, actor, body, content, erased, digest
        )


def _blanked(kind: str, body: str, salt: bytes) -> str:
    plain = orjson.loads(body)
    blank = partial(names.blank, salt)
    return chain.text_of(names.replace_names(TYPES[kind], plain, blank))
