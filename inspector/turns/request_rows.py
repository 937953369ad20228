"""Rows of a request: what it was made of, in its order, for a bar and a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.html import format_html

from inspector.drawing import first_words
from inspector.drawing.first_words import FirstWords
from inspector.turns.turns import ROW_CHARS
from memoryhub.kernel.levels import recalls
from memoryhub.kernel.packing.cuts import Cut
from memoryhub.queries.turns.inclusions import Cause
from memoryhub.queries.turns.turns import RequestSection, Shown, Used

#: Rows that stand on a page at once, and cells of the bar.
ROWS, CELLS = 72, 150
#: Turns from which on it is told that what was brought along was not used.
EARLY = 3
#: Sections as they are called, in the order of any request.
_GROUPS = {
    "system": "Head",
    "rules": "Head",
    "blocks": "Head",
    "log": "Observations",
    "context": "Pages",
    "history": "History",
    "manifest": "Manifest",
    "recall": "Brought along unasked",
    "added": "Added to blocks",
    "exchange": "Exchange",
    "tools": "Tools",
}
ROLES = ("user", "assistant", "tool", "system")
#: How what a turn brought along was found; the words it shares with the question
#: follow.
_SOURCES = {
    "search": "found by",
    "elsewhere": "in an earlier thread, found by",
    "summary": "the newest summary",
    "claim": "a claim that is used often",
    "prerequisite": "read before tools like those called last",
}
#: Of those, how many are shown.
WORDS = 6
_RULES = {
    "explicit": ("pinned", "by a command"),
    "system": ("pinned", "system prompt"),
    "exchange": ("this exchange", "verbatim"),
    "recent": ("held", "made in the last turns"),
    "claim": ("held", "a claim"),
    "newest": ("the question", "always in"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Hold a stretch of the bar, in percent of the budget."""

    hue: str
    x: str
    width: str
    label: str
    #: The row that it leads to; empty where none is shown.
    row: str

    @property
    def svg(self) -> str:
        """Draw the cell without a template: a bar has up to 150 of them."""
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
    """Hold a text of the request, and why it is in."""

    used: Used
    #: Its role, or its type; and the role that colours it.
    who: str
    hue: str
    excerpt: FirstWords | None
    #: A word that is set off, and the rest of the reason.
    reason: tuple[str, str]
    #: The event behind it, in the thread's own journal.
    event: int | None
    #: The turn whose request first had it so.
    since: int | None
    #: Its tokens in percent of the largest row's.
    width: str
    #: How it is shown other than in full: a colour and words, or None.
    chip: tuple[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Hold a section, or those of the head together."""

    name: str
    parts: tuple[RequestSection, ...]
    tokens: int
    refs: int
    #: Beginning and end on the bar, in percent.
    begin: str
    end: str
    hues: tuple[str, ...]


def list_groups(shown: Shown) -> list[Group]:
    """Gather the request's sections under the names that people know them by."""
    found, begin, whole = list[Group](), 0, _whole(shown)
    for name in dict.fromkeys(_GROUPS[part.name] for part in shown.parts):
        parts = tuple(part for part in shown.parts if _GROUPS[part.name] == name)
        tokens = sum(part.tokens for part in parts)
        inside = {part.name for part in parts}
        hues = {_hue(each) for each in shown.used if each.section in inside}
        found.append(
            Group(
                name=name,
                parts=parts,
                tokens=tokens,
                refs=sum(part.refs for part in parts),
                # A bracket ends before the next begins.
                begin=_percent(begin + whole / 800, whole),
                end=_percent(max(begin + tokens - whole / 800, begin), whole),
                hues=tuple(hue for hue in ROLES if hue in hues) or (parts[0].name,),
            )
        )
        begin += tokens
    return found


def draw_bar(shown: Shown, rows: Sequence[RequestRow]) -> list[Cell]:
    """Draw one cell for each text, folding neighbours where there are very many."""
    found, begin, whole = list[Cell](), 0.0, _whole(shown)
    there = {row.used.place for row in rows}
    step = -(-len(shown.used) // CELLS) or 1
    for part in shown.parts:
        inside = [each for each in shown.used if each.section == part.name]
        total = sum(each.tokens or 1 for each in inside)
        for start in range(0, len(inside), step):
            chunk = inside[start : start + step]
            size = part.tokens * sum(each.tokens or 1 for each in chunk) / total
            found.append(_cell(chunk, begin, size, whole, there))
            begin += size
        if not inside:
            found.append(
                Cell(
                    hue=part.name,
                    x=_percent(begin, whole),
                    width=_percent(part.tokens, whole),
                    label=f"{part.name}, {_tokens(part.tokens)}",
                    row="",
                )
            )
            begin += part.tokens
    return found


def list_rows(
    shown: Shown,
    window: Sequence[Used],
    causes: Mapping[int, Cause],
    *,
    began: int,
    own: bool,
    turns: int,
) -> list[RequestRow]:
    """Word the texts of a window.

    `began` is the seq at which the turn did, `turns` how many the thread has by now.
    """
    most = max((used.tokens or 0 for used in window), default=0)
    cuts = {cut.page_id: cut for cut in shown.cuts}
    found = list[RequestRow]()
    for used in window:
        since = _since(shown, used, causes, began) if own else None
        cut = cuts.get(used.page_id) if used.cut or used.level else None
        # Of what was brought along lately it is too early to say.
        is_early = since is not None and turns < since + EARLY
        row = RequestRow(
            used=used,
            who=(used.text.role or used.text.type) if used.text else "page",
            hue=_hue(used),
            excerpt=None
            if used.text is None
            else first_words.page_words(used.text, used.level, chars=ROW_CHARS),
            reason=_reason(used),
            event=_event(used) if own else None,
            since=since,
            width=_percent(used.tokens or 0, most),
            chip=_word_chip(used, cut, is_early=is_early),
        )
        found.append(row)
    return found


def group_by_section(rows: Iterable[RequestRow]) -> dict[str, list[RequestRow]]:
    """Gather the rows of each section, in their order."""
    found: dict[str, list[RequestRow]] = {}
    for row in rows:
        found.setdefault(row.used.section, []).append(row)
    return found


def window_of(shown: Shown, chosen: int | None) -> tuple[int, list[Used]]:
    """Choose which texts stand on the page: the last ones, or those from a place on."""
    used = shown.used
    first = max(0, len(used) - ROWS)
    if chosen is not None:
        first = min(max(0, chosen - 1), max(0, len(used) - 1))
    return first, [*used[first : first + ROWS]]


def cause_seqs(window: Sequence[Used]) -> Iterator[int]:
    """Yield the events that put these texts where they are."""
    for used in window:
        if used.inclusion is not None and used.inclusion.cause_seq is not None:
            yield used.inclusion.cause_seq


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count:,} tokens"


def _whole(shown: Shown) -> int:
    return max(1, shown.event.budget, sum(part.tokens for part in shown.parts))


def _percent(size: float, whole: float) -> str:
    return f"{100 * size / whole:.3f}" if whole else "0"


def _hue(used: Used) -> str:
    """The role that colours it; pages that nobody said look as the system's do."""
    role = used.text.role if used.text else None
    return role if role in ROLES else "system"


def _cell(
    chunk: Sequence[Used], begin: float, size: float, whole: int, there: set[int]
) -> Cell:
    largest = max(chunk, key=lambda used: used.tokens or 0)
    first, tokens = chunk[0], sum(used.tokens or 0 for used in chunk)
    name = first.page_id or "erased"
    if len(chunk) > 1:
        name = f"{name} and {len(chunk) - 1} more"
    return Cell(
        hue=_hue(largest),
        x=_percent(begin, whole),
        # A hairline between neighbours, where they are wide enough for one.
        width=_percent(max(size - whole / 1500, size * 0.7), whole),
        label=f"{name}, {_tokens(tokens)}",
        row=f"in-{first.place}" if first.place in there else "",
    )


def _word_chip(
    used: Used, cut: Cut | None, *, is_early: bool
) -> tuple[str, str] | None:
    """Word how a text is shown other than in full, with the colour of that."""
    level = f"~{used.level}" if used.level else ""
    if cut is not None:
        of_all = f"{cut.shown_tokens:,} of {_tokens(cut.tokens)}"
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


def _reason(used: Used) -> tuple[str, str]:
    why = used.inclusion.why if used.inclusion else ""
    if used.source:
        if used.source in recalls.PREFETCHED:
            return _SOURCES[used.source], ""
        # A neighbour may be found, of what has the words.
        words = ", ".join(used.shared[:WORDS]) or "what was said beside it"
        return _SOURCES[used.source], words
    if used.cut == 0:
        return "only named", "what it said has left"
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


def _event(used: Used) -> int | None:
    """The event worth a look: by which it was shortened or fetched."""
    if used.inclusion is None or not (used.level or used.recalled):
        return None
    return used.inclusion.cause_seq


def _since(
    shown: Shown, used: Used, causes: Mapping[int, Cause], began: int
) -> int | None:
    """The turn whose request first showed it as this one does."""
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
