"""Imports of databases that LangGraph's own SQLite saver wrote."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from memoryhub.journal import texts
from memoryhub.kernel.formats import format_langgraph, msgpack_data
from memoryhub.kernel.formats.records import TextPosition
from memoryhub.kernel.formats.transcripts import ImportOptions, Omission
from memoryhub.kernel.messages import reading
from memoryhub.kernel.threads.slots import parse_agent_time
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.people import subjects
from tests.cast.recordings import find, open_contents
from tests.management.export.test_import import Imported

pytestmark = pytest.mark.django_db

SEAT = {"name": "find_seat", "args": {"row": 7}, "id": "c1", "type": "tool_call"}


class Booking(TypedDict):
    messages: Annotated[list[Any], add_messages]
    trip: Any


def book(path: Path, *texts: str, thread_id: str = "trip-1", trip: Any = None) -> None:
    """Run a graph that calls a tool and answers, once for each text."""
    graph = StateGraph(Booking)
    graph.add_node("call", lambda _: {"messages": AIMessage("", tool_calls=[SEAT])})
    found = ToolMessage("7A", tool_call_id="c1", name="find_seat")
    graph.add_node("tool", lambda _: {"messages": found.model_copy()})
    said = AIMessage([{"type": "text", "text": "Seat 7A is yours."}])
    graph.add_node("answer", lambda _: {"messages": said.model_copy()})
    graph.add_edge(START, "call").add_edge("call", "tool").add_edge("tool", "answer")
    config: Any = {"configurable": {"thread_id": thread_id, "user_id": "ann"}}
    with SqliteSaver.from_conn_string(str(path)) as saver:
        bound = graph.compile(checkpointer=saver)
        for text in texts:
            bound.invoke({"messages": [HumanMessage(text)], "trip": trip}, config)


def spoil(path: Path, statement: str, *values: Any) -> None:
    with sqlite3.connect(path) as database:
        database.execute(statement, values)
    database.close()


def test_import_takes_the_messages_of_each_newest_checkpoint(
    acme: Project, tmp_path: Path
) -> None:
    path = tmp_path / "graph.sqlite"
    before = datetime.now(UTC)
    book(path, "A seat?", trip={UUID(int=7): {"to": ("Oslo", b"x")}})
    book(path, "Another?", thread_id="of ann")
    done = json.loads(Imported(path, project="acme", json=True).out)
    assert (done["format"], done["exit_code"]) == ("langgraph", 0)
    assert (done["runs"], done["slots"], done["turns"]) == (2, 8, 4)
    assert done["omitted"] == {
        "channel.trip": 1,
        "checkpoints.earlier": 8,
        "writes": done["omitted"]["writes"],
    }
    thread = find(acme, "graph:trip-1")
    assert subjects.open_user_id(thread.subject) == "ann"
    asked, called, seat, answered = open_contents(thread)
    assert (asked["type"], asked["content"]) == ("human", "A seat?")
    (call,) = reading.read(called).calls
    assert (call.name, call.id) == ("find_seat", "c1")
    assert (seat["content"], seat["tool_call_id"]) == ("7A", "c1")
    assert reading.read(answered).parts[0].words == "Seat 7A is yours."
    slots = [*thread.slots.order_by("index")]
    seqs = [slot.seq for slot in slots]
    opened = texts.open_contents(thread.subject, acme.id, thread.id, seqs)
    times = [at for seq in seqs if (at := parse_agent_time(opened[seq]))]
    assert times == sorted(times)
    assert before < times[0] < times[3] < datetime.now(UTC)
    assert [slot.role for slot in slots] == ["user", "assistant", "tool", "assistant"]
    assert not Thread.objects.filter(name__contains="ann").exists()


def test_import_tells_messages_that_stand_only_in_writes() -> None:
    """LangGraph's `DeltaChannel` keeps no values in most checkpoints."""
    packed = {"channel_values": {}, "channel_versions": {"messages": "2"}}
    row = format_langgraph.GraphCheckpoint(
        thread_id="t",
        packing="json",
        packed=json.dumps(packed).encode(),
        metadata=b"{}",
        place=TextPosition(line=1, offset=0),
    )
    options = ImportOptions(source="graph")
    assert [*format_langgraph.read([row], options)] == [
        Omission(parts=Counter({"threads.messages_in_writes": 1}))
    ]


def test_import_goes_on_with_what_a_graph_added(acme: Project, tmp_path: Path) -> None:
    path = tmp_path / "graph.sqlite"
    book(path, "A seat?")
    assert Imported(path, project="acme").rows["slots"] == "4"
    files = sorted(tmp_path.iterdir())
    again = Imported(path, project="acme")
    assert (again.rows["present"], again.rows["slots"]) == ("1", "0")
    assert sorted(tmp_path.iterdir()) == files
    book(path, "One more?")
    assert Imported(path, project="acme").rows["slots"] == "4"


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        ("checkpoint", b"\x81", "invalid_msgpack"),
        ("checkpoint", b"\x91" * 99, "too_deep"),
        ("checkpoint", b"\x90", "object_expected"),
        ("checkpoint", b"\xdf\xff\xff\xff\xff", "invalid_msgpack"),
        ("type", "pickle", "unknown_packing"),
        ("checkpoint", b"\x81\xaechannel_values\x81\xa8messages\x07", "list_expected"),
        (
            "checkpoint",
            b"\x81\xaechannel_values\x81\xa8messages\x91\x82\xa4type\xa5human"
            b"\xa7content\xcb\x7f\xf0" + bytes(6),
            "non_finite",
        ),
        ("metadata", b'{"user_id": 7}', "type"),
    ],
)
def test_import_names_the_row_of_a_bad_checkpoint(
    acme: Project, tmp_path: Path, column: str, value: Any, code: str
) -> None:
    path = tmp_path / "graph.sqlite"
    book(path, "A seat?")
    spoil(path, f"UPDATE checkpoints SET {column} = ? WHERE rowid = 5", value)
    done = Imported(path, project="acme")
    assert done.code == 1
    assert done.bad[0].startswith("graph.sqlite:5:0 run=0")
    assert code in done.bad[0]


def test_import_builds_no_class_that_a_file_names(
    acme: Project, tmp_path: Path
) -> None:
    path, sign = tmp_path / "graph.sqlite", tmp_path / "sign"
    book(path, "A seat?")

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (sign,)

    spoil(
        path,
        "UPDATE checkpoints SET type = 'pickle', checkpoint = ? WHERE rowid = 5",
        pickle.dumps(Evil()),
    )
    assert Imported(path, project="acme").code == 1
    inner = b"\x93\xa2os\xa6system\xa7touch x"
    packed = b"\xc7" + bytes([len(inner), 0]) + inner
    assert msgpack_data.parse(packed, max_nodes=9) == "touch x"
    assert not sign.exists()


def test_import_refuses_a_damaged_or_foreign_database(
    acme: Project, tmp_path: Path
) -> None:
    path, other = tmp_path / "graph.sqlite", tmp_path / "other.sqlite"
    book(path, *["A seat? " * 99] * 3)
    whole = bytearray(path.read_bytes())
    whole[8192:] = b"\x99" * len(whole[8192:])
    path.write_bytes(whole)
    done = Imported(path, project="acme")
    assert (done.code, done.bad) == (1, ["graph.sqlite:1:0 damaged"])
    view = "CREATE VIEW checkpoints AS SELECT 1"
    for statement in ("CREATE TABLE writes (a)", view):
        spoil(other, statement)
    assert "unknown_format" in Imported(other, project="acme").err
