from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from inspector.web import forgetting
from memoryhub.queries.forget.erasure_views import Remains
from memoryhub.queries.forget.erasures import ErasureLine, PlaceLine
from memoryhub.queries.verify.privacy_checks import Verdict
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import ANN, NOW, OPEN, OWNER, VIEWER, Context

WORDS = forgetting
RECEIPT = UUID("00000000-0000-7000-8000-0000d00d0001")
STEPS = ("fenced", "key_destroyed", "rows_erased", "caches_purged", "scrubbed")
EVENTS = PlaceLine(
    place="events",
    erase=412,
    derive=0,
    keep=0,
    why=None,
    method="nulled",
    fenced=None,
    erased=None,
)
TURNS = replace(EVENTS, place="turns", erase=0, keep=80, why="chain", method="deleted")
PLAN = ErasureLine(
    id=UUID("00000000-0000-7000-8000-0000e5a5e001"),
    subject=OPEN.subject,
    scope="subject",
    thread=None,
    before=None,
    seq=None,
    reason="consent_withdrawn",
    ticket="PRIV-12",
    actor=f"operator:{ANN.id}",
    restrict=False,
    state="planned",
    waiting_on=None,
    count=412,
    threads=3,
    forks=1,
    unlinked=0,
    holds=0,
    residue=("backups", "downloads"),
    places=(EVENTS, TURNS),
    times={"planned": NOW.isoformat()},
    created_at=NOW,
    expires_at=NOW + timedelta(minutes=15),
    confirmed_at=None,
    updated_at=NOW,
)
RECORD = replace(
    PLAN, scope="record", thread=OPEN.id, seq=40, count=2, unlinked=3, ticket=None
)
BEFORE = replace(PLAN, scope="before", before=NOW, holds=1, residue=(), threads=1)
ONE = replace(PLAN, scope="thread", thread=OPEN.id, threads=1)
KEPT_OUT = replace(PLAN, restrict=True)
NOTHING = replace(PLAN, count=0)


def under_way(*, states: int, waiting_on: str | None = None) -> ErasureLine:
    """An erasure that has entered so many states."""
    gone = 412 if states > 2 else 200
    entered = {
        state: (NOW + timedelta(seconds=n)).isoformat()
        for n, state in enumerate(STEPS[:states], start=1)
    }
    return replace(
        PLAN,
        state=STEPS[states - 1],
        waiting_on=waiting_on,
        places=(replace(EVENTS, fenced=412, erased=gone),),
        times={**PLAN.times, **entered},
        confirmed_at=NOW,
    )


FENCED = under_way(states=1)
WAITING = under_way(states=4, waiting_on="reader")
COMPLETE = replace(
    under_way(states=5),
    state="complete",
    times={
        **under_way(states=5).times,
        "verified": (NOW + timedelta(seconds=9)).isoformat(),
        "complete": (NOW + timedelta(seconds=9, milliseconds=120)).isoformat(),
    },
)
LOST = under_way(states=4, waiting_on="needles")
HELD = replace(PLAN, state="held", waiting_on="hold", holds=1, confirmed_at=NOW)
DROPPED = replace(PLAN, state="cancelled")
REMAINS = Remains(
    retained=({"what": "envelopes", "reason": "chain"},),
    residue=(
        {
            "what": "backups",
            "until": "2026-03-02",
            "control": "contents_sealed",
            "names": ["threads", "keys", "pages"],
        },
        {"what": "downloads", "until": "never", "control": "none", "names": []},
    ),
)


def of(line: ErasureLine, **more: object) -> Context:
    """What the page of an erasure knows."""
    return {
        "line": line,
        "progress": forgetting.progress(line),
        "receipt": RECEIPT if line.state == "complete" else None,
        "thread_name": OPEN.name if line.thread else "",
        "place": OWNER,
        "words": WORDS,
        **more,
    }


def verdict(state: str, **more: object) -> Context:
    said = Verdict(
        name="ledger",
        state=state,
        said="It ends where both databases stand.",
        fix="" if state == "ok" else "Put back its longest copy.",
        command="forget --replay" if state == "warn" else "",
    )
    return {"verdict": said, "times": {}, "figures": {}, **more}


PATTERNS = (
    Pattern(
        template="inspector/forget/privacy/_tabs.html",
        states={
            "subjects": {"place": OWNER, "tab": "subjects"},
            "verdicts": {"place": OWNER, "tab": "verdicts"},
        },
    ),
    Pattern(
        template="inspector/forget/privacy/_verdict.html",
        states={
            "well": verdict("ok", figures={"lines": 12, "memory": 12}),
            "to look at": verdict("warn", times={"at": NOW}),
            "wrong": verdict("away"),
            "too little to tell": verdict(""),
        },
    ),
    Pattern(
        template="inspector/forget/erasures/_facts.html",
        states={
            "of a whole subject": of(PLAN),
            "of one record": of(RECORD),
            "before a time": of(BEFORE),
            "of a thread whose name is gone": of(RECORD, thread_name=""),
            "confirmed": of(FENCED),
        },
    ),
    Pattern(
        template="inspector/forget/erasures/_places.html",
        states={
            "of a plan": of(PLAN),
            "under way": of(FENCED),
            "done": of(COMPLETE),
        },
    ),
    Pattern(
        template="inspector/forget/erasures/_keep_out.html",
        states={
            "of a plan that may grow stale": of(PLAN, stale=False, problem=""),
            "of a stale one": of(PLAN, stale=True, problem="It was counted anew."),
            "agents are kept out": of(KEPT_OUT, stale=False, problem=""),
        },
    ),
    Pattern(
        template="inspector/forget/erasures/_confirm.html",
        states={
            "to be typed": of(PLAN, token="t", typed=""),  # a sample
            "typed wrong": of(PLAN, token="t", typed="forget 4"),  # a sample
            "a thread": of(ONE, token="t", typed=""),  # a sample
            "one record": of(RECORD, token="t", typed=""),  # a sample
            "nothing to erase": of(NOTHING, token="t", typed=""),  # a sample
        },
    ),
    Pattern(
        template="inspector/forget/erasures/_needles.html",
        states={
            "a person": of(LOST),
            "one thread": of(replace(LOST, scope="thread")),
        },
    ),
    Pattern(
        template="inspector/forget/erasures/_panel.html",
        states={
            "fenced": of(FENCED),
            "waiting": of(WAITING),
            "complete": of(COMPLETE),
            "held": of(HELD),
            "dropped": of(DROPPED),
        },
    ),
    Pattern(
        template="inspector/forget/erasures/_row.html",
        states={
            "planned": of(PLAN),
            "waiting": of(WAITING),
            "complete": of(COMPLETE),
        },
        frame="erasures",
    ),
    Pattern(
        template="inspector/forget/erasures/_proof.html",
        states={
            "for an officer": of(COMPLETE),
            "for a viewer": of(COMPLETE, place=VIEWER),
            "for an officer, before it is complete": of(FENCED),
            "for a viewer, before it is complete": of(FENCED, place=VIEWER),
        },
    ),
    Pattern(
        template="inspector/forget/erasures/_remains.html",
        states={
            "what a receipt says": {"stays": REMAINS, "words": WORDS},
            "nothing out of reach": {
                "stays": replace(REMAINS, residue=()),
                "words": WORDS,
            },
            "before there is one": {"stays": None, "words": WORDS},
        },
    ),
)
