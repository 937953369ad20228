from __future__ import annotations

from typing import Any

import pytest

from memoryhub.model_settings import ModelSettings
from memoryhub.models import Event, Project, Subject, Thread
from tests.api.client import Client
from tests.cast import factories

pytestmark = pytest.mark.django_db

TALK = {"thread": "talk", "input": "Is 12A free?", "output": "Yes."}


@pytest.fixture
def theirs(acme: Project) -> Thread:
    return factories.make_thread(factories.make_agent(acme), "theirs", user_id="bob")


@pytest.fixture
def bound(acme: Project, ann: Subject) -> Client:
    return Client(key=factories.make_key(acme, subject=ann)[1])


async def remember(api: Client, subject: Subject, **fields: Any) -> Any:
    return await api.post(f"/subjects/{subject.id}/episodes", {**TALK, **fields})


async def test_remembered_exchange_is_listed_with_its_thread(
    api: Client, ann: Subject
) -> None:
    call = {"name": "seat_map", "arguments": {"flight": "LX318"}, "result": "free"}
    then = "2024-05-01T09:00:00+00:00"
    made = await remember(api, ann, tool_calls=[call], occurred_at=then)
    assert made.status == 201
    assert (made.json["first"], made.json["end"], made.json["seq"]) == (0, 4, 5)
    (found,) = (await api.get(f"/subjects/{ann.id}/episodes")).json["items"]
    assert (found["thread"], found["occurred_at"][:19]) == ("talk", then[:19])
    assert found["input"]["content"]["content"] == TALK["input"]
    assert found["output"]["content"]["content"] == TALK["output"]
    assert found["tool_calls"] == [
        {"name": "seat_map", "arguments": '{"flight":"LX318"}', "index": 1, "seq": 3}
    ]
    profile = (await api.get(f"/subjects/{ann.id}")).json
    assert profile["episodes"] == 1


async def test_repeated_remember_request_adds_no_episode(
    api: Client, ann: Subject
) -> None:
    key = [("idempotency-key", "once")]
    path = f"/subjects/{ann.id}/episodes"
    first = await api.post(path, TALK, headers=key)
    again = await api.post(path, TALK, headers=key)
    assert again.json == first.json
    assert again.header("idempotent-replayed") == "true"
    other = await api.post(path, {**TALK, "output": "No."}, headers=key)
    assert (other.status, other.code) == (422, "idempotency_mismatch")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"thread": "mh.home"}, "reserved_name"),
        ({"input": " \n"}, "value"),
        ({"output": ""}, "value"),
        ({"input": 7}, "type"),
        ({"input": None}, "type"),
        ({"occurred_at": "2024-05-01T09:00:00"}, "time"),
        ({"tool_calls": [{"name": "a b"}]}, "name"),
        ({"tool_calls": [{"name": "x"}] * 101}, "batch_size"),
        ({"tool_calls": [{"name": "x", "result": 7}]}, "type"),
        ({"extra": 1}, "extra_field"),
    ],
)
async def test_malformed_exchange_is_refused(
    api: Client, ann: Subject, changes: dict[str, Any], code: str
) -> None:
    refused = await remember(api, ann, **changes)
    assert refused.status == 422
    assert refused.json["errors"][0]["code"] == code
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("from=yesterday", "time"),
        ("to=2024-05-01", "time"),
        ("thread=_x", "reserved_name"),
        ("consolidation=asked", "value"),
        ("recorded_before=today", "time"),
        ("kind=fact", "extra_parameter"),
    ],
)
async def test_malformed_episode_query_is_refused(
    api: Client, ann: Subject, query: str, code: str
) -> None:
    refused = await api.get(f"/subjects/{ann.id}/episodes?{query}")
    assert (refused.status, refused.json["errors"][0]["code"]) == (422, code)


async def list_questions(api: Client, subject: Subject, query: str) -> list[str]:
    found = (await api.get(f"/subjects/{subject.id}/episodes?{query}")).json["items"]
    return [each["input"]["content"]["content"] for each in found]


async def test_episodes_are_filtered_by_when_they_were(
    api: Client, ann: Subject
) -> None:
    made = await remember(api, ann, input="old", occurred_at="2024-05-01T09:00:00Z")
    await remember(api, ann, input="new")
    assert await list_questions(api, ann, "to=2024-05-02T00:00:00Z") == ["old"]
    assert await list_questions(api, ann, "from=2024-05-02T00:00:00Z") == ["new"]
    both = "from=2024-05-01T00:00:00Z&limit=1"
    page = (await api.get(f"/subjects/{ann.id}/episodes?{both}")).json
    assert await list_questions(api, ann, f"{both}&after={page['next']}") == ["old"]
    recorded = "recorded_before=2024-05-02T00:00:00Z"
    assert await list_questions(api, ann, recorded) == []
    assert made.json["first"] == 0


async def test_episodes_that_the_agent_has_learnt_from_are_not_pending(
    api: Client, ann: Subject
) -> None:
    for question in ("a", "b", "c"):
        await remember(api, ann, input=question)
    path = f"/subjects/{ann.id}/episodes:consolidated"
    marked = await api.post(path, {"thread": "talk", "index": 2})
    assert (marked.status, marked.json["index"]) == (200, 2), marked.body
    assert await list_questions(api, ann, "consolidation=pending") == ["c", "a"]
    assert await list_questions(api, ann, "consolidation=consolidated") == ["b"]
    again = await api.post(path, {"thread": "talk", "index": 2})
    assert (again.status, again.code) == (409, "stale")
    absent = await api.post(path, {"thread": "talk", "index": 1})
    assert absent.status == 404
    profile = (await api.get(f"/subjects/{ann.id}")).json
    assert profile["pending"]["waiting"] == 2


async def test_pending_episodes_are_requested_once(
    api: Client, ann: Subject, theirs: Thread, settings: Any
) -> None:
    path = f"/subjects/{ann.id}/episodes:consolidate"
    for question in ("a", "b", "c"):
        await remember(api, ann, input=question)
    refused = await api.post(path, {})
    assert (refused.status, refused.code) == (409, "no_model")
    settings.MODEL = ModelSettings(url="http://127.0.0.1/v1", name="small", key="k")
    key = [("idempotency-key", "once")]
    first = await api.post(path, {"thread": "talk", "limit": 1}, headers=key)
    place = {"thread": "talk", "index": 2}
    assert (first.status, len(first.json["items"])) == (202, 1), first.body
    # The newest is not over.
    assert first.json["items"][0].items() > place.items()
    assert (await api.post(path, {}, headers=key)).code == "idempotency_mismatch"
    again = await api.post(path, {"thread": "talk", "limit": 1}, headers=key)
    assert again.json == first.json
    assert (await api.post(path, {"limit": 1})).json["items"] == []
    (rest,) = (await api.post(path, {})).json["items"]
    assert rest["index"] == 0
    assert await list_questions(api, ann, "consolidation=pending") == ["c", "b", "a"]
    wrong: list[dict[str, Any]] = [{"limit": 0}, {"limit": 51}, {"threads": []}]
    for body in wrong:
        assert (await api.post(path, body)).status == 422, body
    assert (await api.post(path, {"thread": theirs.name})).status == 404


async def test_thread_of_another_subject_is_absent(
    api: Client, theirs: Thread, ann: Subject
) -> None:
    path = f"/subjects/{ann.id}/episodes"
    foreign = await api.get(f"{path}?thread=theirs")
    absent = await api.get(f"{path}?thread=absent")
    assert (foreign.status, foreign.code) == (404, "not_found")
    assert foreign.comparable == absent.comparable
    assert (await remember(api, ann, thread="theirs")).status == 404


async def test_bound_key_calls_its_threads_as_ever(bound: Client, ann: Subject) -> None:
    assert (await remember(bound, ann)).json["thread"] == "talk"
    (found,) = (await bound.get(f"/subjects/{ann.id}/episodes")).json["items"]
    assert found["thread"] == "talk"
    newest = (await bound.get("/threads/talk/messages?limit=1")).json["items"]
    assert [each["index"] for each in newest] == [1]


async def test_memory_loads_the_newest_episodes_and_counts_all(
    api: Client, ann: Subject
) -> None:
    for n in range(22):
        await remember(api, ann, input=f"q{n}")
    loaded = (await api.get(f"/subjects/{ann.id}/memory")).json
    assert loaded["counts"]["episodes"] == 22
    asked = [each["input"]["content"]["content"] for each in loaded["episodes"]]
    assert asked == [f"q{n}" for n in range(21, 1, -1)]
