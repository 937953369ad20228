"""Tiles: a working set page by page, in groups, newest last. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inspector.drawing import first_words
from inspector.drawing.first_words import FirstWords
from inspector.drawing.outcomes import RULES
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.state.pages import SYSTEM_PROMPT, Entry, Location
from memoryhub.queries.paging.eviction_runs import EvictionStep
from memoryhub.queries.paging.residency import Cell

#: A group, and the cells that its tiles are made of.
Part = tuple["Group", Sequence[Cell]]
#: Pages whose text was opened, with the level that it has.
Texts = Mapping[str, tuple[Opened, int]]

#: Tiles that one picture holds; pages beyond are groups that a link opens.
SHOWN = 96
#: Messages that are always shown, and how many make a group of older ones.
NEWEST, LEAST, MOST = 12, 12, 24
#: With fewer tiles than this the last of the older groups stands open.
AIRY = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A page as it is drawn."""

    cell: Cell
    #: Of the largest tile's tokens, in per cent.
    size: float
    #: `pinned`, `held`, or nothing.
    hold: str
    #: Why it stays, in a few words.
    held: str
    #: It came since the moment that changes are marked from.
    new: bool
    #: The one that Tab leads to; arrows lead to the others.
    stop: bool = False
    words: FirstWords = first_words.NONE

    @property
    def hue(self) -> str:
        """Name the role whose colour it has."""
        return self.cell.role or "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Pages that stand together in the context."""

    #: What the URL calls it: the page that it begins with.
    name: str
    title: str
    pages: int
    tokens: int
    #: Empty for a group that a link opens.
    tiles: tuple[Tile, ...] = field(default=())
    open: bool = False
    #: Of pages that are no messages; of the newest messages.
    beside: bool = False
    newest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A page that has just left, or stands there shortened."""

    step: EvictionStep
    hue: str
    words: FirstWords
    #: By the very event at hand.
    now: bool


def groups(cells: Sequence[Cell], *, since: int, opened: str) -> list[Group]:
    """Group the cells of a working set; those that came from `since` on are new.

    Of older groups the nearest have their tiles, and the one that is asked for; in all
    at most some `SHOWN`.
    """
    others = [cell for cell in cells if cell.slot is None or cell.role == "system"]
    messages = [cell for cell in cells if cell.slot is not None]
    messages = [cell for cell in messages if cell.role != "system"]
    older, newest = messages[:-NEWEST], messages[-NEWEST:]
    most = max((cell.tokens for cell in cells), default=1) or 1
    drawn = [*_group_others(others), *_group_turns(older)]
    if newest:
        drawn.append((_group(newest, title="Newest", newest=True), newest))
    room, found = SHOWN, list[Group]()
    for group, part in reversed(drawn):
        shown = group.newest or group.name == opened or len(part) <= room
        # What is older than a group that is left out is left out as well.
        room = room - len(part) if shown else 0
        tiles = _tiles(part, most=most, since=since) if shown else ()
        found.append(replace(group, tiles=tiles, open=group.name == opened))
    return _opened(found[::-1], len(cells))


def places(drawn: Iterable[Group]) -> dict[str, Location]:
    """Return where the texts of the tiles lie, by page."""
    return {
        tile.cell.page_id: tile.cell.place for group in drawn for tile in group.tiles
    }


def worded(drawn: Iterable[Group], texts: Texts) -> list[Group]:
    """Put their first words on the tiles; the first that is seen is a tab stop."""
    stopped, found = False, list[Group]()
    for group in drawn:
        tiles = []
        for tile in group.tiles:
            stop = not stopped and (group.open or group.newest)
            stopped = stopped or stop
            words = _words(tile.cell.page_id, texts)
            tiles.append(replace(tile, words=words, stop=stop))
        found.append(replace(group, tiles=tuple(tiles)))
    return found


def gone(
    steps: Iterable[EvictionStep],
    entries: Mapping[str, Entry],
    texts: Texts,
    *,
    at: int,
) -> list[Gone]:
    """Draw what left up to an event."""
    return [
        Gone(
            step=each,
            hue=_hue(entries.get(each.page_id)),
            words=_words(each.page_id, texts),
            now=each.seq == at,
        )
        for each in steps
    ]


def _hue(entry: Entry | None) -> str:
    return (entry.role if entry else None) or "system"


def _words(page_id: str, texts: Texts) -> FirstWords:
    return first_words.page_words(*texts.get(page_id, (None, 0)))


def _opened(drawn: list[Group], count: int) -> list[Group]:
    """Open what stands beside the messages, and what is nearest if that is little."""
    older = [n for n, g in enumerate(drawn) if not (g.newest or g.beside)]
    nearest = older[-1] if older and count <= AIRY else None
    return [
        replace(each, open=each.open or (n == 0 and each.beside) or n == nearest)
        for n, each in enumerate(drawn)
    ]


def _group_others(cells: Sequence[Cell]) -> Iterator[Part]:
    """Group pages that are no messages, as many together as a group may have."""
    for at in range(0, len(cells), MOST):
        part = cells[at : at + MOST]
        title = "More of these" if at else "Instructions, other pages"
        yield _group(part, title=title, beside=True), part


def _group_turns(cells: Sequence[Cell]) -> Iterator[Part]:
    """Group older messages by their turns."""
    for part in _split_older(cells):
        yield _group(part, title=_title(part)), part


def _split_older(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Split where a turn begins, as soon as there are enough for a group."""
    found: list[list[Cell]] = []
    for cell in cells:
        part = found[-1] if found else []
        turns = bool(part) and part[-1].created_turn != cell.created_turn
        if not found or len(part) >= MOST or (turns and len(part) >= LEAST):
            found.append([cell])
        else:
            part.append(cell)
    return found


def _title(cells: Sequence[Cell]) -> str:
    first, last = cells[0].created_turn, cells[-1].created_turn
    if last == 0:
        return f"{cells[0].page_id} to {cells[-1].page_id}"
    return f"Turn {last:,}" if first == last else f"Turns {first:,} to {last:,}"


def _group(
    cells: Sequence[Cell], *, title: str, beside: bool = False, newest: bool = False
) -> Group:
    return Group(
        name=cells[0].page_id,
        title=title,
        pages=len(cells),
        tokens=sum(cell.tokens for cell in cells),
        beside=beside,
        newest=newest,
    )


def _tiles(cells: Iterable[Cell], *, most: int, since: int) -> tuple[Tile, ...]:
    return tuple(_tile(cell, most=most, since=since) for cell in cells)


def _tile(cell: Cell, *, most: int, since: int) -> Tile:
    why = cell.why
    hold, held = "", "" if why.rank is None else f"leaves as number {why.rank:,}"
    if why.rule:
        by_hand = why.rule == "explicit" or cell.page_id == SYSTEM_PROMPT
        hold = "pinned" if by_hand else "held"
        held = RULES[why.rule]
    elif why.protected_until is not None:
        hold, held = "held", f"held until turn {why.protected_until:,}"
    return Tile(
        cell=cell,
        size=round(max(1.5, 100 * cell.tokens / most), 1),
        hold=hold,
        held=held,
        new=0 < since <= (cell.since_seq or 0),
    )
