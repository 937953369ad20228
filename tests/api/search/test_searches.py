"""The routes of search: an agent finds what was acknowledged; bad input is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.models.events import Event
from memoryhub.services.access.api_keys import Agent
from tests.api.client import Client
from tests.cast import factories, forgetting, sample
from tests.cast.knowing import claim, say

pytestmark = pytest.mark.django_db

ROUTES = ("/threads/t-1/search", "/threads/t-1/recall", "/subjects/{subject}/recall")


async def test_agent_finds_an_acknowledged_message(api: Client, agent: Agent) -> None:
    said = {"from": "user", "to": "a", "type": "chat.user", "content": "It is ZFA04Y."}
    receipt = (await api.post("/threads/t-1/slots", said)).json
    events = Event.objects.count()
    found = await api.post("/threads/t-1/search", {"query": "zfa04y", "explain": True})
    assert found.header("cache-control") == "no-store"
    (hit,) = found.json["items"]
    assert (hit["thread"], hit["seq"], hit["slot"]) == ("t-1", receipt["seq"], 0)
    assert hit["matches"] == [[6, 12]]
    assert hit["why"][0]["term"] == "zfa04y"
    assert (found.json["total"], found.json["reason"]) == (1, None)
    assert Event.objects.count() == events
    before = await api.post("/threads/t-1/search", {"query": "zfa04y", "at_seq": 1})
    assert (before.json["items"], before.json["reason"]) == ([], "no_match")


async def test_search_hit_tells_that_a_fact_no_longer_holds(
    api: Client, agent: Agent
) -> None:
    api.connect()
    factories.make_thread(agent, user_id="ann")
    seq = factories.append(agent, "t-1", "My airport is OSL").seq
    ann = factories.get_thread(agent).subject
    say(agent, ann, claim("OSL", 0, source=("t-1", seq)), claim("BGO", 31))
    found = await api.post("/threads/t-1/search", {"query": "airport"})
    (hit,) = found.json["items"]
    assert hit["marks"] == "[no longer so: since 2026-02-01 home airport BGO]"
    assert hit["fact"] is None
    then = await api.post("/threads/t-1/search", {"query": "airport", "at_seq": seq})
    assert then.json["items"][0]["marks"] is None


async def test_recall_of_nobody_warns_where_people_are_named(
    api: Client, agent: Agent
) -> None:
    api.connect()
    factories.append(agent, "t-1", "A seat by the window.")
    path = "/threads/t-1/recall"
    assert (await api.post(path, {"query": "seat"})).json["warnings"] is None
    api.connect()
    factories.make_thread(agent, "ann-1", user_id="ann")
    warned = (await api.post(path, {"query": "seat"})).json
    assert warned["warnings"] == ["anonymous_bucket"]
    named = (await api.post("/threads/ann-1/recall", {"query": "seat"})).json
    assert named["warnings"] is None


async def test_recall_ranges_over_the_subject(api: Client, agent: Agent) -> None:
    api.connect()
    for n, user in ((1, "ann"), (2, "ann"), (3, "bob")):
        factories.make_thread(agent, f"t-{n}", user_id=user)
        factories.append(agent, f"t-{n}", "the lamp")
    subject = factories.get_thread(agent).subject_id
    asked = {"query": "lamp"}
    for path in ("/threads/t-1/recall", f"/subjects/{subject}/recall"):
        answer = await api.post(path, asked)
        assert {hit["thread"] for hit in answer.json["items"]} == {"t-1", "t-2"}
        only = await api.post(path, {**asked, "exclude_thread": "t-1"})
        assert [hit["thread"] for hit in only.json["items"]] == ["t-2"]
        foreign = await api.post(path, {**asked, "thread": "t-3"})
        absent = await api.post(path, {**asked, "thread": "t-9"})
        assert foreign.comparable == absent.comparable
        assert foreign.status == 404
        for theirs in ({"query": "lamp in:t-3"}, {**asked, "exclude_thread": "t-3"}):
            nobodys = {name: word.replace("3", "9") for name, word in theirs.items()}
            told = [await api.post(path, body) for body in (theirs, nobodys)]
            assert told[0].comparable == told[1].comparable


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing"),
        ({"query": ""}, "value"),
        ({"query": " "}, "value"),
        ({"query": "x" * 1001}, "value"),
        ({"query": " ".join(f"w{n}" for n in range(65))}, "value"),
        (b'{"query": "\\ud800"}', "surrogate"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": 51}, "limit"),
        ({"query": "x", "kinds": ["dream"]}, "value"),
        ({"query": "x", "order": "worst"}, "value"),
        ({"query": "x", "modality": "smell"}, "value"),
        (
            {
                "query": "x",
                "from": "2026-02-01T00:00:00Z",
                "to": "2026-01-01T00:00:00Z",
            },
            "time_range",
        ),
        ({"query": "x from:2026-02-01 to:2026-01-01"}, "time_range"),
        ({"query": "x", "dreams": 1}, "extra_field"),
    ],
)
async def test_malformed_search_is_refused(
    api: Client, agent: Agent, route: str, body: Any, code: str
) -> None:
    api.connect()
    factories.append(agent, "t-1", "hello")
    subject = factories.get_thread(agent).subject_id
    answer = await api.post(route.format(subject=subject), body)
    assert answer.status in (400, 422)
    codes = [each["code"] for each in answer.json["errors"]]
    assert code in (*codes, answer.code)


@pytest.mark.parametrize("route", ROUTES)
async def test_unbalanced_quote_is_ordinary_text(
    api: Client, agent: Agent, route: str
) -> None:
    api.connect()
    factories.append(agent, "t-1", "hello there")
    path = route.format(subject=factories.get_thread(agent).subject_id)
    for query in ('"hello', 'hello"', "kind:hello", "from:hello", "role:hello"):
        answer = await api.post(path, {"query": query})
        assert answer.json["total"] == 1, query


async def test_seq_beyond_the_head_is_unknown(api: Client, agent: Agent) -> None:
    api.connect()
    factories.append(agent, "t-1", "hello")
    answer = await api.post("/threads/t-1/search", {"query": "hello", "at_seq": 99})
    assert (answer.status, answer.code) == (404, "seq_unknown")


async def test_recall_brings_question_and_answer_of_a_recorded_run(
    api: Client, agent: Agent
) -> None:
    """Words of either half find both; a long half is cut; an erased half is empty."""
    api.connect()
    factories.make_thread(agent, user_id="ann")
    run = json.loads(sample.require_path().read_text())[0]["traj"]
    talk = [each for each in run if each["role"] in ("user", "assistant")]
    spoken = [each for each in talk if each.get("content")][:4]
    assert [each["role"] for each in spoken] == ["user", "assistant"] * 2
    spoken[1] = {**spoken[1], "content": spoken[1]["content"] + " so" * 2_000}
    for each in spoken:
        said = {"from": each["role"], "to": "a", "type": "chat.x", "content": each}
        assert (await api.post("/threads/t-1/slots", said)).status == 201
    texts = [each["content"] for each in spoken]
    seqs = list[int]()
    for n, text in enumerate(texts):
        query = {
            "query": " ".join(text.split()[:12]),
            "kinds": ["message"],
            "limit": 50,
        }
        items = (await api.post("/threads/t-1/recall", query)).json["items"]
        (hit,) = [each for each in items if each["slot"] == n]
        halves = [hit["exchange"][half] for half in ("question", "answer")]
        begin = n - n % 2
        assert [each["slot"] for each in halves] == [begin, begin + 1]
        seqs.append(hit["seq"])
        whole = texts[begin : begin + 2]
        assert [each["text"] for each in halves] == [each[:1_000] for each in whole]
        assert [each["cut"] for each in halves] == [len(each) > 1_000 for each in whole]
    ann, seq = forgetting.get_subject(agent, "ann"), seqs[2]
    thread = factories.get_thread(agent)
    forgetting.forget(ann, "record", until="tombstoned", thread=thread, seq=seq)
    last = {"query": " ".join(texts[3].split()[:12]), "kinds": ["message"]}
    items = (await api.post("/threads/t-1/recall", last)).json["items"]
    (hit,) = [each for each in items if each["slot"] == 3]
    gone = {"seq": seq, "slot": 2, "erased": True, "text": None, "cut": False}
    assert hit["exchange"]["question"] == gone
    assert hit["exchange"]["answer"]["text"] == texts[3][:1_000]


async def test_recall_brings_no_call_as_answer(api: Client, agent: Agent) -> None:
    """An assistant that only called a tool has not answered, as episodes say."""
    api.connect()
    factories.make_thread(agent, user_id="ann")
    function = {"name": "find", "arguments": '{"badger": 1}'}
    call = {"id": "c", "type": "function", "function": function}
    asked = {"role": "user", "content": "Find the badger."}
    for each in (asked, {"role": "assistant", "content": None, "tool_calls": [call]}):
        said = {"from": each["role"], "to": "a", "type": "chat.x", "content": each}
        assert (await api.post("/threads/t-1/slots", said)).status == 201
    query = {"query": "badger", "kinds": ["message"]}
    items = (await api.post("/threads/t-1/recall", query)).json["items"]
    assert [each["exchange"]["answer"] for each in items] == [None, None]
