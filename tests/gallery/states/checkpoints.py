from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from memoryhub.kernel.slices import Moved
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.memory.checkpoint_trees import Branch, Tree
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.memory.comparison_views import ComparisonView
from memoryhub.queries.memory.comparisons import Comparison, KeyDifference, Side
from memoryhub.queries.memory.notes import NoteLine
from memoryhub.queries.memory.restorations import Drift, KeyDrift, Restoration
from memoryhub.queries.memory.tasks import FieldDifference
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import BASE, NOW, Context, of_thread
from tests.gallery.states.memory import AGENT

LINE = CheckpointLine(
    seq=1_100,
    name="before-rebooking",
    description="Before anything was changed.",
    at=NOW - timedelta(minutes=20),
    by=AGENT,
    auto=False,
    parent=None,
    counts={"keys": 3, "has_task": True, "notes": 12},
    touched=None,
)
AUTO = replace(
    LINE,
    seq=1_160,
    name=None,
    description=None,
    auto=True,
    counts={"keys": 1, "has_task": False, "notes": 1},
    touched=2,
)
OLD = replace(LINE, seq=-6, name=None, description=None, touched=1)
TREE = Tree(branches=(), touched=2, taken=2, automatic=1, more=0)

BEFORE = Side(
    version=1_090,
    expires_at=None,
    bytes=5,
    value="12A",
    opened=True,
    erased=False,
)
AFTER = replace(BEFORE, version=1_180, value="14C", expires_at=NOW)
ERASED = replace(BEFORE, value=None, opened=False, erased=True)
DIFFERENCES = (
    KeyDifference(name="seat", kind="changed", before=BEFORE, after=AFTER),
    KeyDifference(name="quote", kind="added", before=None, after=AFTER),
    KeyDifference(name="token", kind="removed", before=ERASED, after=None),
)
TOLD = Comparison(
    seq=1_204,
    keys=Batch(items=DIFFERENCES, next=None),
    slices={
        "task": ("status",),
        "notes_added": (1_190,),
        "notes_removed": (1_120, 1_130),
    },
    frames_in=("slot-12",),
    frames_out=(),
    pins_in=(),
    pins_out=("policy",),
)
NOTE = NoteLine(seq=1_190, at=NOW, by=AGENT, bytes=9, text="Rebooked.")
FOUND = ComparisonView(
    told=TOLD,
    texts={
        "task": (
            FieldDifference(name="status", before="running", after=None),
            FieldDifference(name="current_step", before=3, after=None),
        ),
        "notes_added": (NOTE,),
        "notes_removed": (),
    },
)
SAME_TASK = replace(
    FOUND,
    told=replace(TOLD, slices={**TOLD.slices, "task": ()}),
    texts={**FOUND.texts, "task": ()},
)
RESTORATION = Restoration(
    seq=1_204,
    target=LINE,
    parts=("keys", "task", "notes"),
    change=4,
    go=2,
    come=1,
    expired=1,
    slices={"task": Moved(1, 1), "notes": Moved(gone=1, come=2)},
)
DRIFT = Drift(
    seen=1_204,
    found=1_211,
    keys=(
        KeyDrift(name="seat", previewed="changes", done="changes"),
        KeyDrift(name="beat", previewed="nothing", done="goes"),
    ),
    slices={"task": Moved(1, 1), "notes": Moved(come=2)},
    pages_in=1,
    pages_out=3,
)
NO_DRIFT = replace(DRIFT, found=1_205, keys=(), slices={}, pages_in=0, pages_out=0)


def branch(line: CheckpointLine | None, level: int = 0, **more: Any) -> Context:
    given = {"tree": TREE, "editing": False, **more}
    return of_thread(branch=Branch(level=level, line=line), **given)


PATTERNS = (
    Pattern(
        template="inspector/memory/checkpoints/_branch.html",
        frame="list",
        states={
            "for a viewer": branch(LINE),
            "for an editor": branch(LINE, editing=True),
            "automatic, on a branch": branch(AUTO, 1),
            "inherited": branch(OLD),
            "now": branch(None),
            "now, as of an event": branch(None, at=40, live=False),
            "now, all may differ": branch(None, tree=replace(TREE, touched=None)),
        },
    ),
    Pattern(
        template="inspector/memory/checkpoints/_difference.html",
        states={
            "in all parts": {"found": RESTORATION, "base": BASE},
            "in none": {
                "found": replace(
                    RESTORATION, change=0, go=0, come=0, expired=0,
                    slices={"task": Moved(), "notes": Moved()},
                ),
                "base": BASE,
            },
        },
    ),
    Pattern(
        template="inspector/memory/checkpoints/_drift.html",
        states={
            "of everything": {"drift": DRIFT, "base": BASE},
            "of nothing": {"drift": NO_DRIFT, "base": BASE},
            "without an event": {"drift": replace(NO_DRIFT, found=1_204), "base": BASE},
        },
    ),
    Pattern(
        template="inspector/memory/comparisons/_form.html",
        states={
            "with now": of_thread(a="1100", b="head", offered=(LINE, AUTO)),
            "as of an event": of_thread(
                a="1100", b="head", offered=(), at=40, live=False
            ),
        },
    ),
    Pattern(
        template="inspector/memory/comparisons/_figures.html",
        states={
            "of everything": {"found": FOUND},
            "the same task": {"found": SAME_TASK},
        },
    ),
    Pattern(
        template="inspector/memory/comparisons/_keys.html",
        states={
            "names only": {"found": FOUND, "base": BASE, "values": False},
            "with values": {"found": FOUND, "base": BASE, "values": True},
        },
    ),
    Pattern(
        template="inspector/memory/comparisons/_side.html",
        states={
            "not there": {"side": None, "values": True},
            "a value": {"side": AFTER, "values": True},
            "an erased one": {"side": ERASED, "values": True},
            "not asked for": {"side": BEFORE, "values": False},
        },
    ),
    Pattern(
        template="inspector/memory/comparisons/_fields.html",
        states={"of the task": {"found": FOUND}},
    ),
    Pattern(
        template="inspector/memory/comparisons/_notes.html",
        states={
            "all": {
                "lines": (NOTE,), "seqs": (1_190,), "title": "Notes added",
                "base": BASE,
            },
            "the newest of many, one erased": {
                "lines": (replace(NOTE, text=None, seq=-4),),
                "seqs": (1, 2, 3),
                "title": "Notes removed",
                "base": BASE,
            },
        },
    ),
    Pattern(
        template="inspector/memory/comparisons/_frames.html",
        states={
            "in and out": {"told": TOLD, "base": BASE},
            "many": {
                "told": replace(
                    TOLD,
                    frames_in=tuple(f"slot-{n}" for n in range(60)),
                    frames_out=("slot-1",),
                    pins_in=("policy",),
                    pins_out=(),
                ),
                "base": BASE,
            },
        },
    ),
)  # fmt: skip
