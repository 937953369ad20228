from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from django.test import Client

from memoryhub.models.threads import Thread
from memoryhub.queries import event_search
from memoryhub.services.api_keys import Agent
from tests import factories
from tests.inspector.routes import make_family

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/t-1"


@pytest.fixture(autouse=True)
def family(agent: Agent) -> None:
    """Seqs: 1 created, 2 slot, 3 turn 1, 4 slot, 5 turn 2, 6 slot, 7 advanced."""
    make_family(agent)


def shown(client: Client, query: str, thread: str = "t-1") -> list[int]:
    """The seqs that the list shows, in its order."""
    answer = client.get(f"/p/acme/threads/{thread}/events", {"q": query})
    assert answer.status_code == 200, answer.context["asked"]
    return [told.line.seq for told in answer.context["shown"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [7, 6, 5, 4, 3, 2, 1]),
        ("type:slot.appended", [6, 4, 2]),
        ("type:turn.*,thread.created", [5, 3, 1]),
        ("-slot", [7, 5, 3, 1]),
        ("turn", [5, 3]),
        ("noun:slot,import", [7, 6, 4, 2]),
        ("noun:run", []),
        ("seq:3", [3]),
        ("seq:2..4", [4, 3, 2]),
        ("seq:>5", [7, 6]),
        ("seq:<=2", [2, 1]),
        ("turn:0", [2, 1]),
        ("turn:1", [4, 3]),
        ("turn:>=1", [7, 6, 5, 4, 3]),
        ("-turn:1", [7, 6, 5, 2, 1]),
        ("actor:import", [7, 6, 5, 4, 3, 2]),
        ("actor:agent*", [1]),
        ("actor:agent*,import -noun:slot", [7, 5, 3, 1]),
        ("size:0", [7, 5, 3, 1]),
        ("size:>0 turn:0", [2]),
        ("size:>1k", []),
        ("at:<1h", [7, 6, 5, 4, 3, 2, 1]),
        ("at:>1h", []),
        ("noun:slot seq:>2 -turn:1", [6]),
    ],
)
def test_a_search_finds(viewer: Client, query: str, found: list[int]) -> None:
    assert shown(viewer, query) == found


def test_a_fork_begins_in_the_turn_it_left(viewer: Client) -> None:
    """It left at event 5, where turn 2 of its parent began."""
    assert shown(viewer, "turn:2", "t-1.alt") == [2, 1]
    assert shown(viewer, "turn:<2", "t-1.alt") == []


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("typ:slot.appended", "type:"),
        ("type:slot.apended", "type:slot.appended"),
        ("noun:slots", "noun:slot"),
        ("seq:many", "seq:5..20"),
        ("size:1h", "size:&gt;64k"),
        ("at:5k", "at:&lt;1h"),
    ],
)
def test_a_wrong_search_names_the_nearest(
    viewer: Client, query: str, nearest: str
) -> None:
    answer = viewer.get(f"{T}/events", {"q": query})
    assert answer.status_code == 422
    assert not answer.context["shown"]
    assert f"<code>{nearest}</code>" in answer.content.decode()
    for kind in ("json", "csv", "ndjson"):
        assert viewer.get(f"{T}/events.{kind}", {"q": query}).status_code == 422


def test_batches_go_back_through_the_journal_once(viewer: Client) -> None:
    seen, query = [], "q=-noun:turn&limit=2"
    while query:
        answer = viewer.get(f"{T}/events?{query}")
        seen += [told.line.seq for told in answer.context["shown"]]
        first = answer.context["found"].first
        query = f"q=-noun:turn&limit=2&before={first}" if first > 1 else ""
        assert (f"before={first}" in answer.content.decode()) == bool(query)
    assert seen == [7, 6, 4, 2, 1]
    for nonsense in ("before=x", "limit=0", "limit=201"):
        assert viewer.get(f"{T}/events?{nonsense}").status_code == 422


def test_it_looks_back_so_far_and_says_so(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_search, "REACH", 3)
    answer = viewer.get(f"{T}/events?q=type:thread.created")
    page = answer.content.decode()
    assert answer.context["shown"] == []
    assert "Of events 5 to 7 none" in page
    assert 'href="?q=type%3Athread.created&amp;before=5"' in page
    last = viewer.get(f"{T}/events?q=type:thread.created&before=2")
    assert [told.line.seq for told in last.context["shown"]] == [1]
    assert "Look further back" not in last.content.decode()


def test_as_of_an_event_nothing_later_is_found(viewer: Client) -> None:
    answer = viewer.get(f"{T}/events?q=noun:slot&at_seq=4")
    assert [told.line.seq for told in answer.context["shown"]] == [4, 2]
    page = answer.content.decode()
    assert "As of event <b>4</b>" in page
    assert 'href="?q=noun%3Aslot">go live' in page


def sent(client: Client, kind: str, query: str) -> str:
    answer: Any = client.get(f"{T}/events.{kind}?{query}")
    return b"".join(answer.streaming_content).decode()


@pytest.mark.parametrize("reach", [2, 20_000])
@pytest.mark.parametrize("query", ["", "q=noun:slot", "q=noun:slot&at_seq=4"])
def test_export_is_exactly_the_filter(
    viewer: Client, query: str, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = viewer.get(f"{T}/events?{query}")
    wanted = [told.line.seq for told in answer.context["shown"]][::-1]
    monkeypatch.setattr(event_search, "REACH", reach)
    lines = sent(viewer, "ndjson", query).splitlines()
    assert [json.loads(line)["seq"] for line in lines] == wanted
    rows = csv.DictReader(io.StringIO(sent(viewer, "csv", query)))
    assert [int(row["seq"]) for row in rows] == wanted
    got, after = [], "0"
    while after:
        batch = viewer.get(f"{T}/events.json?{query}&after={after}").json()
        got += [item["seq"] for item in batch["items"]]
        after = batch["next"]
    assert got == wanted


@pytest.mark.parametrize(
    ("some", "none"),
    [
        ("t-1/events.csv", "t-1/events.csv?q=noun:run"),
        ("t-1/events.csv?content=1", "t-1/events.csv?content=1&q=noun:run"),
        ("t-1/slots.csv", "t-1/slots.csv?turn=9"),
        ("t-1/slots.csv?content=1", "t-1/slots.csv?content=1&turn=9"),
    ],
)
def test_an_empty_table_has_its_heading(viewer: Client, some: str, none: str) -> None:
    full, empty = (rows_of(viewer, f"threads/{path}") for path in (some, none))
    assert len(full) > 1
    assert empty == full[:1]
    record = viewer.get(f"/p/acme/threads/{some}".replace(".csv", ".json")).json()
    assert full[0] == list(record["items"][0])


def test_an_empty_list_of_threads_has_its_heading(viewer: Client) -> None:
    full = rows_of(viewer, "threads.csv")
    assert rows_of(viewer, "threads.csv?q=zz") == full[:1]
    record = viewer.get("/p/acme/threads.json").json()["items"][0]
    assert full[0] == list(record)


def rows_of(client: Client, path: str) -> list[list[str]]:
    answer: Any = client.get(f"/p/acme/{path}")
    text = b"".join(answer.streaming_content).decode()
    return [*csv.reader(io.StringIO(text))]


def test_the_list_costs_the_same_however_long(
    viewer: Client, agent: Agent, django_assert_max_num_queries: Any
) -> None:
    factories.append(agent, "t-1", *("hello" for _ in range(120)))
    assert Thread.objects.get(name="t-1").head_seq == 127
    with django_assert_max_num_queries(4 + 2):
        viewer.get(f"{T}/events?q=turn:1,2 size:<9 noun:slot")
