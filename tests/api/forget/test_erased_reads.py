"""Reads after erasures: every read answers, with an empty place or 410."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from memoryhub.api import api as agent_api
from memoryhub.kernel.paging.page_commands import WriteLevels
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.context_verification import ContextCheck, iter_checks
from memoryhub.services.access.api_keys import Agent
from tests.api.client import Client, run
from tests.cast import factories
from tests.cast.erasings import erase, sound
from tests.cast.factories import append, get_thread
from tests.oracles.memory_acts import add_notes, restore, set_key, set_task, take
from tests.oracles.page_acts import act, levels_of, make_pages, new_page, new_text
from tests.services.acts import fork

pytestmark = pytest.mark.django_db

TOOL = {"name": "look_up", "description": "Look up a flight."}
SLOT = {"from": "a", "to": "b", "type": "t.x", "role": "user", "content": "hello you"}


def make_full_thread(agent: Agent, client: Client) -> Thread:
    """Make a thread with a record of every kind, two recorded requests among them."""
    append(agent, "t-1", "one", "two")
    make_pages(agent, new_page("a", "aaa", hint="h"), new_page("b", "bbb"))
    act(agent, WriteLevels(made=levels_of("a", {1: "short", 3: "x"})))
    _begin_turn(client)
    set_key(agent, "k", "v-1")
    set_key(agent, "l", "w")
    add_notes(agent, "n-1", "n-2")
    set_task(agent, fields={"description": b'"d"', "data": b'{"x":1}'})
    take(agent, "c-1")
    set_key(agent, "k", "v-2")
    act(agent, new_text("b", "other"))
    append(agent, "t-1", "three")
    _begin_turn(client)
    take(agent, "c-2")
    restore(agent, "c-1")
    return get_thread(agent)


def _begin_turn(client: Client) -> None:
    body = {"items": [SLOT], "mode": "relaxed", "tools": [TOOL]}
    answer = run(client.send("POST", "/api/v1/threads/t-1/turns", body))
    assert answer.status in (200, 201), answer.body


#: Values for the parameters of an operation.
#: Records that go before everything is read once more.
STEP = 6
VALUES = {
    "index": ["0", "1", "4"],
    "page_id": ["slot-0", "slot-2", "a", "b"],
    "key": ["k", "l"],
    "turn": ["1", "2"],
    "checkpoint": ["c-1", "c-2"],
    "name": ["c-1"],
    "block": ["persona"],
}


def operations(thread: str) -> list[str]:
    """Return every GET of a thread in the document, filled in every way."""
    found = []
    for path, operation in agent_api.get_openapi_schema()["paths"].items():
        if "get" in operation and "{thread}" in path:
            found += _fill_path(path.replace("{thread}", thread))
    return [each for each in found if not each.endswith("/events:stream")]


def _fill_path(path: str) -> list[str]:
    if "{" not in path:
        return [path]
    name = path[path.index("{") + 1 : path.index("}")]
    return [
        filled
        for value in VALUES[name]
        for filled in _fill_path(path.replace(f"{{{name}}}", value, 1))
    ]


def test_every_read_route_answers_after_any_erasure(acme: Project, api: Client) -> None:
    agent = factories.make_agent(acme)
    thread = make_full_thread(agent, api)
    child = fork(agent, "t-1", "child", seq=thread.head_seq - 3)
    sealed = Event.objects.filter(thread=thread, payload__isnull=False)
    records = [*sealed.order_by("seq").values_list("seq", flat=True)]
    random.Random(1).shuffle(records)
    seen = Counter[int]()
    for start in range(0, len(records), STEP):
        erase(thread, *((seq, seq) for seq in records[start : start + STEP]))
        for name in ("t-1", "child"):
            for path in operations(name):
                for moment in ("", "?at_seq=3", f"?at_seq={thread.head_seq - 4}"):
                    answer = run(api.send("GET", path + moment))
                    assert answer.status < 500, (path, moment, answer.body)
                    seen[answer.status] += 1
    sound(thread, child)
    assert seen[200] > 300
    assert seen[410] > 50


def test_erased_records_are_marked_and_other_reads_stay(
    acme: Project, api: Client
) -> None:
    agent = factories.make_agent(acme)
    thread = make_full_thread(agent, api)
    events = {row.seq: row.type for row in Event.objects.filter(thread=thread)}
    slot = [seq for seq in sorted(events) if events[seq] == "slot.appended"][1]
    value = min(seq for seq in events if events[seq] == "key.set")
    (written,) = [seq for seq in events if events[seq] == "task.set"]
    noted = min(seq for seq in events if events[seq] == "note.added")
    before, made = thread.head_seq, value + 1
    erase(thread, *((seq, seq) for seq in (slot, value, written, noted)))

    def get(path: str, status: int) -> Any:
        answer = run(api.send("GET", f"/api/v1/threads/t-1{path}"))
        assert answer.status == status, (path, answer.body)
        return answer.json

    assert get("/slots/1", 410)["code"] == "content_erased"
    assert get(f"/slots/1?at_seq={before}", 410)["code"] == "content_erased"
    listed = get("/slots", 200)["items"]
    assert [line["erased"] for line in listed] == [False, True, False, False, False]
    assert get("/slots/0", 200)["content"] == "one"
    assert get("/pages/slot-1", 410)["code"] == "page_erased"
    assert get("/pages/a", 200)["page_id"] == "a"
    # The checkpoint had the value that is gone: nothing of that key came back.
    assert get("/keys/k", 404)["code"] == "key_not_found"
    assert get("/keys/l", 200)["value"] == "w"
    assert get(f"/keys/k?at_seq={made}", 410)["code"] == "content_erased"
    assert get("/task", 200)["description"] is None
    assert [note["text"] for note in get("/notes", 200)["items"]] == ["n-2"]
    assert get("/turns/1/context", 410)["code"] in ("page_erased", "content_erased")
    assert "one" in str(get("/context", 200))
    assert "two" not in str(get("/context", 200))
    sound(thread)


def test_turn_whose_tools_were_erased_says_what_is_missing(
    acme: Project, api: Client
) -> None:
    thread = make_full_thread(factories.make_agent(acme), api)
    (seq,) = Event.objects.filter(type="tools.set").values_list("seq", flat=True)
    erase(thread, (1, seq))
    for turn in (1, 2):
        path = f"/api/v1/threads/t-1/turns/{turn}/context"
        answer = run(api.send("GET", path))
        assert (answer.status, answer.code) == (410, "page_erased")
        assert "tools" in answer.json["detail"]
    thread = Thread.objects.select_related("subject").get(id=thread.id)
    assert [*iter_checks(thread)] == [ContextCheck(turn=n, erased=True) for n in (1, 2)]
