from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from rpds import HashTrieMap

from inspector.drawing import trees
from inspector.lists import panels
from inspector.memory import keys as key_lists
from inspector.memory import notes as note_lists
from inspector.memory import task
from inspector.memory.notes import ShownNote
from inspector.web import search
from inspector.web.search import Asked
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents, KeyEntry, WorkingMemory
from memoryhub.queries.memory.key_views import KeyView
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.queries.memory.task_views import TaskHistory, TaskStep
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.queries.memory.working_memory import MemoryStats, MemoryView
from memoryhub.queries.paging.page_views import Step
from memoryhub.queries.verify.memory_checks import LargeKey, MemoryChecks
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import (
    BASE,
    HOSTILE,
    NOW,
    OPEN,
    OWNER,
    Context,
    of_thread,
)

AGENT = "agent:mh7f3a2c"
SEAT = KeyLine(
    name="seat",
    version=1_180,
    set_at=NOW - timedelta(minutes=4),
    set_by=AGENT,
    expires_at=None,
    bytes=5,
    opened=True,
    value="14C",
    erased=False,
    inherited=False,
)
QUOTE = replace(
    SEAT, name="quote.rebooking", bytes=12_400,
    expires_at=NOW + timedelta(hours=1),
)  # fmt: skip
OLD = replace(SEAT, name="customer", version=-6, inherited=True)
VALUE = {"items": [{"sku": "PX-7", "count": 2}], "paid": None, "note": HOSTILE.content}
TREE = trees.tree(VALUE)
CUT_TREE = trees.tree(list(range(1_000)))

HELD = ThreadState(
    id=OPEN.id,
    project=UUID(int=1),
    subject=OPEN.subject,
    memory=WorkingMemory(
        contents=Contents(
            keys=HashTrieMap({"seat": KeyEntry(9, 9, None, 64)}),
            key_bytes=12_464,
        )
    ),
)

TASK = TaskView(
    status="running",
    description="Rebook the flight of the customer.",
    current_step=3,
    progress_percent=55.0,
    started_at=NOW - timedelta(minutes=20),
    updated_at=NOW - timedelta(minutes=4),
    version=1_170,
    data={"attempts": 2},
)
BARE = replace(
    TASK,
    status="failed",
    description=None,
    current_step=None,
    progress_percent=None,
    started_at=None,
    version=-2,
    data=None,
)
STEPS = (
    TaskStep(
        seq=1_100, at=NOW, type="task.set", actor=AGENT, status="running",
        current_step=0, progress_percent=0.0, turned=True,
    ),
    TaskStep(
        seq=1_170, at=NOW, type="task.updated", actor=AGENT, status="running",
        current_step=3, progress_percent=55.0,
    ),
)  # fmt: skip
HISTORY = TaskHistory(task=TASK, steps=STEPS, cut=False)
LINE = task.path(STEPS, end=1_204)
DATA = trees.tree(TASK.data)

NOTE = ShownNote(seq=1_190, at=NOW, by=AGENT, bytes=21, text="Now with the right seat.")
GAPPED = replace(NOTE, seq=1_191, gap=timedelta(minutes=7))
TRIMMED = replace(NOTE, seq=1_192, trimmed=2)
GONE = replace(NOTE, seq=1_150, text=None)
INHERITED = replace(NOTE, seq=-3)

SET = Step(
    seq=1_180,
    at=NOW,
    type="key.set",
    actor=AGENT,
    body={"key": "seat", "bytes": 64},
)
VIEW = KeyView(name="seat", line=SEAT, passed=None, history=(SET,), more_history=False)
STATS = MemoryStats(
    keys=2,
    key_bytes=12_464,
    expiring=1,
    next_expiry_at=QUOTE.expires_at,
    default_ttl_seconds=None,
    figures={"notes": 2, "note_bytes": 42, "has_task": True},
    checkpoints=1,
    automatic=1,
)
MEMORY = MemoryView(
    seq=1_204, task=TASK, keys=(SEAT, QUOTE), notes=(), checkpoints=(), stats=STATS
)
NOTHING = replace(
    MEMORY,
    task=None,
    keys=(),
    stats=replace(
        STATS, keys=0, key_bytes=0, figures={"notes": 0}, checkpoints=0, automatic=0
    ),
)
FAILED = search.asked("szie:<9", search.MEMORY_KEYS)
PAST: Context = {"at": 40, "live": False}


def keys_of(*listed: KeyLine, more: bool = False, **other: Any) -> Context:
    return of_thread(listed=listed, more=more, held=HELD, **other)


def key_filters(text: str, **more: Any) -> Context:
    return of_thread(
        asked=Asked(text=text, options={"glob": "", "sort": ""}),
        examples=key_lists.SCREEN.examples,
        sorts=key_lists.SORTS,
        **more,
    )


def expiry_of(verb: str, line: KeyLine, chosen: str) -> Context:
    return {
        "verb": verb,
        "line": line,
        "chosen": chosen,
        "count": "1",
        "unit": "h",
        "units": ("s", "min", "h", "d"),
    }


def glance(memory: MemoryView, *jotted: ShownNote, **more: Any) -> Context:
    return of_thread(
        memory=memory, listed=memory.keys, jotted=jotted, task=memory.task, **more
    )


CHECKS = MemoryChecks(
    lag=timedelta(seconds=4),
    soon=1,
    largest=(LargeKey(thread=OPEN.name, name="cart", bytes=12_400),),
    full=(),
)
LATE = MemoryChecks(
    lag=timedelta(minutes=9), soon=1_000, largest=(), full=(OPEN.name, "ticket-1")
)

KEYS = (
    Pattern(
        template="inspector/memory/keys/_panel.html",
        states={
            "some": keys_of(SEAT, QUOTE, OLD),
            "none": keys_of(),
            "as of an event": keys_of(SEAT, QUOTE, **PAST),
            "more than are shown": keys_of(SEAT, more=True),
        },
    ),
    Pattern(
        template="inspector/memory/keys/_rows.html",
        states={
            "live": of_thread(listed=(SEAT, QUOTE)),
            "as of an event": of_thread(listed=(SEAT, QUOTE), **PAST),
        },
    ),
    Pattern(
        template="inspector/memory/keys/_filters.html",
        states={
            "unasked": key_filters(""),
            "asked, as of an event": key_filters("size:>1k", **PAST),
        },
    ),
    Pattern(
        template="inspector/memory/keys/_until.html",
        states={
            "never": {"until": None, "live": True},
            "counting down": {"until": QUOTE.expires_at, "live": True},
            "as of an event": {"until": QUOTE.expires_at, "live": False},
        },
    ),
    Pattern(
        template="inspector/memory/keys/_facts.html",
        states={
            "for ever": {"line": SEAT, "base": BASE, "live": True},
            "for an hour": {"line": QUOTE, "base": BASE, "live": True},
            "inherited": {"line": OLD, "base": BASE, "live": False},
        },
    ),
    Pattern(
        template="inspector/memory/keys/_history.html",
        states={
            "some": {
                "view": VIEW,
                "story": [panels.told_step(SET)],
                "base": BASE,
                "reach": 20_000,
            },
            "more than are shown": {
                "view": replace(VIEW, more_history=True),
                "story": [panels.told_step(SET)],
                "base": BASE,
                "reach": 20_000,
            },
            "inherited": {"view": VIEW, "story": [], "base": BASE, "reach": 20_000},
        },
    ),
    Pattern(
        template="inspector/memory/keys/_expiry.html",
        states={
            "of a value": expiry_of("set", SEAT, "same"),
            "of one that expires": expiry_of("set", QUOTE, "never"),
            "alone": expiry_of("retime", SEAT, "ttl"),
        },
    ),
    Pattern(
        template="inspector/shared/_tree.html",
        states={"a value": {"node": TREE}, "more than is shown": {"node": CUT_TREE}},
    ),
    Pattern(
        template="inspector/shared/_refused.html", states={"of keys": {"asked": FAILED}}
    ),
    Pattern(
        template="inspector/shared/_exports.html",
        states={
            "of keys": {
                "exported": [("json", "?"), ("csv", "?")],
                "title": "Export keys",
            },
            "of none": {"exported": [], "title": "Export keys"},
        },
    ),
)
TASKS = (
    Pattern(
        template="inspector/memory/task/_panel.html",
        states={
            "running": of_thread(history=HISTORY, line=LINE, data=DATA),
            "as of an event": of_thread(history=HISTORY, line=LINE, data=DATA, **PAST),
            "none": of_thread(
                history=replace(HISTORY, task=None, steps=()), line="", data=None
            ),
            "cleared": of_thread(
                history=replace(HISTORY, task=None), line=LINE, data=None
            ),
        },
    ),
    Pattern(
        template="inspector/memory/task/_facts.html",
        states={
            "running": {"task": TASK, "data": DATA, "base": BASE},
            "little is said": {"task": BARE, "data": None, "base": BASE},
        },
    ),
    Pattern(
        template="inspector/memory/task/_chart.html",
        states={"rising": {"line": LINE, "history": HISTORY, "at": 1_204}},
    ),
    Pattern(
        template="inspector/memory/task/_steps.html",
        states={
            "all": {"history": HISTORY, "base": BASE},
            "the newest": {"history": replace(HISTORY, cut=True), "base": BASE},
        },
    ),
)
NOTES = (
    Pattern(
        template="inspector/memory/notes/_panel.html",
        states={
            "some": of_thread(jotted=(TRIMMED, GAPPED, NOTE), following=""),
            "none": of_thread(jotted=(), following=""),
            "as of an event": of_thread(jotted=(NOTE,), following="", **PAST),
            "older ones": of_thread(jotted=(NOTE,), following="x"),
        },
    ),
    Pattern(
        template="inspector/memory/notes/_list.html",
        states={"some": {"jotted": (GAPPED, NOTE), "base": BASE}},
    ),
    Pattern(
        template="inspector/memory/notes/_note.html",
        frame="list",
        states={
            "plain": {"note": NOTE, "base": BASE},
            "after a while": {"note": GAPPED, "base": BASE},
            "others left for it": {"note": TRIMMED, "base": BASE},
            "erased": {"note": GONE, "base": BASE},
            "inherited": {"note": INHERITED, "base": BASE},
        },
    ),
    Pattern(
        template="inspector/memory/notes/_filters.html",
        states={
            "following": of_thread(
                asked=Asked(text=""), examples=note_lists.SCREEN.examples, search=""
            ),
            "paused": of_thread(
                asked=Asked(text="at:<1h"),
                examples=note_lists.SCREEN.examples,
                **{**PAST, "search": "q=at"},
            ),
        },
    ),
)
PATTERNS = (
    Pattern(
        template="inspector/access/projects/_memory.html",
        states={
            "all is well": {"memory": CHECKS, "place": OWNER},
            "much is late": {"memory": LATE, "place": OWNER},
        },
    ),
    Pattern(
        template="inspector/memory/_tabs.html",
        states={
            "live": of_thread(noun="keys"),
            "as of an event": of_thread(noun="notes", **PAST),
        },
    ),
    Pattern(
        template="inspector/memory/_panel.html",
        states={
            "some of each": glance(MEMORY, NOTE),
            "nothing": glance(NOTHING),
            "as of an event": glance(NOTHING, **PAST),
        },
    ),
    *KEYS,
    *TASKS,
    *NOTES,
)
