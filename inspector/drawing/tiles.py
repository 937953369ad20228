"""Tiles: the pages of a working set in groups, newest last. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inspector.drawing import first_words
from inspector.drawing.first_words import FirstWords
from inspector.drawing.outcomes import PIN_RULES
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.state.pages import SYSTEM_PROMPT, Location, PageEntry
from memoryhub.queries.paging.eviction_runs import EvictionStep
from memoryhub.queries.paging.residency import ResidentPage

#: A group, and the cells from which its tiles are built.
GroupCells = tuple["TileGroup", Sequence[ResidentPage]]
#: Opened text and level, by page.
PageTexts = Mapping[str, tuple[OpenedPage, int]]

#: Most tiles of a picture; further pages are in groups that a link opens.
MAX_TILES = 96
#: Newest messages, always shown; least and most messages of an older group.
NEWEST, LEAST, MOST = 12, 12, 24
#: Most cells with which the last of the older groups is open at first.
MAX_OPEN_CELLS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTile:
    """A page of the working set as a tile."""

    cell: ResidentPage
    #: Per cent of the largest tile's tokens.
    size: float
    #: `pinned`, `held`, or empty.
    hold: str
    #: Why the page stays, or its rank for eviction.
    held: str
    #: Whether the page came since the moment from which changes are marked.
    new: bool
    #: Whether the Tab key reaches this tile; arrow keys reach the other tiles.
    stop: bool = False
    words: FirstWords = first_words.NONE

    @property
    def hue(self) -> str:
        """Return the role whose colour the tile has."""
        return self.cell.role or "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class TileGroup:
    """Neighbouring pages of the working set, shown together."""

    #: Id of the group's first page; the URL names the group by it.
    name: str
    title: str
    pages: int
    tokens: int
    #: Empty for a closed group that a link opens.
    tiles: tuple[PageTile, ...] = field(default=())
    open: bool = False
    #: Whether the group holds no messages; whether it holds the newest messages.
    beside: bool = False
    newest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartedTile:
    """A page that has just been evicted or shortened."""

    step: EvictionStep
    hue: str
    words: FirstWords
    #: Whether the event shown evicted the page.
    now: bool


def group_cells(
    cells: Sequence[ResidentPage], *, since: int, opened: str, closed: bool = True
) -> list[TileGroup]:
    """Group the cells of a working set; cells that came from `since` on are new.

    The newest groups, and the group named `opened`, get about `MAX_TILES` tiles. With
    `closed` false only open groups get tiles: tiles take most of the time of a seek.
    """
    others = [cell for cell in cells if cell.slot is None or cell.role == "system"]
    messages = [cell for cell in cells if cell.slot is not None]
    messages = [cell for cell in messages if cell.role != "system"]
    older, newest = messages[:-NEWEST], messages[-NEWEST:]
    most = max((cell.tokens for cell in cells), default=1) or 1
    drawn = [*_group_others(others), *_group_turns(older)]
    if newest:
        drawn.append((_build_group(newest, title="Newest", newest=True), newest))
    open_first = _find_open_groups([group for group, _ in drawn], len(cells))
    room, found = MAX_TILES, list[TileGroup]()
    for group, part in reversed(drawn):
        is_open = group.name == opened or group.name in open_first
        shown = group.newest or group.name == opened or len(part) <= room
        # Groups older than a group without tiles get no tiles either.
        room = room - len(part) if shown else 0
        shown = shown and (closed or is_open or group.newest)
        tiles = _build_tiles(part, most=most, since=since) if shown else ()
        found.append(replace(group, tiles=tiles, open=is_open))
    return found[::-1]


def map_locations(drawn: Iterable[TileGroup]) -> dict[str, Location]:
    """Map each page with a tile to the location of its text."""
    return {
        tile.cell.page_id: tile.cell.place for group in drawn for tile in group.tiles
    }


def add_first_words(drawn: Iterable[TileGroup], texts: PageTexts) -> list[TileGroup]:
    """Add first words to the tiles; make the first visible tile the tab stop."""
    stopped, found = False, list[TileGroup]()
    for group in drawn:
        tiles = []
        for tile in group.tiles:
            stop = not stopped and (group.open or group.newest)
            stopped = stopped or stop
            words = _build_words(tile.cell.page_id, texts)
            tiles.append(replace(tile, words=words, stop=stop))
        found.append(replace(group, tiles=tuple(tiles)))
    return found


def build_departed(
    steps: Iterable[EvictionStep],
    entries: Mapping[str, PageEntry],
    texts: PageTexts,
    *,
    at: int,
) -> list[DepartedTile]:
    """Build the tiles of pages evicted up to event `at`."""
    return [
        DepartedTile(
            step=each,
            hue=_get_hue(entries.get(each.page_id)),
            words=_build_words(each.page_id, texts),
            now=each.seq == at,
        )
        for each in steps
    ]


def _get_hue(entry: PageEntry | None) -> str:
    return (entry.role if entry else None) or "system"


def _build_words(page_id: str, texts: PageTexts) -> FirstWords:
    return first_words.build_page_words(*texts.get(page_id, (None, 0)))


def _find_open_groups(drawn: Sequence[TileGroup], count: int) -> set[str]:
    """Name the first group of other pages, and of a small set the last older group."""
    beside = [group.name for group in drawn[:1] if group.beside]
    older = [group.name for group in drawn if not (group.newest or group.beside)]
    return {*beside, *(older[-1:] if count <= MAX_OPEN_CELLS else ())}


def _group_others(cells: Sequence[ResidentPage]) -> Iterator[GroupCells]:
    """Group pages that are not messages, at most `MOST` to a group."""
    for at in range(0, len(cells), MOST):
        part = cells[at : at + MOST]
        title = "More other pages" if at else "Instructions, other pages"
        yield _build_group(part, title=title, beside=True), part


def _group_turns(cells: Sequence[ResidentPage]) -> Iterator[GroupCells]:
    """Group older messages by their turns."""
    for part in _split_older(cells):
        yield _build_group(part, title=_render_title(part)), part


def _split_older(cells: Sequence[ResidentPage]) -> list[list[ResidentPage]]:
    """Split older messages at turns, once a group has `LEAST` pages.

    A group has at most `MOST` pages, even if that splits a turn.
    """
    found: list[list[ResidentPage]] = []
    for cell in cells:
        part = found[-1] if found else []
        turns = bool(part) and part[-1].created_turn != cell.created_turn
        if not found or len(part) >= MOST or (turns and len(part) >= LEAST):
            found.append([cell])
        else:
            part.append(cell)
    return found


def _render_title(cells: Sequence[ResidentPage]) -> str:
    # An imported or a moved message may come after messages of later turns.
    turns = [cell.created_turn for cell in cells]
    first, last = min(turns), max(turns)
    if last == 0:
        return f"{cells[0].page_id} to {cells[-1].page_id}"
    return f"Turn {last:,}" if first == last else f"Turns {first:,} to {last:,}"


def _build_group(
    cells: Sequence[ResidentPage],
    *,
    title: str,
    beside: bool = False,
    newest: bool = False,
) -> TileGroup:
    return TileGroup(
        name=cells[0].page_id,
        title=title,
        pages=len(cells),
        tokens=sum(cell.tokens for cell in cells),
        beside=beside,
        newest=newest,
    )


def _build_tiles(
    cells: Iterable[ResidentPage], *, most: int, since: int
) -> tuple[PageTile, ...]:
    return tuple(_build_tile(cell, most=most, since=since) for cell in cells)


def _build_tile(cell: ResidentPage, *, most: int, since: int) -> PageTile:
    why = cell.why
    hold, held = "", "" if why.rank is None else f"leaves as number {why.rank:,}"
    if why.rule:
        by_hand = why.rule == "explicit" or cell.page_id == SYSTEM_PROMPT
        hold = "pinned" if by_hand else "held"
        held = PIN_RULES[why.rule]
    elif why.rank is None:
        hold, held = "held", "the next request or its group needs it"
    elif why.protected_until is not None:
        hold, held = "held", f"protected until turn {why.protected_until:,}"
    return PageTile(
        cell=cell,
        size=round(max(1.5, 100 * cell.tokens / most), 1),
        hold=hold,
        held=held,
        new=0 < since <= (cell.since_seq or 0),
    )
