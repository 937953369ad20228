from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from inspector.drawing import chat
from inspector.drawing.chat import Bubble, Room
from inspector.lists import panels
from inspector.lists.panels import Told
from inspector.web.places import Place
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project
from memoryhub.queries.forget.erasure_views import Proof
from memoryhub.queries.threads.events import EventLine
from memoryhub.queries.threads.slots import SlotLine
from memoryhub.queries.threads.threads import ThreadLine

Context = dict[str, Any]

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
PROJECT = Project(id=UUID(int=1), slug="sample", created_at=NOW)
ANN = Operator(id=UUID(int=2), username="ann", created_at=NOW)
OWNER = Place(operator=ANN, project=PROJECT, role=Membership.Role.OWNER)
VIEWER = Place(operator=ANN, project=PROJECT, role=Membership.Role.VIEWER)
THREADS = f"/p/{PROJECT.slug}/threads"
BASE = f"{THREADS}/ticket-4711"
HOST = "http://127.0.0.1:8000"
LONG_NAME = "a-name-as-long-as-a-client-may-choose-" + "x" * 90

PROVED = Proof(erasure=UUID(int=41), receipt=UUID(int=42))

# Threads

OPEN = ThreadLine(
    id=UUID(int=3),
    name="ticket-4711",
    subject=UUID("00000000-0000-7000-8000-0000cafe4711"),
    status="open",
    agent_type="support",
    agent_instance="desk-2",
    session="monday",
    labels={"team": "red", "urgent": True, "score": 0.5},
    config={},
    parent=None,
    fork_seq=None,
    lineage=(),
    head_seq=1204,
    slots=812,
    max_slots=100_000,
    nearly_full=False,
    turns=260,
    tokens=418_230,
    bytes=1_730_000,
    created_at=NOW - timedelta(days=3),
    last_event_at=NOW - timedelta(seconds=20),
    last_event_type="slot.appended",
    last_active_at=NOW - timedelta(seconds=20),
    listed_at=NOW - timedelta(seconds=20),
    listed_slots=812,
    resident=98_000,
    capacity=124_000,
    hits=1_090,
    misses=114,
    faults=12,
    refaults=0,
    exchanges=130,
    exchanges_lately=20,
    faulted_exchanges=12,
    faulted_lately=3,
)
FRESH = replace(
    OPEN,
    id=UUID(int=4),
    name="hello",
    agent_type=None,
    agent_instance=None,
    session=None,
    labels={},
    head_seq=1,
    slots=0,
    turns=0,
    tokens=0,
    bytes=0,
    resident=0,
    hits=0,
    misses=0,
    faults=0,
    exchanges=0,
    exchanges_lately=0,
    faulted_exchanges=0,
    faulted_lately=0,
)
FULL = replace(
    OPEN,
    id=UUID(int=5),
    name=LONG_NAME,
    slots=96_000,
    nearly_full=True,
    refaults=4,
    faulted_exchanges=70,
    faulted_lately=18,
    head_seq=1_000_000,
    tokens=38_400_000,
    labels={f"label-{n}": f"value-{n}" for n in range(12)},
)
CLOSED = replace(OPEN, id=UUID(int=6), name="ticket-4000", status="closed")
RETIRED = replace(OPEN, id=UUID(int=7), name="ticket-1", status="retired")

# Messages

USER = SlotLine(
    thread=OPEN.id,
    index=0,
    seq=2,
    home=OPEN.id,
    at=NOW - timedelta(hours=1),
    turn=1,
    from_name="user",
    to_name="assistant",
    type="chat.user",
    role="user",
    tokens=8,
    bytes=60,
    agent_at=None,
    own_name=None,
    is_self_call=None,
    erased=False,
    content={"role": "user", "content": "Where is my parcel? It was due on Monday."},
    usage_instructions="",
    todo_nudge="",
)
CALL = replace(
    USER,
    index=1,
    seq=4,
    from_name="assistant",
    to_name="tool",
    type="chat.assistant",
    role="assistant",
    tokens=1_230,
    agent_at=NOW - timedelta(hours=1, seconds=2),
    own_name="desk",
    is_self_call=True,
    content={
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {"id": "c1", "function": {"name": "find", "arguments": '{"no": "PX-7"}'}}
        ],
        "cache": "warm",
    },
)
RESULT = replace(
    USER,
    index=2,
    seq=5,
    from_name="tool",
    type="chat.tool",
    role="tool",
    content={
        "role": "tool",
        "name": "find",
        "tool_call_id": "c1",
        "content": '{"stops": ["Oslo", "Bergen"], "late": true}',
    },
)
PROMPT = replace(
    USER,
    from_name="system",
    type="chat.system",
    role="system",
    content={"role": "system", "content": "Be kind, be brief.\n" * 20},
)
TALL = replace(USER, content={"role": "user", "content": "A line of many.\n" * 90})
CUT = replace(USER, content={"role": "user", "content": "x" * 70_000})
HOSTILE = replace(
    USER, content="<script>alert(1)</script> \u202eodd\u202c \x1b[31m zero\u200bwidth"
)
OTHER = replace(USER, role=None, type="note", content={"any": ["json", 1, None]})
EMPTY = replace(USER, content=None)
SILENT = replace(USER, content={"role": "user", "content": ""})
ERASED = replace(USER, content=None, erased=True)
INHERITED = replace(USER, home=UUID(int=99))


def bubble(slot: SlotLine) -> Bubble:
    return chat.bubble(slot, Room())


# Events


def event(seq: int, type_: str, body: Context, **other: Any) -> EventLine:
    said = {
        "seq": seq,
        "at": NOW - timedelta(minutes=60 - min(seq, 60)),
        "type": type_,
        "actor": "agent:mh7f3a2c",
        "body": body,
        "sealed": False,
        "erased": False,
        "payload": None,
        "chain": "ab" * 32,
    }
    return EventLine(**{**said, **other})


def told(line: EventLine, *, opened: bool = False) -> Told:
    return panels.told(line, opened=opened, toggle=f"at_seq={line.seq}&open={line.seq}")


CREATED = event(1, "thread.created", {"agent_type": "support"})
APPENDED = event(
    2,
    "slot.appended",
    {"index": 0, "from": "user", "to": "assistant", "role": "user", "tokens": 8},
    sealed=True,
    payload={"content": USER.content},
)
TURN = event(3, "turn.began", {"n": 1})
CALLED = event(
    4,
    "slot.appended",
    {"index": 1, "from": "assistant", "to": "tool", "role": "assistant", "tokens": 9},
    sealed=True,
    payload={"content": CALL.content},
)
GONE = replace(APPENDED, seq=5, erased=True, payload=None)
SHUT = event(6, "thread.closed", {"reason": "done"}, actor=f"operator:{ANN.id}")
SOME = tuple(told(line) for line in (CREATED, APPENDED, TURN, CALLED, GONE, SHUT))


def of_thread(thread: ThreadLine = OPEN, **more: Any) -> Context:
    """What every panel of a thread knows; `panels.shared` makes it of a row."""
    return {
        "thread": thread,
        "base": BASE,
        "threads": THREADS,
        "place": OWNER,
        "at": thread.head_seq,
        "live": True,
        "tab": "summary",
        "pinned": None,
        "carried": [],
        "keep": "",
        "search": "",
        "pushed": False,
        **more,
    }
