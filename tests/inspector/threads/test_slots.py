from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from memoryhub.models.server.clock import clock
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots
from tests.cast import factories
from tests.inspector.conftest import Browser

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/t-1"

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "find_parcel", "arguments": '{"number":"PX-7"}'},
        }
    ],
}
RESULT = {
    "role": "tool",
    "tool_call_id": "call_1",
    "name": "find_parcel",
    "content": '{"status":"on its way","stops":["Oslo","Bergen"]}',
}


def put(agent: Agent, content: Any, **fields: Any) -> None:
    slot = factories.make_slot(content, **fields)
    factories.run(slots.append(agent=agent, thread="t-1", slots=[slot]))


@pytest.fixture
def parcel(agent: Agent) -> None:
    put(agent, {"role": "user", "content": "Where is my parcel?"})
    put(
        agent,
        CALL,
        from_name="assistant",
        to_name="tool:find_parcel",
        type="chat.assistant",
    )
    put(
        agent,
        RESULT,
        from_name="tool:find_parcel",
        to_name="assistant",
        type="chat.tool",
    )


def test_conversation_shows_text_calls_and_results(
    viewer: Client, parcel: None
) -> None:
    page = viewer.get(f"{T}/slots").content.decode()
    assert "Where is my parcel?" in page
    assert "<b>find_parcel</b>(…)" in page
    assert "{\n  &quot;number&quot;: &quot;PX-7&quot;\n}" in page
    assert "&quot;Bergen&quot;\n  ]\n}" in page


def test_tool_result_is_folded_and_tool_call_is_open(
    viewer: Client, parcel: None
) -> None:
    bubbles = viewer.get(f"{T}/slots").context["bubbles"]
    call, result = bubbles[1].blocks[0], bubbles[2].blocks[0]
    assert (call.kind, call.folded) == ("call", False)
    assert (result.kind, result.folded, result.hint) == ("result", True, "2 fields")


@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        ("type=chat.tool", [2]),
        ("from=assistant", [1]),
        ("from=assistant&type=chat.tool", []),
        ("turn=0", [0, 1, 2]),
        ("at_seq=3", [0, 1]),
        ("index=1", [0, 1, 2]),
        ("index=999", [0, 1, 2]),
    ],
)
def test_filters_narrow_the_conversation(
    viewer: Client, parcel: None, query: str, indexes: list[int]
) -> None:
    bubbles = viewer.get(f"{T}/slots?{query}").context["bubbles"]
    assert [bubble.slot.index for bubble in bubbles] == indexes


def test_conversation_window_is_101_messages(viewer: Client, agent: Agent) -> None:
    factories.append(agent, "t-1", *(f"message {n}" for n in range(180)))
    answer = viewer.get(f"{T}/slots?index=90")
    indexes = [bubble.slot.index for bubble in answer.context["bubbles"]]
    assert indexes == list(range(40, 141))
    assert answer.context["links"] == {"older": "index=39", "newer": "index=141"}
    page = viewer.get(f"{T}/slots?index=90&to=92").content.decode()
    assert page.count('aria-current="true"> <header>') == 3
    assert page.count('tabindex="-1" autofocus aria-current="true"') == 1
    last = viewer.get(f"{T}/slots")
    assert [b.slot.index for b in last.context["bubbles"]][-1] == 179
    assert last.context["links"]["newer"] == ""


@pytest.mark.parametrize("query", ["type=a%20b", "from=%3Cb%3E", "turn=-1", "index=x"])
def test_invalid_slot_filter_is_refused(
    viewer: Client, parcel: None, query: str
) -> None:
    assert viewer.get(f"{T}/slots?{query}").status_code == 422


def test_long_content_is_cut_and_shown_whole_on_request(
    viewer: Client, agent: Agent
) -> None:
    put(agent, "x" * 70_000)
    page = viewer.get(f"{T}/slots").content.decode()
    assert "x" * 65_536 in page
    assert "x" * 65_537 not in page
    assert "show all 68.4 KB" in page
    whole = viewer.get(f"{T}/slots/0?content=all").content.decode()
    assert "x" * 70_000 in whole


def test_conversation_of_long_messages_stays_below_its_size_bound(
    viewer: Client, agent: Agent
) -> None:
    for _ in range(8):
        put(agent, "y" * 60_000)
    for path in (f"{T}/slots", f"{T}?tab=messages", T):
        assert len(viewer.get(path).content) < 300_000
    assert len(viewer.get(T).content) < 150_000


def test_slot_page_shows_fields_handler_view_and_raw(
    viewer: Client, parcel: None
) -> None:
    page = viewer.get(f"{T}/slots/2").content.decode()
    assert "chat.tool" in page
    assert "What the handler was told" in page
    assert "&quot;tool_call_id&quot;: &quot;call_1&quot;" in page
    assert viewer.get(f"{T}/slots/3").status_code == 404


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7|add:1 }}{% debug %}",
    '<div hx-get="/sign-out" hx-trigger="load">',
    "\u202etxt.exe\u202c\x1b[2J\x00"[:-1],
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_message_text_is_inert(viewer: Client, agent: Agent, text: str) -> None:
    put(agent, {"role": "user", "content": text, "other": text})
    put(agent, {"role": "assistant", "tool_calls": [{"function": {"name": text}}]})
    for path in ("", "?tab=messages", "/slots", "/slots/0", "/events/2", "/tail"):
        page = viewer.get(f"{T}{path}").content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert '<div hx-get="/sign-out"' not in page
        assert "\u202e" not in page
        assert "\x1b" not in page


def test_hidden_characters_in_messages_are_named(viewer: Client, agent: Agent) -> None:
    put(agent, "a\u202eb\x1bc\u200bd")
    page = viewer.get(f"{T}/slots").content.decode()
    for mark in (">RLO<", ">ESC<", ">ZWSP<"):
        assert mark in page


@pytest.mark.parametrize("query", ["", "?type=chat.tool", "?from=user", "?at_seq=3"])
def test_slot_export_equals_the_filter(
    viewer: Client, parcel: None, query: str
) -> None:
    shown = viewer.get(f"{T}/slots{query}").context["bubbles"]
    wanted = [bubble.slot.index for bubble in shown]
    lines = text_of(viewer.get(f"{T}/slots.ndjson{query}")).splitlines()
    assert [json.loads(line)["index"] for line in lines] == wanted
    rows = csv.DictReader(io.StringIO(text_of(viewer.get(f"{T}/slots.csv{query}"))))
    assert [int(row["index"]) for row in rows] == wanted
    items = json.loads(viewer.get(f"{T}/slots.json{query}").content)["items"]
    assert [item["index"] for item in items] == wanted
    assert all("content" not in item for item in items)


def test_messages_are_exported_as_received(viewer: Client, parcel: None) -> None:
    lines = text_of(viewer.get(f"{T}/messages.ndjson")).splitlines()
    assert [json.loads(line) for line in lines][1:] == [CALL, RESULT]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("http://x")']
)
def test_csv_cells_cannot_be_formulas(viewer: Client, agent: Agent, text: str) -> None:
    put(agent, text)
    table = text_of(viewer.get(f"{T}/slots.csv?content=1"))
    (row,) = csv.DictReader(io.StringIO(table, newline=""))
    assert row["content"] == f"'{text}"


def test_numbers_stay_numbers_in_csv(viewer: Client, agent: Agent) -> None:
    put(agent, -5)
    table = text_of(viewer.get(f"{T}/slots.csv?content=1"))
    (row,) = csv.DictReader(io.StringIO(table))
    assert row["content"] == "-5"


@pytest.mark.no_replay
def test_erased_message_keeps_its_place(viewer: Client, parcel: None) -> None:
    Slot.objects.filter(index=1).update(erased=True)
    page = viewer.get(f"{T}/slots").content.decode()
    assert "Erased. The place of the message remains." in page
    assert "PX-7" not in page
    alone = viewer.get(f"{T}/slots/1")
    assert alone.status_code == 410
    assert "PX-7" not in alone.content.decode()


@pytest.mark.no_replay
@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_thread_of_an_erased_subject_is_gone(
    viewer: Client, parcel: None, state: str
) -> None:
    Subject.objects.update(state=state)
    for path in ("", "/slots", "/tail", "/panels/head", "/slots.csv"):
        answer = viewer.get(f"{T}{path}")
        assert answer.status_code == 410
        assert "parcel" not in answer.content.decode()


@pytest.mark.no_replay
def test_thread_of_a_restricted_subject_is_for_officers(
    browser: Browser, parcel: None
) -> None:
    Subject.objects.update(state="restricted")
    refused = browser("editor").get(T)
    assert refused.status_code == 403
    assert "role officer" in refused.content.decode()
    assert browser("officer").get(T).status_code == 200


def test_reading_slots_changes_nothing(viewer: Client, parcel: None) -> None:
    before = Thread.objects.values().get()
    for path in (
        "",
        "/slots",
        "/slots/0",
        "/tail",
        "/forks",
        "/events/1",
        "/slots.csv",
    ):
        viewer.get(f"{T}{path}")
    assert Thread.objects.values().get() == before


def text_of(answer: Any) -> str:
    return b"".join(answer.streaming_content).decode()


def test_message_is_dated_by_its_agents_clock(agent: Agent, viewer: Client) -> None:
    factories.make_thread(agent, "t-1")
    put(agent, "Hello", agent_at=datetime(2020, 1, 2, 3, 4, tzinfo=UTC))
    put(agent, "Now", agent_at=clock.now())
    page = viewer.get(f"{T}/slots").content.decode()
    assert page.count("by the agent's clock") == 1
    before = page.partition("by the agent's clock")[0]
    assert 'datetime="2020-01-02T03:04:00.000+00:00"' in before
    assert f'title="Recorded {clock.now():%Y-%m-%d}' in before
