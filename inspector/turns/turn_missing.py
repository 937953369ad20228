"""Pages that a turn's request lacks: best matches, pages lately evicted, the verdict.

The page of a turn fetches them as a panel; they have an address of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from inspector.drawing import first_words, lifelines
from inspector.drawing.first_words import FirstWords, Pieces
from inspector.drawing.lifelines import LifeLine
from inspector.lists.screens import Context
from inspector.turns import request_rows, turn_words
from inspector.turns.turns import ROW_CHARS
from memoryhub.kernel.state.pages import FULL
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import exchanges, matches, missing, turn_faults, verdicts
from memoryhub.queries.turns.missing import OFFERED, MissingPage, MissingPages
from memoryhub.queries.turns.turns import ShownRequest, TurnLine

#: Best matches not in the request that the page shows at length.
LONG = 3
#: Characters of a question in a search.
LOOKED_FOR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentPage:
    """Page missing from the request, or shortened in it, as the page shows it."""

    page: MissingPage
    #: Role or type of the page; and the role that colours it.
    who: str
    hue: str
    excerpt: FirstWords | None
    #: Part of a matching page that matches the question.
    marked: Pieces | None
    line: LifeLine
    why: str
    #: Why the page was refused lately; empty if it was not refused.
    refusal: str


def build_missing(row: Thread, shown: ShownRequest, since: TurnLine) -> Context:
    """Build the missing pages of a request, and the verdict on it.

    `since` is the earliest turn whose evictions and refusals count as recent.
    """
    n, own = shown.event.turn, shown.recorded.home.id == row.id
    exchange = exchanges.get_exchange(row, shown.state, n)
    best = matches.get_matches(row, shown, exchange)
    lacking = missing.get_missing(row, shown, since=since, matches=best)
    found = turn_faults.get_faults(row, n, first=exchange.first)
    verdict = verdicts.judge_turn(lacking, best, found.faults if found else ())
    fault, first = verdict.fault, verdict.first
    groups = group_absences(lacking)
    return {
        "then": f"?at_seq={shown.event.as_of_seq}" if own else "",
        "missing": lacking,
        "absences": groups,
        # Matches go by words only: the task itself may have left unmatched.
        "user_left": [
            each
            for each in groups["lately"]
            if each.hue == "user" and each.page.left and each.page.used is None
        ]
        if verdict.calm
        else [],
        # Tokens in use at which an eviction stops.
        "evicts_to": int(shown.state.paging.settings.low),
        "matches": best,
        "match_words": turn_words.describe_standing(best),
        "looked_for": exchange.question_text[:LOOKED_FOR],
        "verdict": verdict,
        "verdict_words": turn_words.describe_verdict(verdict, best),
        "verdict_text": first and _build_absence(lacking, first),
        "refusal": turn_words.describe_refusal(fault),
        "fitting": fault and turn_faults.get_room_when_refused(row, fault),
    }


def group_absences(lacking: MissingPages) -> Context:
    """Group absent pages: matches of the question, lately evicted pages, the rest."""
    drawn = [_build_absence(lacking, page) for page in lacking.pages]
    away = [each for each in drawn if each.page.used is None]
    ranked = [each for each in away if each.page.match is not None]
    others = [each for each in away if each.page.match is None]
    short = [each for each in drawn if each.page.used is not None]
    lately = [each for each in others if each.page.urgency < OFFERED]
    # A shortened page that was refused lately is listed in both groups.
    lately += [each for each in short if each.page.refused is not None]
    fresh = [each for each in short if not _is_long_shortened(lacking, each.page)]
    return {
        "long": ranked[:LONG],
        "brief": ranked[LONG:],
        "lately": lately,
        "folded": [each for each in others if each.page.urgency == OFFERED],
        "short": fresh,
        "standing": len(short) - len(fresh),
    }


def _is_long_shortened(lacking: MissingPages, page: MissingPage) -> bool:
    """Tell whether a page was shortened before the turns that are looked back to."""
    step = page.shortened
    return page.match is None and step is not None and step.turn < lacking.since


def _build_absence(lacking: MissingPages, page: MissingPage) -> AbsentPage:
    entry, excerpt = page.entry, None
    if page.text is not None:
        excerpt = first_words.build_page_words(page.text, FULL, chars=ROW_CHARS)
    role = entry.role if entry else None
    return AbsentPage(
        page=page,
        who=role or (entry.type if entry else "page"),
        hue=role if role in request_rows.ROLES else "system",
        excerpt=excerpt,
        marked=first_words.split_excerpt(page.match.excerpt) if page.match else None,
        line=lifelines.draw(page.life, head=lacking.head, here=lacking.clock),
        why=turn_words.describe_leaving(page.left or page.shortened, page.newcomer),
        refusal=turn_words.describe_refusal(page.refused),
    )
