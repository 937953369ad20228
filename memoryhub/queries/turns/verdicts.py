"""Verdicts: what was wrong with a turn's request, judged from facts alone. Pure.

The first that holds is given, the one that tells most first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from memoryhub.queries.turns.matches import Matches
from memoryhub.queries.turns.missing import Missing, MissingPage
from memoryhub.queries.turns.turn_faults import Fault

VerdictKind = Literal["out", "shortened", "refused", "partly", "complete", "unmatched"]
#: Refusals that say nothing of what the model needed: there never was such a page.
_GUESSED = "page_unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnVerdict:
    """What is said first of a turn."""

    kind: VerdictKind
    #: Those that it is about, the most telling first.
    pages: tuple[MissingPage, ...] = ()
    #: The refusal that it is about.
    fault: Fault | None = None

    @property
    def first(self) -> MissingPage | None:
        return self.pages[0] if self.pages else None

    @property
    def calm(self) -> bool:
        """Tell whether nothing needs a look."""
        return self.kind in ("complete", "unmatched")


def judge(missing: Missing, matches: Matches, faults: Sequence[Fault]) -> TurnVerdict:
    """Return the first verdict that holds.

    `faults` are those of the turn's exchange up to its end, oldest first. In order: the
    best match for the question was not in; it was in, but shortened; the model asked
    and was refused; others of the ten best matches were not in; all was in.
    """
    best = matches.items[0] if matches.items else None
    if best is not None and best.standing != "in":
        found = missing.find(best.page_id)
        return TurnVerdict(kind=best.standing, pages=(found,) if found else ())
    if fault := _refused(missing, faults):
        page = missing.find(str(fault.body.get("page_id")))
        return TurnVerdict(kind="refused", fault=fault, pages=(page,) if page else ())
    out = [missing.find(each.page_id) for each in matches.standing("out")]
    if out:
        return TurnVerdict(kind="partly", pages=tuple(page for page in out if page))
    return TurnVerdict(kind="complete" if best else "unmatched")


def _refused(missing: Missing, faults: Sequence[Fault]) -> Fault | None:
    """The newest refusal of a page that the model has not got otherwise."""
    got = set(missing.whole)
    for fault in reversed(faults):
        page_id = fault.body.get("page_id")
        if not fault.refused:
            got.add(str(page_id))
        elif fault.body["refusal"] != _GUESSED and page_id not in got:
            return fault
    return None
