"""Bundles: a subject's whole memory as a ZIP, made while it is sent. Never writes.

Nothing is stored, and memory stays flat whatever it has. Should it be erased
meanwhile, the stream ends before its directory: what opens is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from memoryhub.errors import SubjectErasedError
from memoryhub.kernel.formats.bundles import EVENTS, FORMAT, MANIFEST
from memoryhub.models.erasures import Hold
from memoryhub.models.subjects import Subject
from memoryhub.queries import nouns
from memoryhub.queries.export import (
    bundle_cuts,
    bundle_events,
    bundle_pages,
    bundle_states,
    bundle_texts,
)
from memoryhub.queries.export.bundle_cuts import Cut
from memoryhub.queries.export.bundle_events import Seen
from memoryhub.queries.export.bundle_files import Archive, Chunk

#: Signs bytes: the id of the key, and the signature.
Sign = Callable[[bytes], tuple[str, bytes]]
Progress = Callable[[int], None]


def stream(
    cut: Cut,
    *,
    user_id: str | None,
    sign: Sign,
    progress: Progress = lambda events: None,
) -> Iterator[bytes]:
    """Yield the bundle of a cut, part by part; `progress` counts the events read.

    Raises SubjectErasedError once the subject's epoch has moved, between two parts.
    """
    archive = Archive(lambda: _require_same(cut))
    try:
        yield from _files(archive, cut, user_id, sign, progress)
        yield archive.end()
    finally:
        archive.drop()


def parts() -> frozenset[str]:
    """Return the names of every bundle's files of records, as the registry has them."""
    fixed = (EVENTS, MANIFEST, bundle_states.THREADS, bundle_texts.ACCESS)
    return frozenset({*fixed, *nouns.FILES})


def canonical(manifest: dict[str, Any]) -> bytes:
    """Return the signed part of a manifest: keys sorted, no space, no signature."""
    rest = {name: value for name, value in manifest.items() if name != "signature"}
    return orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)


def _files(
    archive: Archive, cut: Cut, user_id: str | None, sign: Sign, progress: Progress
) -> Iterator[bytes]:
    seen = Seen()
    yield from archive.add("README.md", [Chunk(bundle_texts.readme(cut))])
    events = _with_progress(bundle_events.texts(cut, seen), progress)
    yield from archive.add(EVENTS, events, schema=_described(EVENTS))
    cut = seen.cut(cut)
    yield from _states(archive, cut, seen)
    for path, text in bundle_texts.schemas().items():
        yield from archive.add(path, [Chunk(text)])
    yield from bundle_pages.add(archive, cut, progress)
    yield from archive.add(bundle_texts.ACCESS, bundle_texts.access(cut))
    recipients = bundle_texts.recipients(cut)
    yield from archive.add(bundle_texts.RECIPIENTS, [Chunk(recipients)])
    yield from archive.add("processing.md", [Chunk(bundle_texts.processing(cut))])
    manifest = _manifest(cut, user_id, archive, erased=seen.erased)
    key_id, sig = sign(canonical(manifest))
    manifest["signature"] = {"key_id": key_id, "sig": sig.hex()}
    text = orjson.dumps(manifest, option=orjson.OPT_INDENT_2)
    yield from archive.add(MANIFEST, [Chunk(text + b"\n")])


def _states(archive: Archive, cut: Cut, seen: Seen) -> Iterator[bytes]:
    path = bundle_states.THREADS
    threads = bundle_states.thread_texts(cut)
    yield from archive.add(path, threads, schema=_described(path))
    for path, file in nouns.FILES.items():
        among = seen.among(file.needs, cut)
        chunks = bundle_states.texts(cut, file.lines, among=among)
        yield from archive.add(path, chunks, schema=_described(path))


_described = bundle_texts.schema_of


def _with_progress(chunks: Iterator[Chunk], progress: Progress) -> Iterator[Chunk]:
    for chunk in chunks:
        yield chunk
        progress(chunk.records)


def _require_same(cut: Cut) -> None:
    """Raise SubjectErasedError when anything of it was erased since the cut."""
    same = Subject.objects.filter(id=cut.subject.id, epoch=cut.subject.epoch)
    if not same.exclude(state__in=bundle_cuts.GONE).exists():
        raise SubjectErasedError


def _manifest(
    cut: Cut, user_id: str | None, archive: Archive, *, erased: int
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "instance": str(cut.instance),
        "exported_at": _time(cut.taken_at),
        "subject": _subject(cut.subject, user_id),
        "cut": [
            {
                "thread": str(part.id),
                "name": part.name,
                "status": part.status,
                "head_seq": part.head_seq,
                "head_hash": bytes(part.head_hash).hex(),
                "parent": str(part.parent) if part.parent else None,
                "parent_seq": part.parent_seq,
            }
            for part in cut.parts
        ],
        "files": [file.model_dump(by_alias=True) for file in archive.files],
        "erased": erased,
    }


def _subject(subject: Subject, user_id: str | None) -> dict[str, Any]:
    return {
        "id": str(subject.id),
        "user_id": user_id,
        "anonymous": subject.anonymous,
        "state": subject.state,
        "basis": subject.basis,
        "generation": subject.generation,
        "created_at": _time(subject.created_at),
        "holds": [
            {
                "basis": hold.basis,
                "opened_at": _time(hold.opened_at),
                "expires_at": _time(hold.expires_at),
                "lifted_at": _time(hold.lifted_at) if hold.lifted_at else None,
            }
            for hold in Hold.objects.filter(subject=subject.id).order_by("opened_at")
        ],
    }


def _time(moment: Any) -> str:
    text: str = moment.isoformat(timespec="microseconds")
    return text
