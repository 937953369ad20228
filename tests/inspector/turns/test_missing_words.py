"""Rows of pages missing from a request, drawn from made-up facts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.template.loader import render_to_string

from inspector.turns import turn_missing
from memoryhub.kernel.state.pages import LevelEntry, Location, PageEntry
from memoryhub.queries.turns.missing import ManifestOffer, MissingPage
from memoryhub.queries.turns.turn_faults import RoomWhenRefused
from memoryhub.queries.turns.turns import UsedText
from tests.inspector.conftest import collapse_spaces
from tests.queries.turns.test_verdicts import absent, among, fault, step

HOME = UUID(int=1)
T = "/p/acme/threads/t"
REFUSED = step("refused", 40, turn=7, refusal="no_room", level=0)
NO_ROOM = "refused in " + f'<a href="{T}/turns/7">turn 7</a>, '
NO_ROOM += f'<a href="{T}?at_seq=40">event 40</a>: there was no room for it'
LEVELS = (LevelEntry(Location(HOME, 1, 0), 1_020, 1_040), None, None, None)
ENTRY = PageEntry("p", 1, "artifact", "text", 0.5, 1, 1, LEVELS)
ROW = {"then": "?at_seq=50", "verdict": {"fault": fault("p", "no_room", seq=40)}}


def used(level: int, **facts: Any) -> UsedText:
    fields: dict[str, Any] = dict.fromkeys(UsedText.__dataclass_fields__)
    given = {"place": 1, "page_id": "p", "level": level, "tokens": 66, **facts}
    return UsedText(**{**fields, "cut": None, **given})


def render_rows(name: str, page: MissingPage, **context: Any) -> str:
    absences = turn_missing.group_absences(among(page))[name]
    thread = {"id": HOME, "turns": 9}
    around = {"rows": absences, "lately": name == "lately", "base": T, "thread": thread}
    template = "inspector/turns/missing/_table.html"
    return collapse_spaces(render_to_string(template, {**ROW, **around, **context}))


def test_refused_fetch_names_its_turn_event_and_reason() -> None:
    drawn = render_rows(
        "lately", absent("p", entry=ENTRY, refused=REFUSED, recent=True)
    )
    assert f"{NO_ROOM}, of 1,020 tokens" in drawn
    assert '<span class="chip out">refused</span>' in drawn
    assert "would have fitted" not in drawn


def test_refused_fetch_names_the_level_that_would_have_fitted() -> None:
    fitting = RoomWhenRefused(tokens=1_020, room=80, level=2, level_tokens=66)
    page = absent("p", refused=REFUSED, recent=True)
    drawn = render_rows("lately", page, fitting=fitting)
    assert f"{NO_ROOM}; ~2 would have fitted, with 66" in drawn


def test_shortened_page_with_a_refused_fetch_has_two_rows() -> None:
    lowered = step("shortened", 30, turn=6, score=0.22, cause="append")
    page = absent("p", used=used(2), shortened=lowered, refused=REFUSED, recent=True)
    assert f"{NO_ROOM}; in the request as ~2" in render_rows("lately", page)
    short = render_rows("short", page)
    assert f'<a href="{T}/turns/6">turn 6</a>, <a href="{T}?at_seq=30">event' in short
    assert "shortened for lack of room, score 0.22" in short
    assert "refused" not in short


def test_page_shortened_long_ago_is_only_counted() -> None:
    lowered = step("shortened", 10, turn=4)
    found = turn_missing.group_absences(
        among(absent("p", used=used(2), shortened=lowered))
    )
    assert (found["short"], found["standing"]) == ([], 1)


def test_evicted_page_shows_its_score_offer_and_later_request() -> None:
    left = step("left", 35, turn=8, score=0.18)
    page = absent(
        "p", left=left, recent=True, offer=ManifestOffer(row=3, rows=9, hint=None)
    )
    drawn = render_rows("lately", page)
    assert f'<a href="{T}?at_seq=35">event 35</a>, score 0.18' in drawn
    assert "offered, row 3 · not asked for" in drawn
    wanted = absent("p", left=left, missed=True, wanted=step("fetched", 60, turn=9))
    asked = f'not offered · asked for in <a href="{T}/turns/9">turn 9</a>'
    assert asked in render_rows("lately", wanted)
