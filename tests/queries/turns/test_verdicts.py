"""Verdicts about a turn, from invented facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.utils import timezone

from inspector.turns import turn_words
from memoryhub.kernel.search.excerpts import Excerpt
from memoryhub.queries.paging.lives import LifeStep, PageLife, StepKind
from memoryhub.queries.turns.matches import (
    MatchStanding,
    QuestionMatch,
    QuestionMatches,
)
from memoryhub.queries.turns.missing import ManifestOffer, MissingPage, MissingPages
from memoryhub.queries.turns.turn_faults import TurnFault
from memoryhub.queries.turns.verdicts import judge_turn


def step(kind: StepKind, clock: int, turn: int = 9, **body: Any) -> LifeStep:
    return LifeStep(
        kind=kind, thread=UUID(int=1), seq=clock, clock=clock, turn=turn, body=body
    )


def absent(page_id: str, **facts: Any) -> MissingPage:
    page = MissingPage(
        page_id=page_id,
        entry=None,
        used=None,
        omitted=False,
        text=None,
        life=PageLife(page_id=page_id, steps=(), spans=(), cut=False),
        left=None,
        shortened=None,
        refused=None,
        newcomer=None,
        offer=None,
        wanted=None,
        recent=False,
        missed=False,
    )
    return replace(page, **facts)


def among(*pages: MissingPage, whole: tuple[str, ...] = ()) -> MissingPages:
    return MissingPages(
        pages=pages,
        more=0,
        whole=frozenset(whole),
        free=100,
        since=5,
        clock=50,
        head=90,
    )


def fault(page_id: str | None, refusal: str = "", seq: int = 60) -> TurnFault:
    kind = "fault.refused" if refusal else "page.faulted"
    body = {"page_id": page_id, "refusal": refusal, "level": 0, "reason": "speculative"}
    return TurnFault(seq=seq, at=timezone.now(), type=kind, body=body)


LEFT = absent("left", left=step("left", 40, cause="pressure"), recent=True)
OFFERED = absent(
    "old", left=step("left", 4, turn=1), offer=ManifestOffer(row=1, rows=2, hint="")
)
SHORT = absent("short", used=object())


def matched(*pages: tuple[str, MatchStanding]) -> QuestionMatches:
    excerpt = Excerpt(text="", matches=(), before=False, after=False)
    items = tuple(
        QuestionMatch(
            rank=n, page_id=page, score=9.0 / n, excerpt=excerpt, standing=standing
        )
        for n, (page, standing) in enumerate(pages, start=1)
    )
    return QuestionMatches(items=items, total=len(items))


NONE = matched()


def test_verdict_without_a_match_is_calm() -> None:
    verdict = judge_turn(among(LEFT), NONE, ())
    assert (verdict.kind, verdict.first, verdict.calm) == ("unmatched", None, True)


def test_best_match_that_was_not_in_comes_before_all_else() -> None:
    best = matched(("left", "out"), ("short", "shortened"))
    verdict = judge_turn(among(LEFT, SHORT), best, [fault("p", "no_room")])
    assert (verdict.kind, verdict.pages, verdict.calm) == ("out", (LEFT,), False)


def test_best_match_that_was_shortened_comes_before_a_refusal() -> None:
    best = matched(("short", "shortened"), ("left", "out"))
    verdict = judge_turn(among(LEFT, SHORT), best, [fault("p", "no_room")])
    assert (verdict.kind, verdict.pages) == ("shortened", (SHORT,))


def test_refusal_comes_before_matches_that_are_not_the_best() -> None:
    best = matched(("a", "in"), ("left", "out"))
    verdict = judge_turn(among(LEFT), best, [fault("p", "no_room")])
    assert (verdict.kind, verdict.first) == ("refused", None)
    assert verdict.fault is not None
    assert judge_turn(among(LEFT), NONE, [fault("left", "fault_budget")]).first == LEFT


def test_refusal_that_was_served_later_is_no_verdict() -> None:
    refused = fault("p", "no_room", seq=60)
    assert judge_turn(among(), NONE, [refused, fault("p", seq=61)]).kind == "unmatched"
    assert judge_turn(among(whole=("p",)), NONE, [refused]).kind == "unmatched"


def test_unknown_page_id_is_no_verdict() -> None:
    assert judge_turn(among(), NONE, [fault(None, "page_unknown")]).kind == "unmatched"


def test_other_matches_that_were_not_in_are_counted() -> None:
    best = matched(("a", "in"), ("left", "out"), ("b", "shortened"), ("old", "out"))
    verdict = judge_turn(among(LEFT, OFFERED), best, ())
    assert (verdict.kind, verdict.pages) == ("partly", (LEFT, OFFERED))
    assert turn_words.describe_verdict(verdict, best) == (
        "2 of the 4 best matches were not in the request"
    )
    assert (
        turn_words.describe_standing(best)
        == "4 best matches: 1 in, 1 shortened, 2 not in"
    )


def test_verdict_is_complete_when_all_matches_were_shown() -> None:
    verdict = judge_turn(among(LEFT), matched(("a", "in"), ("b", "in")), ())
    assert (verdict.kind, verdict.calm) == ("complete", True)
    some = matched(("a", "in"), ("b", "shortened"))
    assert turn_words.describe_verdict(judge_turn(among(), some, ()), some) == (
        "All that matches the question's words was in the request, some of it shortened"
    )


def test_words_tell_a_turn_that_nobody_asked_from_one_that_nothing_matches() -> None:
    verdict = judge_turn(among(), NONE, ())
    assert "matches this question" in turn_words.describe_verdict(verdict, NONE)
    silent = QuestionMatches(has_question=False)
    assert (
        turn_words.describe_verdict(verdict, silent)
        == "Nothing was asked before this turn"
    )
    part = QuestionMatches(complete=False)
    assert "indexed so far" in turn_words.describe_verdict(verdict, part)
