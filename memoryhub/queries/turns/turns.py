"""Turns: the model calls of a thread, and the texts of each request.

Never writes and never packs: a recorded request is reassembled or not shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from memoryhub.errors import NotFoundError, NotRecordedError
from memoryhub.journal.log import log
from memoryhub.journal.rows import projections
from memoryhub.kernel.context import block_lines, costs
from memoryhub.kernel.context.contexts import Ref, TurnRecall
from memoryhub.kernel.context.lines import render_shown_text
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.recalls import EXCHANGED
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.messages.words import render_words
from memoryhub.kernel.packing import packers
from memoryhub.kernel.packing.cuts import TextCut
from memoryhub.kernel.paging import recall_use
from memoryhub.kernel.search import excerpts
from memoryhub.kernel.state.page_events import (
    PageFaulted,
    PageReferenced,
    TurnBegan,
    TurnPacked,
)
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.state.state import LineageSegment, ThreadState
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.threads import evicted_pages
from memoryhub.queries.threads.events import get_rows_at
from memoryhub.queries.threads.evicted_pages import CITING
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.turns import contexts
from memoryhub.queries.turns.contexts import RecordedTurn
from memoryhub.queries.turns.inclusions import Inclusion, Inclusions

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFigures:
    """Figures of a recorded request, as lists show them."""

    packer: str
    rules: str | None
    budget: int
    tokens: int
    bytes: int
    #: Tokenizer that counted the whole request; None: est/1.
    tokenizer: str | None
    prefix_tokens: int | None
    simulated: bool
    #: Numbers of texts in the request, and of recalled texts among them.
    pages: int
    recalled: int

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> PackedFigures:
        """Build the figures from the body of a turn.packed, without its checks.

        To check the 950 refs of a large request takes 2 ms, for each listed turn.
        """
        return cls(
            packer=body["packer"],
            rules=body.get("rules"),
            budget=body["budget"],
            tokens=body["tokens"],
            bytes=body["bytes"],
            tokenizer=body.get("tokenizer"),
            prefix_tokens=body.get("prefix_tokens"),
            simulated=body.get("simulated", False),
            pages=sum(len(section["refs"]) for section in body["sections"]),
            recalled=len((body.get("recall") or {}).get("texts", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLine:
    """A turn in a list."""

    n: int
    #: The thread from which the turn was listed.
    thread: UUID
    #: The thread whose journal has the turn: `thread` or an ancestor.
    home: UUID
    #: The seq of the turn's turn.began.
    seq: int
    #: The seq of the turn's turn.packed; None while no context is recorded.
    packed_seq: int | None
    packed: PackedFigures | None
    #: Paging counts of this turn; empty for the newest, unfinished turn.
    moved: Counts
    #: Rate over the latest exchanges, at the turn's end; None for an unfinished turn.
    resident_rate: float | None

    @property
    def inherited(self) -> bool:
        return self.home != self.thread

    @property
    def pages(self) -> int:
        """Return the number of texts in the turn's request."""
        return self.packed.pages if self.packed else 0

    @property
    def recalled(self) -> int:
        """Return the number of recalled texts in the turn's request."""
        return self.packed.recalled if self.packed else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSection:
    """A section of a request."""

    name: str
    bytes: int
    tokens: int
    refs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedText:
    """A text in a request, in the request's order."""

    place: int
    section: str
    #: Empty when the text was erased and no record names its page.
    page_id: str
    #: Whether the text was erased.
    gone: bool
    level: int
    #: The event whose payload has the text; None when the event is an ancestor's.
    seq: int | None
    #: Characters kept of the text; 0 for a result that is only named.
    cut: int | None
    #: Whether the request shows only fetched parts of the text.
    part: bool
    recalled: bool
    #: None when the text was erased.
    text: OpenedPage | None
    #: None when the text was erased.
    tokens: int | None
    #: Range of the text's bytes in the request, end exclusive; None with gaps, and
    #: where ranges were not requested.
    range: tuple[int, int] | None
    #: The text's inclusion by the packed state; None when the state held no such page.
    inclusion: Inclusion | None
    #: For recalled texts: the source, the words shared with the question, and whether
    #: the text was used in time.
    source: str = ""
    shared: tuple[str, ...] = ()
    used: bool = False
    #: For a question or an answer beside a found text: the found text's page.
    beside: str = ""

    @property
    def whole(self) -> bool:
        """Tell whether the request showed the whole page, erased since or not."""
        return not (self.level or self.part or self.cut is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRequest:
    """A recorded request with its texts and their present state."""

    recorded: RecordedTurn
    parts: tuple[RequestSection, ...]
    used: tuple[UsedText, ...]
    #: Texts that the request shows only in part.
    cuts: tuple[TextCut, ...]
    #: None when a part of the request was erased.
    request: bytes | None
    missing: tuple[str, ...]
    verified: bool
    #: Number of payloads opened to reassemble the request.
    payloads: int
    #: The state from which the request was packed.
    state: ThreadState
    #: All texts opened for the request, including pages only offered.
    texts: Mapping[Location, OpenedPage]

    @property
    def event(self) -> TurnPacked:
        return self.recorded.event


def list_turns(
    thread: Thread,
    *,
    up_to: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[TurnLine]:
    """List turns begun at or before seq `up_to`, newest first, inherited ones last.

    Two queries, one more for each ancestor read. Raises BadCursorError when `after` is
    not a cursor of this very list.
    """
    listing = ListScope(
        name="turns", project=thread.project_id, filters=[str(thread.id), up_to]
    )
    # Start at the last turn shown: its counts are those at the next turn's end.
    last = None if after is None else listing.open(after)[0]
    found = _list_rows(get_segments(thread, up_to=up_to), last=last, limit=limit + 2)
    following = None
    if after is not None and found:
        following = orjson.loads(found.pop(0).counters)
    batch = found[:limit]
    more = len(found) > limit
    return ListBatch(
        items=_build_lines(thread, batch, following),
        next=listing.seal([batch[-1].n]) if more else None,
    )


def list_turns_of(
    thread: Thread,
    numbers: Collection[int],
    *,
    up_to: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[TurnLine]:
    """List the turns of these numbers begun at or before seq `up_to`, newest first.

    Two queries, one more for each ancestor read. Raises BadCursorError when `after` is
    not a cursor of such a list.
    """
    listing = ListScope(
        name="turns of", project=thread.project_id, filters=[str(thread.id), up_to]
    )
    last = None if after is None else listing.open(after)[0]
    left = sorted((n for n in numbers if last is None or n < last), reverse=True)
    wanted = left[:limit]
    # The turn after each has the counts of its end.
    read = {*wanted, *(n + 1 for n in wanted)}
    rows = _list_rows(
        get_segments(thread, up_to=up_to), last=None, limit=len(read), among=read
    )
    lines = _build_lines(thread, rows, None)
    return ListBatch(
        items=tuple(line for line in lines if line.n in wanted),
        next=listing.seal([wanted[-1]]) if len(left) > limit else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStart:
    """The start of a turn: time, mode, whether it continues, whether over budget."""

    at: datetime
    mode: str | None
    continues: bool
    over_budget: bool


def get_starts(lines: Sequence[TurnLine]) -> dict[int, TurnStart]:
    """Return the starts of these turns, by number. One query."""
    rows = get_rows_at(((line.home, line.seq) for line in lines), content=False)
    found: dict[int, TurnStart] = {}
    for row in rows.values():
        event = log.to_recorded(row).event
        assert isinstance(event, TurnBegan)
        found[event.n] = TurnStart(
            at=row.at,
            mode=event.mode,
            continues=event.continues,
            over_budget=event.over_budget,
        )
    return found


def find_packed_at(line: TurnLine) -> datetime | None:
    """Return when a turn's request was packed; None if it was not, or by an import.

    One query, or none.
    """
    if line.packed is None or line.packed.simulated or line.packed_seq is None:
        return None
    rows = Event.objects.filter(thread_id=line.home, seq=line.packed_seq)
    return rows.values_list("at", flat=True).get()


def get_turn(thread: Thread, n: int) -> TurnLine:
    """Return one turn, recorded or not.

    Two queries, one more for each ancestor read. Raises NotFoundError for a turn that
    has not begun.
    """
    if not 0 < n <= thread.turn_count:
        raise NotFoundError
    rows = _list_rows(get_segments(thread), last=n + 1, limit=2)
    following = orjson.loads(rows.pop(0).counters) if rows[0].n > n else None
    return _build_lines(thread, rows[:1], following)[0]


def list_around(thread: Thread, n: int, *, before: int, after: int) -> list[TurnLine]:
    """List a turn with the turns before and after it, oldest first.

    Two queries, one more for each ancestor read. Raises NotFoundError for a turn that
    has not begun.
    """
    if not 0 < n <= thread.turn_count:
        raise NotFoundError
    most = 1 + before + after
    rows = _list_rows(get_segments(thread), last=n + after + 1, limit=most + 1)
    following = None
    if rows[0].n > n + after:
        following = orjson.loads(rows.pop(0).counters)
    lines = _build_lines(thread, rows, following)
    return [line for line in reversed(lines) if line.n >= n - before]


def get_packed_tokens(
    thread: Thread, turns: Collection[int], *, up_to: int
) -> dict[int, int]:
    """Return the packed tokens of each of these turns, by number, as of seq `up_to`.

    Turns without a record are left out. Two queries, one more for each ancestor.
    """
    rows = [
        row
        for part in get_segments(thread, up_to=up_to)
        for row in Turn.objects.filter(
            thread_id=part.thread, n__in=turns, packed_seq__lte=part.up_to_seq
        )
    ]
    return {n: packed.tokens for n, packed in _map_packed(rows).items()}


def get_context(
    thread: Thread, n: int, *, with_ranges: bool = False
) -> ShownRequest | None:
    """Reassemble the request of a turn.

    `with_ranges` also finds the byte range of each text, which doubles the time. None
    when the request was never recorded. At most four queries for the record, three for
    the packed state, one for its texts and one for each erased text. `thread` comes
    with its subject. Raises NotFoundError.
    """
    try:
        recorded = contexts.get_recorded_turn(thread, n)
    except NotRecordedError:
        return None
    whole = contexts.reassemble_request(thread, recorded)
    own = recorded.home.id
    places = contexts.list_places(recorded.record, own)
    opened, inclusions = whole.texts, Inclusions(recorded)
    cuts = contexts.list_partial_texts(recorded, opened)
    return ShownRequest(
        recorded=recorded,
        parts=tuple(
            RequestSection(
                name=s.name, bytes=s.bytes, tokens=s.tokens, refs=len(s.refs)
            )
            for s in recorded.record.sections
        ),
        used=tuple(
            _add_recall(
                recorded,
                _iter_used(
                    recorded,
                    opened,
                    inclusions,
                    cuts,
                    inherited=own != thread.id,
                    with_ranges=with_ranges,
                ),
            )
        ),
        cuts=cuts,
        request=whole.request,
        missing=whole.missing,
        verified=whole.verified,
        payloads=len({(place.thread, place.seq) for place in places}),
        state=inclusions.state,
        texts=opened,
    )


def _iter_used(
    recorded: RecordedTurn,
    opened: Mapping[Location, OpenedPage],
    inclusions: Inclusions,
    cuts: Iterable[TextCut],
    *,
    inherited: bool,
    with_ranges: bool,
) -> Iterator[UsedText]:
    shown = {cut.page_id: cut.shown_tokens for cut in cuts}
    record, own = recorded.record, recorded.home.id
    refs = [(s.name, ref) for s in record.sections for ref in s.refs]
    ranges: list[tuple[int, int]] | list[None] = [None] * len(refs)
    if with_ranges and opened.keys() >= {*contexts.list_places(record, own)}:
        ranges = packers.PACKERS[record.packer].ranges(record, opened, thread=own)
    blocks = {
        text.page_id: text
        for ref in record.get_refs("blocks")
        if (text := opened.get(ref.get_location(own))) is not None
    }
    for place, (name, ref) in enumerate(refs, start=1):
        text, inclusion = (
            opened.get(ref.get_location(own)),
            inclusions.find_inclusion(ref),
        )
        page = text or inclusion
        tokens = _count_tokens(text, ref, shown, inclusion) if text else None
        if text and name == "added" and text.page_id in blocks:
            # The head has the block's earlier text: this text adds only the difference.
            tokens = estimate_tokens(
                block_lines.render_addition(blocks[text.page_id], text)
            )
        yield UsedText(
            place=place,
            section=name,
            page_id=page.page_id if page else "",
            gone=text is None,
            level=ref.level,
            seq=None if inherited or ref.thread is not None else ref.seq,
            cut=ref.cut,
            part=ref.part is not None,
            recalled=ref.recalled,
            text=text,
            tokens=tokens,
            range=ranges[place - 1],
            inclusion=inclusion,
        )


def _count_tokens(
    text: OpenedPage, ref: Ref, shown: Mapping[str, int], inclusion: Inclusion | None
) -> int:
    if ref.cut is not None:
        return shown.get(text.page_id, 0)
    if inclusion is not None and inclusion.cost is not None:
        # Counting 960 texts again took a sixth of the page's time.
        return inclusion.cost
    return costs.compute_cost(text, level=ref.level)


def _add_recall(
    recorded: RecordedTurn, found: Iterable[UsedText]
) -> Iterator[UsedText]:
    """Add the source, the shared words and the use to each recalled text.

    Three queries where there are recalled texts.
    """
    used, recall = [*found], recorded.record.recall
    if recall is None:
        yield from used
        return
    opening = next((each for each in used if each.section == "exchange"), None)
    question = opening.text and render_words(opening.text.message) if opening else ""
    words = excerpts.list_question_words(question or "")
    wanted = {*_list_wanted(recorded, recall)}
    refs = recorded.record.get_refs("recall")
    brought = zip(recall.pages, recall.sources, refs, strict=True)
    for each in used:
        if each.section != "recall":
            yield each
            continue
        page_id, source, ref = next(brought)
        text = render_shown_text(each.text, level=each.level) if each.text else ""
        yield replace(
            each,
            page_id=page_id or "",
            source=source,
            shared=tuple(excerpts.list_shared_words(words, text)),
            used=page_id in wanted,
            beside=_find_hit(ref, each.text, recall, refs)
            if source in EXCHANGED
            else "",
        )


def _find_hit(
    ref: Ref, text: OpenedPage | None, recall: TurnRecall, refs: Sequence[Ref]
) -> str:
    """Return the page of the text that was found in a half's exchange, or nothing.

    No other exchange lies between a question and the next hit of its thread, nor
    between an answer and the last hit before.
    """
    found = sorted(
        (abs(hit.seq), page_id)
        for hit, page_id, source in zip(refs, recall.pages, recall.sources, strict=True)
        if hit.thread == ref.thread and source not in EXCHANGED and page_id
    )
    if text is None:
        return ""
    if text.role == "user":
        return next((page_id for seq, page_id in found if seq > ref.seq), "")
    return next((page_id for seq, page_id in reversed(found) if seq < ref.seq), "")


def _list_wanted(recorded: RecordedTurn, recall: TurnRecall) -> Iterable[str | None]:
    """Return recalled pages that were referenced or fetched within the use window."""
    home, last = recorded.home, recall.turn + recall_use.TURNS
    # The turn that recalled the texts may lie before the given turn.
    turns = Turn.objects.filter(thread=home, n__in=(recall.turn, last))
    began = dict(turns.values_list("n", "seq"))
    end = began.get(last)
    pages, since = [each for each in recall.pages if each], began[recall.turn]
    rows = Event.objects.filter(
        thread=home,
        page__in=pages,
        seq__gt=since,
        type__in=(PageReferenced.event_type, PageFaulted.event_type),
    )
    rows = rows if end is None else rows.filter(seq__lt=end)
    yield from rows.values_list("page", flat=True)
    journal = (home.id, home.head_seq if end is None else end - 1)
    cited = evicted_pages.list_places([journal], pages, newest=1, types=CITING)
    yield from (page for (_, seq), page in cited if seq > since)


def _list_rows(
    parts: Sequence[LineageSegment],
    *,
    last: int | None,
    limit: int,
    among: Collection[int] | None = None,
) -> list[Turn]:
    """List turns up to number `last`, or of some numbers, newest first.

    One query for each thread read.
    """
    found: list[Turn] = []
    for part in reversed(parts):
        if len(found) == limit:
            break
        rows = Turn.objects.filter(thread_id=part.thread, seq__lte=part.up_to_seq)
        if last is not None:
            rows = rows.filter(n__lte=last)
        if among is not None:
            rows = rows.filter(n__in=among)
        for row in rows.order_by("-n")[: limit - len(found)]:
            # Packed after the fork: the fork does not inherit this record.
            if row.packed_seq is not None and row.packed_seq > part.up_to_seq:
                row.packed_seq = None
            found.append(row)
    return found


def _build_lines(
    thread: Thread, rows: Sequence[Turn], following: Counts | None
) -> tuple[TurnLine, ...]:
    """Build lines, newest first; `following` are the counts after the newest turn.

    A turn whose next turn is not among `rows` has no counts.
    """
    packed = _map_packed(rows)
    found: list[TurnLine] = []
    for row in rows:
        began: Counts = orjson.loads(row.counters)
        if found and found[-1].n != row.n + 1:
            following = None
        found.append(
            TurnLine(
                n=row.n,
                thread=thread.id,
                home=row.thread_id,
                seq=row.seq,
                packed_seq=row.packed_seq,
                packed=packed.get(row.n),
                moved=subtract_counts(began, following) if following else {},
                resident_rate=projections.compute_rate(following or {}),
            )
        )
        following = began
    return tuple(found)


def subtract_counts(before: Counts, after: Counts) -> dict[str, int]:
    """Return the change of each counter, without unchanged counters."""
    return {
        name: after[name] - before.get(name, 0)
        for name in after
        if after[name] != before.get(name, 0)
    }


def _map_packed(rows: Sequence[Turn]) -> dict[int, PackedFigures]:
    """Return the figures of recorded requests by number of turn. One query."""
    places = [(row.thread_id, row.packed_seq) for row in rows if row.packed_seq]
    found: dict[int, PackedFigures] = {}
    for stored in get_rows_at(places, content=False).values():
        body = orjson.loads(stored.body)
        found[body["turn"]] = PackedFigures.from_body(body)
    return found
