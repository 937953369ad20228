from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memoryhub.queries.paging.residency import Budget, Cell, Residency
from memoryhub.queries.turns.inclusions import Inclusion

#: Cells that one picture holds; more are a list.
SHOWN = 256
#: Pages of the hot list that stand beside it.
WARM = 40
#: A cell's least and most width, and the tokens that make it a pixel wider.
LEAST, MOST, TOKENS_A_PIXEL = 28, 160, 8
#: The rule that pins a page, in words.
RULES = {
    "explicit": "pinned by a command",
    "system": "auto-pinned: system prompt",
    "exchange": "auto-pinned: since the last user message",
    "recent": "auto-pinned: made in the last turns",
    "claim": "auto-pinned: claim",
}
#: Why else a text is in a request.
INCLUDED = {
    **RULES,
    "newest": "the user's newest message: always in",
    "recalled": "mapped: fetched back",
    "mapped": "mapped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A cell with how it looks."""

    cell: Cell
    width: int
    #: Its border: `pinned`, `auto`, `spared` or nothing.
    border: str
    #: Why it stays, in a few words.
    held: str

    @property
    def glyph(self) -> str:
        level = self.cell.level
        return f"{self.cell.letter}~{level}" if level else self.cell.letter

    @property
    def label(self) -> str:
        """For those who don't see it; begins with what is seen."""
        return f"{self.glyph}: {self.cell.page_id}, {self.cell.tokens:,} tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a bar: from where, how wide."""

    name: str
    begin: int
    size: int


def picture(residency: Residency) -> dict[str, Any]:
    """What the picture of a working set is drawn from."""
    return {
        "residency": residency,
        "drawn": [_drawn(cell) for cell in residency.cells[:SHOWN]],
        "more": max(0, len(residency.cells) - SHOWN),
        "warm": residency.warm[:WARM],
        "colder": max(0, len(residency.warm) - WARM),
        "bar": bar(residency.budget),
        "limits": [*limits(residency.budget)],
        "warnings": [*warnings(residency)],
    }


def _drawn(cell: Cell) -> Drawn:
    why = cell.why
    if why.rule:
        border = "pinned" if why.rule == "explicit" else "auto"
        held = RULES[why.rule]
    elif why.protected_until is not None:
        border, held = "spared", f"protected until turn {why.protected_until:,}"
    else:
        border, held = "", "" if why.rank is None else f"leaves as number {why.rank:,}"
    width = min(MOST, LEAST + cell.tokens // TOKENS_A_PIXEL)
    return Drawn(cell=cell, width=width, border=border, held=held)


def included(inclusion: Inclusion | None) -> str:
    """Why a text is in a request, in a few words."""
    return INCLUDED[inclusion.why] if inclusion else "–"


def stacked(sizes: Iterable[tuple[str, int]]) -> list[Stretch]:
    """Parts one behind the other."""
    found, begin = [], 0
    for name, size in sizes:
        found.append(Stretch(name=name, begin=begin, size=size))
        begin += size
    return found


def bar(budget: Budget) -> list[Stretch]:
    """Where the budget's tokens are, from its first to its last."""
    other = budget.used - budget.pinned - budget.protected
    return stacked(
        (
            ("pinned", budget.pinned),
            ("protected", budget.protected),
            ("other", other),
            ("free", budget.free),
            ("reserved", budget.settings.reserved_tokens),
        )
    )


def limits(budget: Budget) -> Sequence[tuple[str, int]]:
    """Where an eviction run begins, and where it ends."""
    settings = budget.settings
    return (("evict_to", settings.low), ("evict_at", int(settings.high)))


def warnings(residency: Residency) -> Iterable[tuple[str, str]]:
    """States that want a look, each with its reason."""
    budget, refaults = residency.budget, residency.refaults
    if residency.over_budget:
        yield "over budget", "the last turn could not map all that it had to show"
    elif budget.used > budget.settings.high:
        yield "over evict_at", "the next page that comes starts an eviction run"
    if residency.thrash_index >= 0.5:
        yield (
            "thrashing",
            f"{refaults:,} faults in the last 5 turns on pages that had just left",
        )
    elif residency.stuck:
        yield "thrashing", "over 85 % of the room is pinned or protected"
    if count := len(residency.unmapped):
        large = sum(page.too_large for page in residency.unmapped)
        said = "too large to be mapped" if large == count else "found no room"
        yield "not mapped", f"{count:,} page{'s' if count > 1 else ''} {said}"
