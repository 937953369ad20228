from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from uuid import UUID

from inspector.web import forgetting
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget.holds import HoldLine
from memoryhub.queries.forget.receipt_views import ReceiptLine, Sum
from memoryhub.queries.people.profiles import Kind, Use
from memoryhub.queries.people.subject_lists import SubjectLine
from memoryhub.queries.tombstones import TombstoneLine
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import NOW, OPEN, OWNER, Context

ERASURE = UUID("00000000-0000-7000-8000-0000e5a5e001")
LINE = SubjectLine(
    id=OPEN.subject,
    anonymous=False,
    state="active",
    generation=1,
    threads=12,
    last_seen=NOW,
    held=False,
    created_at=NOW - timedelta(days=30),
)
HELD = replace(LINE, state="restricted", held=True, generation=2)
CROWD = replace(LINE, anonymous=True, threads=1_001)
GONE = replace(LINE, state="erased", threads=0, last_seen=None)
HOLD = HoldLine(
    id=UUID(int=31),
    subject=OPEN.subject,
    basis="legal_claims",
    opened_by="command",
    reviewer="olga",
    opened_at=NOW - timedelta(days=3),
    expires_at=NOW + timedelta(days=87),
    lifted_at=None,
    lifted_by=None,
    in_force=True,
)
LIFTED = replace(HOLD, in_force=False, lifted_at=NOW, lifted_by="command")
EXPIRED = replace(HOLD, in_force=False, reviewer=None)
HOLDS = (HOLD, LIFTED, EXPIRED)
VALUE = TombstoneLine(
    id=UUID(int=32),
    subject=OPEN.subject,
    kind="value",
    of="note",
    erasure=ERASURE,
    created_at=NOW,
)
SIGNED = ReceiptLine(
    id=UUID(int=33),
    erasure=ERASURE,
    status="verified_with_residue",
    scope="subject",
    reason="consent_withdrawn",
    ticket=None,
    erased=412,
    addenda=1,
    issued_at=NOW,
)
SUM = Sum(
    place="page_levels",
    planned=40,
    fenced=40,
    erased=40,
    method="deleted",
    rebuilt=0,
)
USE = Use(
    prefix="mh7f3a2c",
    first_day=date(2026, 1, 1),
    last_day=date(2026, 1, 31),
    reads=1_204,
    writes=412,
)


def subject(**fields: object) -> Context:
    row = Subject(id=OPEN.subject, project=OWNER.project, created_at=NOW, **fields)
    return {"subject": row, "kept": False, "place": OWNER}


def scan(**fields: object) -> Context:
    said = {
        "scanner": "memoryhub.scan/1",
        "self_test": "passed",
        "surfaces": ["database", "ledger"],
        "needles": {"nonce": 412, "name": 3},
        "bytes": 1_730_000,
        "hits": (),
        "undeclared": 0,
        "deferred": False,
    }
    return {"scan": {**said, **fields}, "words": forgetting}


HIT = {"surface": "backup", "needle": "name", "count": 2}

PATTERNS = (
    Pattern(
        template="inspector/people/subjects/_row.html",
        states={
            "active": {"line": LINE, "place": OWNER},
            "held, readmitted once": {"line": HELD, "place": OWNER},
            "nobody in particular": {"line": CROWD, "place": OWNER},
            "erased": {"line": GONE, "place": OWNER},
        },
        frame="subjects",
    ),
    Pattern(
        template="inspector/people/subjects/_finder.html",
        states={
            "at first": {"place": OWNER, "missed": False, "csrf_token": ""},
            "nobody found": {"place": OWNER, "missed": True, "csrf_token": ""},
        },
    ),
    Pattern(
        template="inspector/people/subjects/_identity.html",
        states={
            "masked": {**subject(), "user_id": None, "revealed": False},
            "revealed": {**subject(), "user_id": "ann", "revealed": True},
            "anonymous": {
                **subject(anonymous=True),
                "user_id": None,
                "revealed": False,
            },
        },
    ),
    Pattern(
        template="inspector/people/subjects/_actions.html",
        states={
            "active": subject(),
            "restricted": subject(state="restricted"),
            "restricted by an erasure": {
                **subject(state="restricted"),
                "kept": True,
            },
        },
    ),
    Pattern(
        template="inspector/people/subjects/_kinds.html",
        states={
            "some": {
                "kinds": {
                    "slot.appended": Kind(events=40, sealed=38, erased=2, bytes=9_000)
                }
            },
            "none": {"kinds": {}},
        },
    ),
    Pattern(
        template="inspector/people/subjects/_uses.html",
        states={
            "some": {"uses": (USE,), "days": (USE, replace(USE, reads=0))},
            "none": {"uses": (), "days": ()},
        },
    ),
    Pattern(
        template="inspector/people/subjects/_holds.html",
        states={
            "of every state": {"holds": HOLDS, "place": OWNER},
            "none": {"holds": (), "place": OWNER},
        },
    ),
    Pattern(
        template="inspector/people/holds/_row.html",
        states={
            "in force": {"line": HOLD, "place": OWNER},
            "lifted": {"line": LIFTED, "place": OWNER},
            "expired, its reviewer gone": {"line": EXPIRED, "place": OWNER},
        },
        frame="holds",
    ),
    Pattern(
        template="inspector/forget/tombstones/_rows.html",
        states={
            "of values, names and people": {
                "listed": (
                    VALUE,
                    replace(VALUE, kind="thread", of=""),
                    replace(VALUE, kind="subject", of=""),
                ),
                "place": OWNER,
            },
        },
    ),
    Pattern(
        template="inspector/forget/receipts/_row.html",
        states={
            "with residue": {"line": SIGNED, "place": OWNER},
            "without": {
                "line": replace(SIGNED, status="verified", addenda=0),
                "place": OWNER,
            },
        },
        frame="receipts",
    ),
    Pattern(
        template="inspector/forget/receipts/_sums.html",
        states={"some": {"sums": (SUM, replace(SUM, place="keys", method=""))}},
    ),
    Pattern(
        template="inspector/forget/receipts/_scan.html",
        states={
            "nothing found": scan(),
            "declared hits": scan(hits=(HIT,), deferred=True),
            "its own test failed": scan(
                self_test="failed", needles={}, surfaces=(), bytes=0
            ),
        },
    ),
)
