"""Rows of a request's texts, in order, for a bar and a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.html import format_html

from inspector.drawing import first_words
from inspector.drawing.first_words import FirstWords
from inspector.turns.turns import ROW_CHARS
from inspector.words.recall_words import RECALL_SOURCES
from memoryhub.kernel.context import recalls
from memoryhub.kernel.packing.cuts import TextCut
from memoryhub.queries.turns.inclusions import FrameCause
from memoryhub.queries.turns.turns import RequestSection, ShownRequest, UsedText

#: Rows on one page, and cells of the bar.
ROWS, CELLS = 72, 150
#: Turns after which the page reports that a recalled text was not used.
EARLY = 3
#: Names of the sections, in the order of any request.
_GROUPS = {
    "system": "Head",
    "rules": "Head",
    "blocks": "Head",
    "log": "Observations",
    "context": "Pages",
    "history": "History",
    "manifest": "Manifest",
    "recall": "Recalled automatically",
    "added": "Added to blocks",
    "exchange": "Exchange",
    "tools": "Tools",
}
ROLES = ("user", "assistant", "tool", "system")
#: Shared words that are shown.
WORDS = 6
_RULES = {
    "explicit": ("pinned", "by a command"),
    "system": ("pinned", "system prompt"),
    "exchange": ("this exchange", "verbatim"),
    "recent": ("kept", "made in the last turns"),
    "claim": ("kept", "a claim"),
    "newest": ("the question", "always in"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BarCell:
    """Cell of the bar, in percent of the budget."""

    hue: str
    x: str
    width: str
    label: str
    #: Row that the cell links to; empty if the page does not show the row.
    row: str

    @property
    def svg(self) -> str:
        """SVG of the cell, built without a template: a bar has up to 150 cells."""
        drawn = format_html(
            '<rect class="fill-{}" x="{}%" width="{}%" height="36"><title>{}</title>'
            "</rect>",
            self.hue,
            self.x,
            self.width,
            self.label,
        )
        if not self.row:
            return drawn
        return format_html('<a href="#{}" tabindex="-1">{}</a>', self.row, drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """Text of the request, and why the request holds it."""

    used: UsedText
    #: Role or type of the text; and the role that colours it.
    who: str
    hue: str
    excerpt: FirstWords | None
    #: Emphasised word, and the rest of the reason.
    reason: tuple[str, str]
    #: Event that shortened or fetched the text, in the thread's own journal.
    event: int | None
    #: Turn whose request first held the text in this form.
    since: int | None
    #: Tokens in percent of the largest row's tokens.
    width: str
    #: Colour and words for a text not shown in full; else None.
    chip: tuple[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionGroup:
    """Section of the bar; the sections of the head form one group."""

    name: str
    parts: tuple[RequestSection, ...]
    tokens: int
    refs: int
    #: Beginning and end on the bar, in percent.
    begin: str
    end: str
    hues: tuple[str, ...]


def list_groups(shown: ShownRequest) -> list[SectionGroup]:
    """List the request's sections, grouped under the names that the page shows."""
    found, begin, whole = list[SectionGroup](), 0, _compute_whole(shown)
    for name in dict.fromkeys(_GROUPS[part.name] for part in shown.parts):
        parts = tuple(part for part in shown.parts if _GROUPS[part.name] == name)
        tokens = sum(part.tokens for part in parts)
        inside = {part.name for part in parts}
        hues = {_find_hue(each) for each in shown.used if each.section in inside}
        found.append(
            SectionGroup(
                name=name,
                parts=parts,
                tokens=tokens,
                refs=sum(part.refs for part in parts),
                # A bracket ends before the next begins.
                begin=_render_percent(begin + whole / 800, whole),
                end=_render_percent(max(begin + tokens - whole / 800, begin), whole),
                hues=tuple(hue for hue in ROLES if hue in hues) or (parts[0].name,),
            )
        )
        begin += tokens
    return found


def draw_bar(shown: ShownRequest, rows: Sequence[RequestRow]) -> list[BarCell]:
    """Draw a cell for each text; neighbours share one where there are too many."""
    found, begin, whole = list[BarCell](), 0.0, _compute_whole(shown)
    there = {row.used.place for row in rows}
    step = -(-len(shown.used) // CELLS) or 1
    for part in shown.parts:
        inside = [each for each in shown.used if each.section == part.name]
        total = sum(each.tokens or 1 for each in inside)
        for start in range(0, len(inside), step):
            chunk = inside[start : start + step]
            size = part.tokens * sum(each.tokens or 1 for each in chunk) / total
            found.append(_build_cell(chunk, begin, size, whole, there))
            begin += size
        if not inside:
            found.append(
                BarCell(
                    hue=part.name,
                    x=_render_percent(begin, whole),
                    width=_render_percent(part.tokens, whole),
                    label=f"{part.name}, {_render_tokens(part.tokens)}",
                    row="",
                )
            )
            begin += part.tokens
    return found


def list_rows(
    shown: ShownRequest,
    window: Sequence[UsedText],
    causes: Mapping[int, FrameCause],
    *,
    began: int,
    own: bool,
    turns: int,
) -> list[RequestRow]:
    """Build the rows of a window's texts.

    `began` is the seq at which the turn began, `turns` the thread's number of turns.
    """
    most = max((used.tokens or 0 for used in window), default=0)
    cuts = {cut.page_id: cut for cut in shown.cuts}
    found = list[RequestRow]()
    for used in window:
        since = _find_first_turn(shown, used, causes, began) if own else None
        cut = cuts.get(used.page_id) if used.cut or used.level else None
        # For a text recalled lately it is too early to say whether it is used.
        is_early = since is not None and turns < since + EARLY
        row = RequestRow(
            used=used,
            who=(used.text.role or used.text.type) if used.text else "page",
            hue=_find_hue(used),
            excerpt=None
            if used.text is None
            else first_words.build_page_words(used.text, used.level, chars=ROW_CHARS),
            reason=_explain_row(used),
            event=_find_event(used) if own else None,
            since=since,
            width=_render_percent(used.tokens or 0, most),
            chip=_word_chip(used, cut, is_early=is_early),
        )
        found.append(row)
    return found


def group_by_section(rows: Iterable[RequestRow]) -> dict[str, list[RequestRow]]:
    """Group the rows by section, in their order."""
    found: dict[str, list[RequestRow]] = {}
    for row in rows:
        found.setdefault(row.used.section, []).append(row)
    return found


def choose_window(
    shown: ShownRequest, chosen: int | None
) -> tuple[int, list[UsedText]]:
    """Choose the texts of the page: the last ROWS, or ROWS from a place on."""
    used = shown.used
    first = max(0, len(used) - ROWS)
    if chosen is not None:
        first = min(max(0, chosen - 1), max(0, len(used) - 1))
    return first, [*used[first : first + ROWS]]


def iter_cause_seqs(window: Sequence[UsedText]) -> Iterator[int]:
    """Yield the seqs of the events that included these texts."""
    for used in window:
        if used.inclusion is not None and used.inclusion.cause_seq is not None:
            yield used.inclusion.cause_seq


def _render_tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count:,} tokens"


def _compute_whole(shown: ShownRequest) -> int:
    return max(1, shown.event.budget, sum(part.tokens for part in shown.parts))


def _render_percent(size: float, whole: float) -> str:
    return f"{100 * size / whole:.3f}" if whole else "0"


def _find_hue(used: UsedText) -> str:
    """Find the role that colours a text; `system` for pages without a role."""
    role = used.text.role if used.text else None
    return role if role in ROLES else "system"


def _build_cell(
    chunk: Sequence[UsedText], begin: float, size: float, whole: int, there: set[int]
) -> BarCell:
    largest = max(chunk, key=lambda used: used.tokens or 0)
    first, tokens = chunk[0], sum(used.tokens or 0 for used in chunk)
    name = first.page_id or "erased"
    if len(chunk) > 1:
        name = f"{name} and {len(chunk) - 1} more"
    return BarCell(
        hue=_find_hue(largest),
        x=_render_percent(begin, whole),
        # Leave a hairline between neighbours, if they are wide enough.
        width=_render_percent(max(size - whole / 1500, size * 0.7), whole),
        label=f"{name}, {_render_tokens(tokens)}",
        row=f"in-{first.place}" if first.place in there else "",
    )


def _word_chip(
    used: UsedText, cut: TextCut | None, *, is_early: bool
) -> tuple[str, str] | None:
    """Describe a text not shown in full, with a colour; None for a full text."""
    level = f"~{used.level}" if used.level else ""
    if cut is not None:
        of_all = f"{cut.shown_tokens:,} of {_render_tokens(cut.tokens)}"
        return "short", f"{level}, {of_all}" if level else of_all
    if level:
        whole = used.inclusion.full_tokens if used.inclusion else None
        return "short", level if whole is None else f"{level} of {whole:,}"
    if used.cut == 0:
        return "out", "named"
    if used.recalled:
        return "fault", "fetched"
    if used.source and used.used:
        return "in", "used"
    if used.source:
        return "", "not used so far" if is_early else "not used"
    return None


def _explain_row(used: UsedText) -> tuple[str, str]:
    why = used.inclusion.why if used.inclusion else ""
    if used.source:
        # A neighbour of a matching text may be recalled without sharing a word.
        words = ", ".join(used.shared[:WORDS]) or "its place next to a match"
        if used.source in recalls.PREFETCHED:
            words = ""
        if used.source in recalls.EXCHANGED:
            words = used.beside or "a text that was found"
        return RECALL_SOURCES[used.source], words
    if used.cut == 0:
        return "only named", "its text has left"
    if used.level:
        return f"shortened to ~{used.level}", ""
    if used.cut:
        return "cut", f"{used.cut:,} characters of it"
    if why in _RULES:
        return _RULES[why]
    score = f"score {used.inclusion.score:.2f}" if used.inclusion else ""
    if used.recalled:
        return "fetched back", score
    return "", f"kept, {score}" if score else "–"


def _find_event(used: UsedText) -> int | None:
    """Find the event that shortened or fetched a text."""
    if used.inclusion is None or not (used.level or used.recalled):
        return None
    return used.inclusion.cause_seq


def _find_first_turn(
    shown: ShownRequest, used: UsedText, causes: Mapping[int, FrameCause], began: int
) -> int | None:
    """Find the turn whose request first held the text in this form."""
    inclusion, turn = used.inclusion, shown.event.turn
    recall = shown.recorded.record.recall
    if used.source and recall:
        return recall.turn
    if inclusion is None or inclusion.cause_seq is None:
        return None
    cause = causes.get(inclusion.cause_seq)
    if cause is None or inclusion.cause_seq >= began:
        return turn if cause else None
    happened = inclusion.created_turn if cause.turn is None else cause.turn
    return min(turn, happened + 1)
