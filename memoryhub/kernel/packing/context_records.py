"""Event bodies of recorded contexts; the thread name is left out for erasure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from memoryhub.kernel.context import contexts
from memoryhub.kernel.paging.entries import build_place_body
from memoryhub.kernel.state.context_bodies import (
    LogMarksBody,
    ManifestBody,
    MarkBody,
    OfferedBody,
    RecallBody,
    RecalledBody,
    SectionBody,
)
from memoryhub.kernel.state.page_events import PlaceBody, TurnPacked
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.paging_config import ESTIMATED

#: Indexes in a ref that tell how much of its text is shown: cut, part.
_SHORTENED: Final = (2, 5)


def build_turn_packed(
    record: contexts.ContextRecord,
    *,
    turn: int,
    as_of_seq: int,
    prefix_tokens: int | None,
    simulated: bool,
    own: UUID,
    counts_claims: bool = False,
) -> TurnPacked:
    """Build the event that stores a record, without the thread's name."""
    return TurnPacked(
        turn=turn,
        as_of_seq=as_of_seq,
        packer=record.packer,
        rules=record.rules,
        tools=record.tools,
        mode=record.mode,  # type: ignore[arg-type]  # closed words
        budget=record.budget,
        sections=[_build_section_body(section) for section in record.sections],
        manifest=_build_manifest_body(record.manifest) if record.manifest else None,
        recall=_build_recall_body(record) if record.recall else None,
        recall_asked=record.recall_asked,
        log_marks=[
            LogMarksBody(slot=each.slot, marks=_build_mark_bodies(each.marks) or [])
            for each in record.log_marks
        ]
        or None,
        tokens=record.tokens,
        bytes=record.bytes,
        tokenizer=None if record.tokenizer == ESTIMATED else record.tokenizer,
        prefix_tokens=prefix_tokens,
        own_tools=record.own_tools and build_place_body(record.own_tools, own),
        simulated=simulated,
        counts_claims=counts_claims or None,
    )


def list_shown_amounts(record: contexts.ContextRecord) -> list[list[Any]]:
    """List how much is shown of each shortened text. The list is stored sealed.

    Each entry is `[cut, part]`; for a message that keeps beginning and end, `kept`
    follows.
    """
    refs = (ref for section in record.sections for ref in section.refs)
    short = (ref for ref in refs if ref.cut or ref.part)
    return [
        [ref.cut, ref.part, *([[*each] for each in ref.kept],) * bool(ref.kept)]
        for ref in short
    ]


def _build_section_body(section: contexts.Section) -> SectionBody:
    plain = section.to_json()
    return SectionBody(
        **plain | {"refs": [_hide_amounts(ref) for ref in plain["refs"]]}
    )


def _hide_amounts(ref: list[Any]) -> list[Any]:
    """Replace the amounts in a ref by True, which says that the text is shortened."""
    return [
        True if place in _SHORTENED and value else value
        for place, value in enumerate(ref)
    ]


def _build_section(
    body: SectionBody, amounts: Iterator[Sequence[Any]]
) -> contexts.Section:
    refs = tuple(_build_ref(each, amounts) for each in body.refs)
    return contexts.Section(
        name=body.name, bytes=body.bytes, tokens=body.tokens, refs=refs
    )


def _build_ref(values: list[Any], amounts: Iterator[Sequence[Any]]) -> contexts.Ref:
    # Older journals hold the amounts here.
    if not any(each is True for each in (*values[2:3], *values[5:6])):
        return contexts.Ref.from_json(values)
    bare = [None if n in _SHORTENED else each for n, each in enumerate(values)]
    ref, amount = contexts.Ref.from_json(bare), next(amounts, None)
    if amount is None:
        return ref._replace(lost=True)
    cut, part, *more = amount
    kept = tuple(contexts.KeptEnds(*each) for each in more[0]) if more else ()
    return ref._replace(cut=cut, part=part and (part[0], part[1]), kept=kept)


def _build_manifest_body(manifest: contexts.Manifest) -> ManifestBody:
    return ManifestBody(
        turn=manifest.turn,
        mapped=manifest.mapped,
        policies=list(manifest.policies),
        rows=[
            OfferedBody(
                page_id=row.page_id,
                tier=row.tier,  # type: ignore[arg-type]  # closed words
                levels=row.levels,
                seq=row.seq,
                key=row.key,
                thread=str(row.thread) if row.thread else None,
            )
            for row in manifest.rows
        ],
        omitted=manifest.omitted,
        telling=manifest.telling,
    )


def _build_recall_body(record: contexts.ContextRecord) -> RecallBody:
    assert record.recall is not None
    # Where no recall has room, the record keeps the recall without refs.
    recall, refs = record.recall, record.get_refs("recall")
    texts = [
        RecalledBody(
            source=source,
            page_id=page_id,
            marks=_build_mark_bodies(recall.get_marks(n)),
            level=refs[n].level or None if refs else None,
        )
        for n, (source, page_id) in enumerate(
            zip(recall.sources, recall.pages, strict=True)
        )
    ]
    return RecallBody(turn=recall.turn, texts=texts)


def _build_mark_bodies(marks: Sequence[contexts.OutdatedMark]) -> list[MarkBody] | None:
    found = [
        MarkBody(
            thread=str(mark.home),
            since=mark.since,
            begins=mark.begins,
            holds=mark.holds,
        )
        for mark in marks
    ]
    return found or None


def _build_recall(body: RecallBody) -> contexts.TurnRecall:
    marks = tuple(_build_marks(each.marks or ()) for each in body.texts)
    return contexts.TurnRecall(
        turn=body.turn,
        sources=tuple(each.source for each in body.texts),
        pages=tuple(each.page_id for each in body.texts),
        marks=marks if any(marks) else (),
    )


def _build_marks(bodies: Iterable[MarkBody]) -> tuple[contexts.OutdatedMark, ...]:
    return tuple(
        contexts.OutdatedMark(UUID(mark.thread), mark.since, mark.begins, mark.holds)
        for mark in bodies
    )


def _build_location(body: PlaceBody | None, own: UUID) -> Location | None:
    if body is None:
        return None
    return Location(UUID(body.thread) if body.thread else own, body.seq, FULL)


def build_record(
    event: TurnPacked, shown: Iterable[Sequence[Any]], *, thread_name: str, own: UUID
) -> contexts.ContextRecord:
    """Build the record that an event of the thread `own` stores, with `thread_name`.

    `shown` comes from the event's payload. Once the payload is erased, the refs that
    need an entry of `shown` are marked as lost.
    """
    amounts = iter(shown)
    return contexts.ContextRecord(
        packer=event.packer,
        mode=event.mode,
        budget=event.budget,
        sections=tuple(_build_section(section, amounts) for section in event.sections),
        rules=event.rules,
        tools=event.tools,
        manifest=_build_manifest(event.manifest, thread_name)
        if event.manifest
        else None,
        recall=_build_recall(event.recall) if event.recall else None,
        recall_asked=event.recall_asked,
        bytes=event.bytes,
        tokens=event.tokens,
        tokenizer=event.tokenizer or ESTIMATED,
        own_tools=_build_location(event.own_tools, own),
        log_marks=tuple(
            contexts.SlotMarks(each.slot, _build_marks(each.marks))
            for each in event.log_marks or ()
        ),
    )


def _build_manifest(body: ManifestBody, thread_name: str) -> contexts.Manifest:
    allowed, most, left, tokens = body.policies
    return contexts.Manifest(
        thread=thread_name,
        turn=body.turn,
        mapped=body.mapped,
        policies=contexts.FaultPolicies(bool(allowed), most, left, tokens),
        rows=tuple(
            contexts.ManifestRow(
                row.page_id,
                row.tier,
                row.levels,
                row.seq,
                row.key,
                UUID(row.thread) if row.thread else None,
            )
            for row in body.rows
        ),
        omitted=body.omitted,
        telling=body.telling,
    )
