"""Events of a bundle, read and decrypted thread by thread in short batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import orjson

from memoryhub.errors import CorruptError
from memoryhub.journal.log import chain, event_lines
from memoryhub.journal.log.event_lines import BundleLine
from memoryhub.journal.rows import statements
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.text import names
from memoryhub.models.subjects import Subject
from memoryhub.queries.export import bundle_cuts
from memoryhub.queries.export.bundle_cuts import BundleCut, ThreadCut
from memoryhub.queries.export.bundle_files import Chunk, join_lines
from memoryhub.vault.keys import keys, payloads
from memoryhub.vault.keys.payloads import PayloadAddress, Purpose

#: Events read in one statement.
BATCH = 1_000
_SEALED = frozenset(kind for kind, event in TYPES.items() if event.sealed)


class ExportTally:
    """Counts and threads noted while a bundle's events are read."""

    def __init__(self) -> None:
        #: Events whose content was erased.
        self.erased = 0
        #: Threads with an event of a type, by the type.
        self.threads: dict[str, set[UUID]] = {}

        #: Cut of each thread as far as its events were read.
        self.moved: dict[UUID, ThreadCut] = {}

    def extend_cut(self, cut: BundleCut) -> BundleCut:
        """Return the cut, extended to the events that were read."""
        parts = (self.moved.get(part.id, part) for part in cut.parts)
        return replace(cut, parts=tuple(parts))

    def add_lines(self, part: ThreadCut, lines: Iterable[BundleLine]) -> None:
        self.moved[part.id] = part
        for line in lines:
            self.erased += line.erased is not None
            self.threads.setdefault(line.type, set()).add(part.id)

    def find_threads(self, needs: Iterable[str], cut: BundleCut) -> set[UUID]:
        """Return the threads with an event of these types, and forks of the threads."""
        found = {thread for kind in needs for thread in self.threads.get(kind, ())}
        # Parents come before their forks.
        for part in cut.parts:
            if part.parent in found:
                found.add(part.id)
        return found


def iter_events(cut: BundleCut) -> Iterator[tuple[ThreadCut, list[BundleLine]]]:
    """Yield all events up to the cut, in batches of one thread each.

    One query a batch. A page deletion or a value erasure after the cut takes content
    from before the cut: the thread then continues to its present head, so that the
    bundle holds the event behind each gap.
    """
    for cut_part in cut.parts:
        part, after = cut_part, 0
        while after < part.head_seq:
            batch = statements.select_events(
                part.id, after=after, up_to=part.head_seq, limit=BATCH
            )
            if not batch:
                raise CorruptError(missing_seq=after + 1)
            lines = _open_lines(cut.subject, part, batch)
            if max(line.erased or 0 for line in lines) > part.head_seq:
                part = bundle_cuts.refresh_cut(part)
            yield part, lines
            after = lines[-1].seq


def iter_event_chunks(cut: BundleCut, seen: ExportTally) -> Iterator[Chunk]:
    """Yield `events.jsonl`, chunk by chunk."""
    for part, lines in iter_events(cut):
        seen.add_lines(part, lines)
        yield from join_lines(event_lines.render_line(line) + b"\n" for line in lines)


def _open_lines(
    subject: Subject, part: ThreadCut, rows: list[tuple[Any, ...]]
) -> list[BundleLine]:
    opened = keys.get_subject_keys(subject.id, epoch=subject.epoch)
    read = _Reader(opened, subject.project_id, part)
    return [read.build_line(row) for row in rows]


class _Reader:
    """Builder of lines of a thread's rows; prepares once what all events share."""

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
        self._open = payloads.build_opener(opened, place)

    def build_line(self, row: tuple[Any, ...]) -> BundleLine:
        seq, kind, at, actor, body, payload, erased, link = row
        if self._part.blank is not None:
            body = _blank_body(kind, body, self._part.blank)
        content = None
        if kind not in _SEALED:
            # `erased_by` of an event without content tells who blanked its names.
            erased = None
        elif payload is not None and self._gone:
            # The eraser is taking the thread's payloads: leave them out.
            erased = self._part.head_seq
        elif payload is not None:
            content = self._open(seq, bytes(payload))
        digest = bytes(link).hex()
        return BundleLine(
            self._thread, seq, kind, at, actor, body, content, erased, digest
        )


def _blank_body(kind: str, body: str, salt: bytes) -> str:
    plain = orjson.loads(body)
    blank = partial(names.blank, salt)
    return chain.render_body(names.replace_names(TYPES[kind], plain, blank))
