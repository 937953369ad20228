from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from inspector.drawing import cells, summaries
from inspector.drawing.chat import Block
from inspector.lists import panels
from inspector.paging.pages import SCREEN, Side
from inspector.web.search import Asked
from memoryhub.kernel.state.pages import Entry, LevelEntry, Location
from memoryhub.queries.paging.page_uses import Carried, Derived, Uses
from memoryhub.queries.paging.page_views import LevelView, PageView, Step, Version
from memoryhub.queries.paging.pages import PageLine
from memoryhub.queries.paging.previews import Effect, Fill, Preview
from memoryhub.queries.paging.residency import Why
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import (
    BASE,
    NOW,
    Context,
    of_thread,
)
from tests.gallery.states.paging import LOOSE, PINNED, SPARED

HOME = UUID(int=3)


def entry(page_id: str, **more: Any) -> Entry:
    full = LevelEntry(Location(HOME, 14, 0), 88, 97)
    made = LevelEntry(Location(HOME, 30, 2), 20, 26)
    return Entry(
        page_id=page_id,
        version=1,
        type="transcript",
        modality="text",
        importance=0.6,
        created_seq=14,
        created_turn=2,
        levels=(full, None, made, None),
        role="user",
        slot=6,
    )._replace(**more)


MAPPED = PageLine(entry=entry("slot-6"), tier="L0", level=0, pinned=None)
KEPT = PageLine(
    entry=entry("policy", type="claim", role=None, slot=None, version=2),
    tier="L0",
    level=2,
    pinned="explicit",
)
AWAY = PageLine(entry=entry("slot-1", slot=1), tier="L1", level=None, pinned=None)
FULL = LevelView(
    level=0, tokens=88, saved=0, producer="", mapped=True, seq=14, content="Late?"
)
LOWER = replace(
    FULL, level=2, tokens=20, saved=68, producer="extract/1", mapped=False, seq=None
)
MADE = Step(
    seq=14,
    at=NOW,
    type="page.created",
    actor="agent:mh7f3a2c",
    body={"page_id": "policy", "type": "claim", "tokens": 88},
)
LEFT = Step(
    seq=33,
    at=NOW,
    type="page.evicted",
    actor="agent:mh7f3a2c",
    body={
        "page_id": "slot-1",
        "cause": "pressure",
        "score": 0.21,
        "policy": "importance_lru",
        "tier_before": "L0",
        "tier_after": "L1",
    },
)


def view(line: PageLine, why: Why | None, *history: Step, **more: object) -> PageView:
    said = {
        "line": line,
        "letter": "U",
        "resident_tokens": 97 if why else None,
        "why": why,
        "recalled": False,
        "levels": (FULL, LOWER),
        "versions": (Version(n=1, seq=14, tokens=88),),
        "provenance": (),
        "history": history,
        "more_history": False,
        "evicted": next((s for s in history if s.type == "page.evicted"), None),
        "uses": Uses(derived=(), carried=(), cut=False, first_turn=1),
        "in_tlb": why is not None,
    }
    return PageView(**{**said, **more})  # type: ignore[arg-type]  # as named above


RESIDENT = view(MAPPED, LOOSE)
HELD = view(
    KEPT,
    PINNED,
    MADE,
    provenance=("slot-6", "slot-7"),
    versions=(Version(n=1, seq=14, tokens=88), Version(n=2, seq=40, tokens=90)),
    more_history=True,
)
BACK = view(MAPPED, SPARED, recalled=True)
USES = Uses(
    derived=(Derived(page_id="summary-1", seq=40),),
    carried=(
        Carried(turn=212, section="exchange", level=0, cut=120),
        Carried(turn=211, section="context", level=2, cut=None),
    ),
    cut=True,
    first_turn=13,
)
USED = view(MAPPED, LOOSE, uses=USES)
GONE = view(AWAY, None, LEFT)
NEVER = view(AWAY, None)
TEXT = Block(kind="text", text="Where is my parcel?")
LONG = Block(kind="text", text="x" * 400, cut=70_000)
SIDES = (
    Side(level=FULL, block=TEXT, open=True),
    Side(level=LOWER, block=LONG, open=False),
)
ERASED_SIDE = (Side(level=FULL, block=None, open=True),)

EFFECT = Effect(type="page.evicted", body=LEFT.body)
PREVIEW = Preview(
    seq=1_204,
    usable=3_200,
    before=Fill(pages=12, tokens=3_012, pinned=34),
    after=Fill(pages=11, tokens=2_915, pinned=34),
    effects=(EFFECT,),
    why=None,
)
PREVIEWED: Context = {
    "preview": PREVIEW,
    "effects": [(EFFECT, summaries.of_body(EFFECT.type, EFFECT.body))],
    "more": 0,
    "rule": None,
    "base": BASE,
}

PATTERNS = (
    Pattern(
        template="inspector/paging/pages/_filters.html",
        states={
            "unasked": of_thread(asked=Asked(text=""), examples=SCREEN.examples),
            "asked, as of an event": of_thread(
                asked=Asked(text="tier:L0"), examples=SCREEN.examples, at=40, live=False
            ),
        },
    ),
    Pattern(
        template="inspector/paging/pages/_rows.html",
        states={
            "in every tier": of_thread(listed=(MAPPED, KEPT, AWAY)),
            "as of an event": of_thread(listed=(MAPPED,), at=40, live=False),
        },
    ),
    Pattern(
        template="inspector/paging/pages/_standing.html",
        states={
            "would leave": {"view": RESIDENT, "base": BASE},
            "pinned": {"view": HELD, "base": BASE},
            "protected": {"view": BACK, "base": BASE},
            "evicted": {"view": GONE, "base": BASE},
            "never mapped": {"view": NEVER, "base": BASE},
        },
    ),
    Pattern(
        template="inspector/paging/pages/_levels.html",
        states={
            "two": {"sides": SIDES, "base": BASE},
            "erased": {"sides": ERASED_SIDE, "base": BASE},
        },
    ),
    Pattern(
        template="inspector/paging/pages/_history.html",
        states={
            "some": {
                "view": HELD,
                "story": [panels.told_step(step) for step in (LEFT, MADE)],
                "base": BASE,
            },
            "none": {"view": NEVER, "story": [], "base": BASE},
        },
    ),
    Pattern(
        template="inspector/paging/pages/_actions.html",
        states={
            "pinned": {"view": HELD, "base": BASE, "levels": range(4)},
            "a message": {"view": GONE, "base": BASE, "levels": range(4)},
        },
    ),
    Pattern(
        template="inspector/paging/pages/_uses.html",
        states={
            "some": {"view": USED, "base": BASE, "naming": 500, "turns": 200},
            "none": {"view": NEVER, "base": BASE, "naming": 500, "turns": 200},
        },
    ),
    Pattern(
        template="inspector/paging/pages/_preview.html",
        states={
            "an eviction": {**PREVIEWED, "verb": "evict"},
            "more than are told, pinned": {
                **PREVIEWED,
                "preview": replace(PREVIEW, why=PINNED),
                "rule": cells.RULES["explicit"],
                "more": 40,
                "verb": "pin",
            },
            "would be loose": {
                **PREVIEWED,
                "preview": replace(PREVIEW, why=LOOSE),
                "verb": "unpin",
            },
            "nothing": {**PREVIEWED, "effects": (), "verb": "map"},
            "of settings": {**PREVIEWED, "verb": ""},
        },
    ),
)
