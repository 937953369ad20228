from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from inspector.drawing import cells, summaries
from inspector.turns.turn_changes import BLOCKS
from memoryhub.kernel.levels.contexts import Record, Ref, Section
from memoryhub.kernel.packing.context_records import packed
from memoryhub.kernel.packing.cuts import Cut
from memoryhub.kernel.turns.turn_diffs import Change, Reason
from memoryhub.models.threads import Thread
from memoryhub.queries.turns.contexts import Recorded
from memoryhub.queries.turns.inclusions import Inclusion
from memoryhub.queries.turns.prefixes import Cost, Lens, Point
from memoryhub.queries.turns.turn_faults import Fault, TurnFaults
from memoryhub.queries.turns.turns import Part, Shown, TurnLine, Used
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import BASE, NOW, PROJECT, Context, of_thread

HOME, OTHER = UUID(int=3), UUID(int=99)
RECORD = Record(
    packer="pack/1",
    mode="strict",
    budget=4_000,
    rules="strict/1",
    sections=(
        Section(name="rules", bytes=1_200, tokens=323),
        Section(name="context", refs=(Ref(14, 0), Ref(30, 2)), bytes=700, tokens=180),
        Section(name="exchange", refs=(Ref(41, 0),), bytes=300, tokens=88),
    ),
    bytes=2_200,
    tokens=591,
)
_AT: dict[str, Any] = {"turn": 7, "as_of_seq": 41, "own": HOME}
EVENT = packed(RECORD, prefix_tokens=373, simulated=False, **_AT)
IMPORTED = packed(RECORD, prefix_tokens=None, simulated=True, **_AT)
ROW = Thread(id=HOME, name="ticket-4711", project=PROJECT)
USED = Used(
    place=1,
    section="context",
    page_id="slot-6",
    level=0,
    seq=14,
    cut=None,
    recalled=False,
    tokens=88,
    gone=False,
    range=(1_204, 1_480),
    inclusion=Inclusion(page_id="slot-6", why="mapped", cause_seq=14),
)
WHOLE = Shown(
    recorded=Recorded(home=ROW, seq=42, event=EVENT, record=RECORD, sha256="ab" * 32),
    parts=tuple(
        Part(name=s.name, bytes=s.bytes, tokens=s.tokens, refs=len(s.refs))
        for s in RECORD.sections
    ),
    used=(
        USED,
        replace(USED, place=2, level=2, recalled=True, seq=None),
        replace(USED, place=3, cut=120, tokens=None),
        replace(
            USED,
            place=4,
            page_id="",
            gone=True,
            tokens=None,
            range=None,
            inclusion=None,
        ),
    ),
    cuts=(Cut(page_id="slot-6", tokens=1_200, shown_tokens=485),),
    request=b'{"messages":[]}',
    missing=(),
    verified=True,
    payloads=3,
)
DIFFERS = replace(WHOLE, verified=False)
HOLED = replace(WHOLE, request=None, missing=("slot-6", "policy"), verified=False)
SIMULATED = replace(WHOLE, recorded=replace(WHOLE.recorded, event=IMPORTED))
NEWEST = TurnLine(
    n=8,
    thread=HOME,
    home=HOME,
    seq=50,
    packed_seq=None,
    packed=None,
    moved={},
    resident_rate=None,
)
TURNS = (
    NEWEST,
    replace(
        NEWEST,
        n=7,
        seq=41,
        packed_seq=42,
        packed=EVENT,
        resident_rate=0.85,
        moved={"faults": 1, "evicted": 6},
    ),
    replace(NEWEST, n=6, home=OTHER, seq=30, packed_seq=31, packed=IMPORTED),
)
REASON = Reason(thread=HOME, seq=33, type="page.evicted", cause="pressure", by="system")
CHANGE = Change(
    page_id="slot-1",
    kind="left",
    type="transcript",
    level_before=0,
    level_after=None,
    version_before=1,
    version_after=None,
    tokens_before=90,
    tokens_after=0,
    reason=REASON,
    removal=REASON,
)
CHANGES = (
    CHANGE,
    replace(
        CHANGE, kind="lowered", level_after=2, reason=replace(REASON, thread=OTHER)
    ),
)
LENS = Lens(
    turn=7,
    tokens=591,
    bytes=2_200,
    prefix_tokens=373,
    prefix_bytes=1_400,
    order=("rules", "context", "exchange"),
    movable=True,
    section="context",
    place=1,
    page_id="slot-1",
    cause="evicted",
    reason=REASON,
    costs=(Cost(name="sample", amount=0.00123),),
)
SAME = replace(LENS, cause="same", section="", page_id=None, reason=None, costs=())
POINTS = (
    Point(turn=7, seq=42, tokens=591, prefix_tokens=373, costs=()),
    Point(turn=6, seq=31, tokens=580, prefix_tokens=None, costs=LENS.costs),
)
FAULT = Fault(
    seq=60,
    at=NOW,
    type="page.faulted",
    body={
        "page_id": "slot-1",
        "level": 0,
        "reason": "resolve_reference",
        "tokens": 90,
        "tier_before": "L1",
        "promoted": True,
        "by": "model",
    },
)
REFUSED = replace(
    FAULT,
    seq=61,
    type="fault.refused",
    body={
        "level": 1,
        "reason": "speculative",
        "refusal": "page_unknown",
        "by": "model",
    },
)
FAULTS = TurnFaults(faults=(FAULT, REFUSED), looked_to=2_041, more=True)
BLOCKED: Context = {"blocks": BLOCKS, "in_blocks": 128}

PATTERNS = (
    Pattern(
        template="inspector/turns/_changes.html",
        states={
            "some": of_thread(moved=CHANGES, more=0),
            "more than are told": of_thread(moved=CHANGES, more=40),
            "none": of_thread(moved=(), more=0),
        },
    ),
    Pattern(
        template="inspector/turns/_lens.html",
        states={
            "broken": of_thread(lens=LENS, order="", **BLOCKED),
            "the same": of_thread(lens=SAME, order="", **BLOCKED),
            "what if": of_thread(lens=LENS, order="rules,context", **BLOCKED),
        },
    ),
    Pattern(
        template="inspector/turns/_blocks.html",
        states={
            "as recorded": {**BLOCKED, "order": ""},
            "what if": {**BLOCKED, "order": "rules,context"},
        },
    ),
    Pattern(
        template="inspector/turns/_points.html",
        states={"some": {"points": POINTS, "drawn": '{"x": []}', "base": BASE}},
    ),
    Pattern(template="inspector/paging/_hues.html", states={"unseen": {}}),
    Pattern(
        template="inspector/turns/_rows.html",
        states={"recorded, simulated, not recorded": {"listed": TURNS, "base": BASE}},
    ),
    Pattern(
        template="inspector/turns/_verdict.html",
        states={
            "equal": {"context": WHOLE, "base": BASE},
            "different": {"context": DIFFERS, "base": BASE},
            "erased": {"context": HOLED, "base": BASE},
            "simulated": {"context": SIMULATED, "base": BASE},
            "not recorded": {"context": None, "base": BASE},
        },
    ),
    Pattern(
        template="inspector/turns/_sections.html",
        states={
            "three": {
                "context": WHOLE,
                "parts": cells.stacked((p.name, p.tokens) for p in WHOLE.parts),
            }
        },
    ),
    Pattern(
        template="inspector/turns/_refs.html",
        states={
            "whole, lower, cut, erased": {
                "used": [(ref, cells.included(ref.inclusion)) for ref in WHOLE.used],
                "own": True,
                "base": BASE,
            }
        },
    ),
    Pattern(
        template="inspector/turns/_faults.html",
        states={
            "served, refused": {
                "faults": FAULTS,
                "fault_lines": [
                    (fault, summaries.of_fault(fault.type, fault.body))
                    for fault in FAULTS.faults
                ],
                "base": BASE,
            },
            "none": {
                "faults": replace(FAULTS, faults=(), looked_to=None, more=False),
                "fault_lines": [],
                "base": BASE,
            },
            "an ancestor's": {"faults": None, "fault_lines": [], "base": BASE},
        },
    ),
)
