"""Verdicts on a turn's request, judged from facts alone. Pure.

The first verdict that holds is returned; verdicts are ordered by significance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from memoryhub.queries.turns.matches import QuestionMatches
from memoryhub.queries.turns.missing import MissingPage, MissingPages
from memoryhub.queries.turns.turn_faults import TurnFault

VerdictKind = Literal["out", "shortened", "refused", "partly", "complete", "unmatched"]
#: Refusal without meaning for the model's needs: no such page ever existed.
_GUESSED = "page_unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnVerdict:
    """The verdict shown first for a turn."""

    kind: VerdictKind
    #: The pages that the verdict concerns, most significant first.
    pages: tuple[MissingPage, ...] = ()
    #: The refusal that the verdict concerns.
    fault: TurnFault | None = None

    @property
    def first(self) -> MissingPage | None:
        return self.pages[0] if self.pages else None

    @property
    def calm(self) -> bool:
        """Tell whether the turn needs no attention."""
        return self.kind in ("complete", "unmatched")


def judge_turn(
    missing: MissingPages, matches: QuestionMatches, faults: Sequence[TurnFault]
) -> TurnVerdict:
    """Return the first verdict that holds.

    `faults` are those of the turn's exchange up to its end, oldest first. In order: the
    best match for the question was not in the request; the best match was shortened;
    the model requested a page and was refused; others of the ten best matches were not
    in the request; all were in the request.
    """
    best = matches.items[0] if matches.items else None
    if best is not None and best.standing != "in":
        found = missing.find(best.page_id)
        return TurnVerdict(kind=best.standing, pages=(found,) if found else ())
    if fault := _find_refusal(missing, faults):
        page = missing.find(str(fault.body.get("page_id")))
        return TurnVerdict(kind="refused", fault=fault, pages=(page,) if page else ())
    out = [missing.find(each.page_id) for each in matches.list_with_standing("out")]
    if out:
        return TurnVerdict(kind="partly", pages=tuple(page for page in out if page))
    return TurnVerdict(kind="complete" if best else "unmatched")


def _find_refusal(
    missing: MissingPages, faults: Sequence[TurnFault]
) -> TurnFault | None:
    """Find the newest refusal of a page that the model did not receive otherwise."""
    got = set(missing.whole)
    for fault in reversed(faults):
        page_id = fault.body.get("page_id")
        if not fault.refused:
            got.add(str(page_id))
        elif fault.body["refusal"] != _GUESSED and page_id not in got:
            return fault
    return None
