"""Recorded contexts as event bodies: as recorded, with names that can be blanked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from memoryhub.kernel.levels import contexts
from memoryhub.kernel.paging.entries import place_body
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

#: Where a ref says how much of its text is shown: cut, part.
_SHORTENED: Final = (2, 5)


def packed(
    record: contexts.Record,
    *,
    turn: int,
    as_of_seq: int,
    prefix_tokens: int | None,
    simulated: bool,
    own: UUID,
) -> TurnPacked:
    """Return the event that stores a record, without the thread's name."""
    return TurnPacked(
        turn=turn,
        as_of_seq=as_of_seq,
        packer=record.packer,
        rules=record.rules,
        tools=record.tools,
        mode=record.mode,  # type: ignore[arg-type]  # closed words
        budget=record.budget,
        sections=[_section_body(section) for section in record.sections],
        manifest=_manifest_body(record.manifest) if record.manifest else None,
        recall=_recall_body(record.recall) if record.recall else None,
        recall_asked=record.recall_asked,
        log_marks=[
            LogMarksBody(slot=each.slot, marks=_mark_bodies(each.marks) or [])
            for each in record.log_marks
        ]
        or None,
        tokens=record.tokens,
        bytes=record.bytes,
        tokenizer=None if record.tokenizer == ESTIMATED else record.tokenizer,
        prefix_tokens=prefix_tokens,
        own_tools=record.own_tools and place_body(record.own_tools, own),
        simulated=simulated,
    )


def shown(record: contexts.Record) -> list[list[Any]]:
    """Return how much is shown of each text that is shortened. Sealed.

    Each is `[cut, part]`, and of a message that keeps beginning and end `kept` as well.
    """
    refs = (ref for section in record.sections for ref in section.refs)
    short = (ref for ref in refs if ref.cut or ref.part)
    return [
        [ref.cut, ref.part, *([[*each] for each in ref.kept],) * bool(ref.kept)]
        for ref in short
    ]


def _section_body(section: contexts.Section) -> SectionBody:
    plain = section.as_json()
    return SectionBody(**plain | {"refs": [_veiled(ref) for ref in plain["refs"]]})


def _veiled(ref: list[Any]) -> list[Any]:
    """A ref that says only that its text is shortened; by nothing kept, it is away."""
    return [
        True if place in _SHORTENED and value else value
        for place, value in enumerate(ref)
    ]


def _section(body: SectionBody, amounts: Iterator[Sequence[Any]]) -> contexts.Section:
    refs = tuple(_ref(each, amounts) for each in body.refs)
    return contexts.Section(
        name=body.name, bytes=body.bytes, tokens=body.tokens, refs=refs
    )


def _ref(values: list[Any], amounts: Iterator[Sequence[Any]]) -> contexts.Ref:
    # Journals from before have amounts here.
    if not any(each is True for each in (*values[2:3], *values[5:6])):
        return contexts.Ref.of(values)
    bare = [None if n in _SHORTENED else each for n, each in enumerate(values)]
    ref, amount = contexts.Ref.of(bare), next(amounts, None)
    if amount is None:
        return ref._replace(lost=True)
    cut, part, *more = amount
    kept = tuple(contexts.Kept(*each) for each in more[0]) if more else ()
    return ref._replace(cut=cut, part=part and (part[0], part[1]), kept=kept)


def _manifest_body(manifest: contexts.Manifest) -> ManifestBody:
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


def _recall_body(recall: contexts.Recall) -> RecallBody:
    texts = [
        RecalledBody(
            source=source, page_id=page_id, marks=_mark_bodies(recall.marked(n))
        )
        for n, (source, page_id) in enumerate(
            zip(recall.sources, recall.pages, strict=True)
        )
    ]
    return RecallBody(turn=recall.turn, texts=texts)


def _mark_bodies(marks: Sequence[contexts.Mark]) -> list[MarkBody] | None:
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


def _recall(body: RecallBody) -> contexts.Recall:
    marks = tuple(_marks(each.marks or ()) for each in body.texts)
    return contexts.Recall(
        turn=body.turn,
        sources=tuple(each.source for each in body.texts),
        pages=tuple(each.page_id for each in body.texts),
        marks=marks if any(marks) else (),
    )


def _marks(bodies: Iterable[MarkBody]) -> tuple[contexts.Mark, ...]:
    return tuple(
        contexts.Mark(UUID(mark.thread), mark.since, mark.begins, mark.holds)
        for mark in bodies
    )


def _place(body: PlaceBody | None, own: UUID) -> Location | None:
    if body is None:
        return None
    return Location(UUID(body.thread) if body.thread else own, body.seq, FULL)


def record_of(
    event: TurnPacked, shown: Iterable[Sequence[Any]], *, thread_name: str, own: UUID
) -> contexts.Record:
    """Return the record that an event of the thread `own` stores, of that name.

    `shown` is what its payload says; refs are lost that need it once that is erased.
    """
    amounts = iter(shown)
    return contexts.Record(
        packer=event.packer,
        mode=event.mode,
        budget=event.budget,
        sections=tuple(_section(section, amounts) for section in event.sections),
        rules=event.rules,
        tools=event.tools,
        manifest=_manifest(event.manifest, thread_name) if event.manifest else None,
        recall=_recall(event.recall) if event.recall else None,
        recall_asked=event.recall_asked,
        bytes=event.bytes,
        tokens=event.tokens,
        tokenizer=event.tokenizer or ESTIMATED,
        own_tools=_place(event.own_tools, own),
        log_marks=tuple(
            contexts.SlotMarks(each.slot, _marks(each.marks))
            for each in event.log_marks or ()
        ),
    )


def _manifest(body: ManifestBody, thread_name: str) -> contexts.Manifest:
    allowed, most, left, tokens = body.policies
    return contexts.Manifest(
        thread=thread_name,
        turn=body.turn,
        mapped=body.mapped,
        policies=contexts.Policies(bool(allowed), most, left, tokens),
        rows=tuple(
            contexts.Row(
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
