from __future__ import annotations

from dataclasses import replace

from inspector.drawing import cells
from inspector.paging.settings_form import Field
from memoryhub.kernel.state.paging import Exchanges
from memoryhub.kernel.state.paging_config import Settings
from memoryhub.queries.paging.paging_charts import Bucket, Charts
from memoryhub.queries.paging.residency import Budget, Cell, Residency, Term, Warm, Why
from memoryhub.queries.verify.checks import Checks
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import (
    BASE,
    FRESH,
    OWNER,
    VIEWER,
    Context,
    of_thread,
)

MOSTLY = Exchanges(begun=44, faulted=9, last=(True,) * 15 + (False,) * 5)
SELDOM = Exchanges(begun=3, faulted=2, last=(True, False, False))
TERMS = (
    Term(name="recency", value=0.25, adds=0.1),
    Term(name="value", value=0.4, adds=0.16),
    Term(name="penalty", value=0.0, adds=0.0),
)
LOOSE = Why(rule="", score=0.26, terms=TERMS, protected_until=None, rank=1)
SPARED = replace(LOOSE, protected_until=9, rank=4)
PINNED = replace(LOOSE, rule="explicit", rank=None)
AUTO = replace(PINNED, rule="exchange")


def cell(page_id: str, letter: str, tokens: int, why: Why, **more: object) -> Cell:
    said = {
        "page_id": page_id,
        "letter": letter,
        "level": 0,
        "type": "transcript",
        "modality": "text",
        "role": "user",
        "version": 1,
        "importance": 0.5,
        "tokens": tokens,
        "full_tokens": tokens,
        "recalled": False,
        "references": 2,
        "idle_turns": 1,
        "cause_seq": 14,
        "cause": "slot.appended",
        "why": why,
    }
    return Cell(**{**said, **more})  # type: ignore[arg-type]  # as named above


CELLS = (
    cell("policy", "C", 34, PINNED, type="claim", role=None, cause="page.created"),
    cell("summary-1", "S", 210, LOOSE, type="summary", role=None),
    cell("slot-6", "T", 60, LOOSE, type="artifact", role="tool", level=2),
    cell("slot-3", "A", 1_040, SPARED, role="assistant", recalled=True),
    cell("slot-12", "U", 88, AUTO, cause_seq=None),
)
BUDGET = Budget(
    settings=Settings(budget_tokens=4_000, reserved_tokens=800),
    used=1_432,
    pinned=122,
    explicit=34,
    protected=1_040,
)
COLD = Warm(
    page_id="slot-1",
    type="transcript",
    modality="text",
    tokens=90,
    references=1,
    score=0.2,
    since_seq=33,
    unmapped=False,
    too_large=False,
)
CALM = Residency(
    seq=1_204,
    turn=8,
    budget=BUDGET,
    cells=CELLS,
    warm=(COLD, replace(COLD, page_id="big", unmapped=True, too_large=True)),
    hits=20,
    misses=4,
    entries=12,
    refaults=0,
    thrashing=(),
    over_budget=False,
)
WILD = replace(CALM, refaults=4, thrashing=("slot-3", "slot-5"), over_budget=True)
BARE = replace(CALM, cells=(), warm=(), budget=replace(BUDGET, used=0, pinned=0))


def residency(found: Residency, **more: object) -> Context:
    return {**cells.picture(found), **more}


# Charts

BUSY = Bucket(
    first=1,
    last=40,
    turn=0,
    counts={"hits": 90, "misses": 10, "faults": 3, "evicted": 6, "evicted.pressure": 6},
    resident_rate=0.75,
)
QUIET = Bucket(first=41, last=60, turn=7, counts={}, resident_rate=None)
CHARTS = Charts(
    buckets=(BUSY, QUIET),
    whole=BUSY,
    causes=("pressure",),
    exchanges=MOSTLY,
    thrash_index=0.6,
    thrashing=("slot-3",),
    entries=70,
    room=512,
    held=("slot-6", "policy"),
)
PLAIN = replace(CHARTS, causes=())
UNASKED = replace(
    CHARTS, whole=QUIET, exchanges=Exchanges(), thrash_index=0.0, entries=0, held=()
)
DRAWN: Context = {"charts": CHARTS, "drawn": '{"x": []}'}
NUMBER = Field(
    name="evict_at",
    text="0.9",
    default="0.85",
    words=(),
    least=0.1,
    most=1.0,
    wrong=False,
)
WORD = replace(
    NUMBER, name="mode", text="", default="strict", words=("strict", "relaxed"),
    least=None, most=None,
)  # fmt: skip
GOOD = Checks(
    threads=12,
    hits=900,
    misses=100,
    exchanges_lately=200,
    faulted_lately=30,
    thrashing=0,
)
COUNTS: Context = {"counts": {"nearly_full_threads": 2}, "place": OWNER}

PATTERNS = (
    Pattern(
        template="inspector/paging/working_set/_panel.html",
        states={
            "calm, followed": of_thread(**residency(CALM)),
            "thrashing, as of an event": of_thread(
                at=40, live=False, **residency(WILD, more=12)
            ),
            "nothing mapped": of_thread(FRESH, **residency(BARE)),
        },
    ),
    Pattern(
        template="inspector/paging/working_set/_budget.html",
        states={"some": {"budget": BUDGET, **cells.picture(CALM)}},
    ),
    Pattern(
        template="inspector/paging/working_set/_cells.html",
        states={
            "one of each": of_thread(**residency(CALM)),
            "as of an event": of_thread(at=40, live=False, **residency(CALM)),
        },
    ),
    Pattern(
        template="inspector/paging/working_set/_warm.html",
        states={
            "some": of_thread(**residency(CALM)),
            "more than fit": of_thread(**residency(CALM, colder=60)),
            "none": of_thread(**residency(BARE)),
        },
    ),
    Pattern(
        template="inspector/paging/_panel.html",
        states={
            "followed": of_thread(**DRAWN),
            "a stretch": of_thread(live=False, **DRAWN),
            "nothing looked up": of_thread(
                **{**DRAWN, "charts": replace(UNASKED, thrashing=())}
            ),
        },
    ),
    Pattern(
        template="inspector/paging/_figures.html",
        states={
            "some": {"charts": CHARTS},
            "more fetched than not": {"charts": replace(CHARTS, exchanges=SELDOM)},
            "none": {"charts": UNASKED},
        },
    ),
    Pattern(
        template="inspector/paging/_charts.html",
        states={
            "all": {"base": BASE, **DRAWN},
            "nothing evicted": {**DRAWN, "base": BASE, "charts": PLAIN},
        },
    ),
    Pattern(
        template="inspector/paging/_table.html",
        states={"some": {"charts": CHARTS, "base": BASE}},
    ),
    Pattern(
        template="inspector/paging/_tlb.html",
        states={
            "more than are named": {"charts": CHARTS, "base": BASE},
            "empty": {"charts": UNASKED, "base": BASE},
        },
    ),
    Pattern(template="inspector/paging/_drop.html", states={"all": {"base": BASE}}),
    Pattern(
        template="inspector/paging/_field.html",
        states={
            "a number": {"field": NUMBER},
            "a wrong number": {"field": replace(NUMBER, wrong=True)},
            "words": {"field": WORD},
        },
    ),
    Pattern(
        template="inspector/access/projects/_checks.html",
        states={
            "well": {"checks": GOOD, "late": 0, **COUNTS},
            "red": {
                "checks": replace(GOOD, misses=900, faulted_lately=150, thrashing=3),
                "late": 2,
                **COUNTS,
            },
            "too few to tell, for a viewer": {
                "checks": replace(
                    GOOD, hits=0, misses=0, exchanges_lately=0, faulted_lately=0
                ),
                "late": 0,
                **COUNTS,
                "place": VIEWER,
            },
        },
    ),
)
