"""Bundles: a subject's whole memory as a ZIP, built while it is sent. Never writes.

The server stores no bundle and uses constant memory. An erasure meanwhile ends the
stream before the ZIP's directory, so a bundle that opens is whole. See decision 23.
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
from memoryhub.queries.export.bundle_cuts import BundleCut
from memoryhub.queries.export.bundle_events import ExportTally
from memoryhub.queries.export.bundle_files import Chunk, ZipArchive

#: Signer of bytes: returns the id of the key, and the signature.
Sign = Callable[[bytes], tuple[str, bytes]]
Progress = Callable[[int], None]


def stream(
    cut: BundleCut,
    *,
    user_id: str | None,
    sign: Sign,
    progress: Progress = lambda events: None,
) -> Iterator[bytes]:
    """Yield the bundle of a cut, part by part; `progress` receives counts of events.

    Raises SubjectErasedError between two parts once the subject's epoch has moved.
    """
    yield from stream_archive(
        cut, lambda archive: _add_files(archive, cut, user_id, sign, progress)
    )


def stream_archive(
    cut: BundleCut, add: Callable[[ZipArchive], Iterator[bytes]]
) -> Iterator[bytes]:
    """Yield a ZIP about a cut, part by part; `add` adds the files.

    Raises SubjectErasedError between two parts once the subject's epoch has moved.
    """
    archive = ZipArchive(lambda: _require_same(cut))
    try:
        yield from add(archive)
        yield archive.end()
    finally:
        archive.drop()


def list_record_files() -> frozenset[str]:
    """Return the paths of the files of records that every bundle has."""
    fixed = (EVENTS, MANIFEST, bundle_states.THREADS, bundle_texts.ACCESS)
    return frozenset({*fixed, *nouns.FILES})


def build_canonical(manifest: dict[str, Any]) -> bytes:
    """Return the signed bytes of a manifest: keys sorted, no space, no signature."""
    rest = {name: value for name, value in manifest.items() if name != "signature"}
    return orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)


def _add_files(
    archive: ZipArchive,
    cut: BundleCut,
    user_id: str | None,
    sign: Sign,
    progress: Progress,
) -> Iterator[bytes]:
    seen = ExportTally()
    yield from archive.add("README.md", [Chunk(bundle_texts.render_readme(cut))])
    events = _report_progress(bundle_events.iter_event_chunks(cut, seen), progress)
    yield from archive.add(EVENTS, events, schema=_build_schema_path(EVENTS))
    cut = seen.extend_cut(cut)
    yield from _add_states(archive, cut, seen)
    for path, text in bundle_texts.build_schemas().items():
        yield from archive.add(path, [Chunk(text)])
    yield from bundle_pages.add(archive, cut, progress)
    yield from archive.add(bundle_texts.ACCESS, bundle_texts.iter_access_chunks(cut))
    recipients = bundle_texts.render_recipients(cut)
    yield from archive.add(bundle_texts.RECIPIENTS, [Chunk(recipients)])
    yield from archive.add(
        "processing.md", [Chunk(bundle_texts.render_processing(cut))]
    )
    manifest = _build_manifest(cut, user_id, archive, erased=seen.erased)
    key_id, sig = sign(build_canonical(manifest))
    manifest["signature"] = {"key_id": key_id, "sig": sig.hex()}
    text = orjson.dumps(manifest, option=orjson.OPT_INDENT_2)
    yield from archive.add(MANIFEST, [Chunk(text + b"\n")])


def _add_states(
    archive: ZipArchive, cut: BundleCut, seen: ExportTally
) -> Iterator[bytes]:
    path = bundle_states.THREADS
    threads = bundle_states.iter_thread_chunks(cut)
    yield from archive.add(path, threads, schema=_build_schema_path(path))
    for path, file in nouns.FILES.items():
        among = seen.find_threads(file.needs, cut)
        chunks = bundle_states.iter_state_chunks(cut, file.lines, among=among)
        yield from archive.add(path, chunks, schema=_build_schema_path(path))


_build_schema_path = bundle_texts.build_schema_path


def _report_progress(chunks: Iterator[Chunk], progress: Progress) -> Iterator[Chunk]:
    for chunk in chunks:
        yield chunk
        progress(chunk.records)


def _require_same(cut: BundleCut) -> None:
    """Raise SubjectErasedError if anything of the subject was erased since the cut."""
    same = Subject.objects.filter(id=cut.subject.id, epoch=cut.subject.epoch)
    if not same.exclude(state__in=bundle_cuts.GONE).exists():
        raise SubjectErasedError


def _build_manifest(
    cut: BundleCut, user_id: str | None, archive: ZipArchive, *, erased: int
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "instance": str(cut.instance),
        "exported_at": _format_time(cut.taken_at),
        "subject": _build_subject(cut.subject, user_id),
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


def _build_subject(subject: Subject, user_id: str | None) -> dict[str, Any]:
    return {
        "id": str(subject.id),
        "user_id": user_id,
        "anonymous": subject.anonymous,
        "state": subject.state,
        "basis": subject.basis,
        "generation": subject.generation,
        "created_at": _format_time(subject.created_at),
        "holds": [
            {
                "basis": hold.basis,
                "opened_at": _format_time(hold.opened_at),
                "expires_at": _format_time(hold.expires_at),
                "lifted_at": _format_time(hold.lifted_at) if hold.lifted_at else None,
            }
            for hold in Hold.objects.filter(subject=subject.id).order_by("opened_at")
        ],
    }


def _format_time(moment: Any) -> str:
    text: str = moment.isoformat(timespec="microseconds")
    return text
