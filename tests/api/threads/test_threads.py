from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from memoryhub.journal import Address, Order, perform
from memoryhub.kernel.commands import RetireThread
from memoryhub.models import Project, Slot, Subject, Thread
from memoryhub.services.access.api_keys import Agent
from tests.api.client import SLOT, Answer, Client
from tests.cast import factories
from tests.cast.forgetting import forget

pytestmark = pytest.mark.django_db

SCOPE = {"agent_type": "booking", "agent_instance": "task-1", "session": "s-1"}


async def test_put_creates_and_a_repeat_returns(api: Client) -> None:
    body = {"scope": SCOPE, "labels": {"trial": 1, "a": "b", "c": True, "d": 0.5}}
    made = await api.put("/threads/t-1", body)
    assert made.status == 201
    assert made.json["scope"] == SCOPE
    assert made.json["labels"] == body["labels"]
    again = await api.put("/threads/t-1")
    assert again.status == 200
    assert again.json == made.json


async def test_scope_level_is_filled_once(api: Client) -> None:
    await api.put("/threads/t-1")
    filled = await api.put("/threads/t-1", {"scope": {"session": "s-1"}})
    assert filled.json["scope"]["session"] == "s-1"
    other = await api.put("/threads/t-1", {"scope": {"session": "s-2"}})
    assert (other.status, other.code) == (409, "scope_conflict")


async def test_thread_never_changes_its_subject(api: Client) -> None:
    await api.put("/threads/t-1", {"user_id": "ann"})
    other = await api.put("/threads/t-1", {"user_id": "bob"})
    assert (other.status, other.code) == (409, "subject_conflict")
    assert (await api.put("/threads/t-1", {"user_id": "ann"})).status == 200


async def test_missing_thread_is_404(api: Client) -> None:
    for part in ("", "/slots", "/slots/0", "/events", "/stats"):
        answer = await api.get(f"/threads/absent{part}")
        assert (answer.status, answer.code) == (404, "not_found")
    assert (await api.post("/threads/absent:close", {})).status == 404
    assert (await api.post("/threads/absent:fork", {"thread": "f"})).status == 404


async def test_limits_of_zero_are_refused(api: Client) -> None:
    for limit in ("max_slots", "retention_idle_days"):
        answer = await api.put("/threads/t-1", {"config": {limit: 0}})
        assert (answer.status, answer.code) == (422, "value")
    assert (await api.get("/threads/t-1")).status == 404


async def test_labels_are_replaced_as_a_whole(api: Client) -> None:
    await api.put("/threads/t-1", {"labels": {"a": 1, "b": 2}})
    changed = await api.patch("/threads/t-1", {"labels": {"b": 3}})
    assert changed.json["labels"] == {"b": 3}
    kept = await api.patch("/threads/t-1", {"config": {"max_slots": 5}})
    assert kept.json["labels"] == {"b": 3}
    assert kept.json["config"]["max_slots"] == 5
    back = await api.patch("/threads/t-1", {"config": {"max_slots": None}})
    assert back.json["config"]["max_slots"] == 100_000


async def test_closed_thread_reads_and_reopens(api: Client) -> None:
    await api.append("t-1", "hello")
    closed = await api.post("/threads/t-1:close", {"reason": "failed"})
    assert (closed.status, closed.json["status"]) == (200, "closed")
    again = await api.post("/threads/t-1:close", {})
    assert again.json == closed.json
    refused = (await api.append("t-1", "more"))[0]
    assert (refused.status, refused.code) == (409, "thread_closed")
    assert (await api.get("/threads/t-1/slots/0")).status == 200
    opened = await api.post("/threads/t-1:reopen", {})
    assert opened.json["status"] == "open"
    assert (await api.append("t-1", "more"))[0].status == 201


@pytest.mark.parametrize("how", ["retired", "erased"])
async def test_name_of_an_ended_thread_is_never_reused(
    api: Client, agent: Agent, how: str
) -> None:
    """The thread's row keeps the name; once the row has lost it, a tombstone does."""
    await api.append("t-1", "hello")
    await api.append("t-2", "hello")
    row = factories.get_thread(agent)
    if how == "erased":
        forget(row.subject, "thread", thread=row, until="rows_erased")
    else:
        perform(
            Order(
                address=Address(project=agent.project, name="t-1"),
                command=RetireThread(policy_days=1, idle_days=2),
                actor="worker:retention",
            )
        )
    for answer in (
        (await api.append("t-1", "more"))[0],
        await api.post("/threads/t-1/slots:batch", {"items": [SLOT]}),
        await api.put("/threads/t-1"),
        await api.put("/threads/t-1", {"user_id": "ann"}),
        await api.patch("/threads/t-1", {"labels": {}}),
        await api.post("/threads/t-1:fork", {"thread": "f"}),
        await api.post("/threads/t-2:fork", {"thread": "t-1"}),
        await api.post("/threads/t-1:close", {}),
        await api.post("/threads/t-1:reopen", {}),
    ):
        assert (answer.status, answer.code) == (410, "thread_erased")
    assert Thread.objects.count() == 2
    assert Thread.objects.filter(name="t-1").count() == (how == "retired")
    assert Slot.objects.filter(thread=row).count() == (how == "retired")


async def test_importing_thread_is_hidden(api: Client) -> None:
    await api.append("t-1", "hello")
    Thread.objects.update(status="importing")
    answer = await api.get("/threads/t-1")
    listed = (await api.get("/threads")).json["items"]
    Thread.objects.update(status="open")
    assert answer.code == "not_found"
    assert listed == []


# Forks


async def test_fork_goes_on_from_a_seq(api: Client) -> None:
    await api.append("t-1", "a", "b", "c")
    made = await api.post("/threads/t-1:fork", {"thread": "f", "seq": 3})
    assert made.status == 201, made.body
    assert (made.json["slots"], made.json["inherited"]) == (2, 2)
    appended = (await api.append("f", "d"))[0]
    assert appended.json["index"] == 2
    listed = (await api.get("/threads/f/slots")).json["items"]
    assert [item["content"] for item in listed] == ["a", "b", "d"]
    assert [item["inherited"] for item in listed] == [True, True, False]
    parent = (await api.get("/threads/t-1/slots")).json["items"]
    assert [item["content"] for item in parent] == ["a", "b", "c"]


# Lists


async def _walk(api: Client, target: str, *, limit: int) -> list[dict[str, Any]]:
    items, after = [], ""
    while True:
        answer: Answer = await api.get(f"{target}limit={limit}{after}")
        assert answer.status == 200, answer.body
        items += answer.json["items"]
        if answer.json["next"] is None:
            return items
        after = f"&after={answer.json['next']}"


async def _populate(api: Client) -> list[dict[str, Any]]:
    chance = random.Random(3)
    for n in range(24):
        levels = {
            level: f"{level}-{chance.randint(0, 2)}"
            for level in SCOPE
            if chance.random() < 0.8
        }
        body = {
            "scope": levels,
            "labels": {"trial": chance.randint(0, 1), "kind": chance.choice("ab")},
            "user_id": chance.choice(["ann", "bob"]),
        }
        await api.put(f"/threads/t-{n}", body)
        await api.append(f"t-{n}", *range(chance.randint(0, 3)))
        if chance.random() < 0.3:
            await api.post(f"/threads/t-{n}:close", {})
    return [(await api.get(f"/threads/t-{n}")).json for n in range(24)]


async def test_scope_filters_list_exactly_the_matching_threads(
    api: Client, ann: Subject
) -> None:
    """Every filter lists exactly what brute force finds, however the list is cut."""
    every = await _populate(api)
    for level in SCOPE:
        for n in range(3):
            name = f"{level}-{n}"
            wanted = {t["thread"] for t in every if t["scope"][level] == name}
            found = await _walk(api, f"/threads?{level}={name}&", limit=3)
            assert len(found) == len(wanted)
            assert {t["thread"] for t in found} == wanted
    for status in ("open", "closed"):
        wanted = {t["thread"] for t in every if t["status"] == status}
        found = await _walk(api, f"/threads?status={status}&label.trial=1&", limit=2)
        both = {t["thread"] for t in every if t["labels"]["trial"] == 1} & wanted
        assert {t["thread"] for t in found} == both
    search = await api.post("/threads:search", {"user_id": "ann", "limit": 200})
    wanted = {t["thread"] for t in every if t["subject_id"] == str(ann.id)}
    assert {t["thread"] for t in search.json["items"]} == wanted
    nobody = await api.post("/threads:search", {"user_id": "carl"})
    assert nobody.json == {"items": [], "next": None}
    labelled = await api.post("/threads:search", {"labels": {"trial": 1}, "limit": 99})
    assert len(labelled.json["items"]) == sum(t["labels"]["trial"] for t in every)


@pytest.mark.parametrize("sort", ["active", "created", "slots"])
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_thread_list_is_ordered_and_complete(
    api: Client, sort: str, order: str
) -> None:
    every = await _populate(api)
    target = f"/threads?sort={sort}&order={order}&"
    walked = await _walk(api, target, limit=5)
    assert sorted(t["thread"] for t in walked) == sorted(t["thread"] for t in every)
    assert [t["thread"] for t in await _walk(api, target, limit=200)] == [
        t["thread"] for t in walked
    ]
    if sort == "created":
        times = [t["created_at"] for t in walked]
        pairs = pairwise(times if order == "asc" else reversed(times))
        assert all(one <= other for one, other in pairs)


async def test_cursor_is_of_one_list_only(api: Client, foreign: Client) -> None:
    await _populate(api)
    await foreign.put("/threads/t-1")
    cursor = (await api.get("/threads?limit=1")).json["next"]
    assert (await api.get(f"/threads?limit=2&after={cursor}")).status == 200
    for client, target in (
        (api, f"/threads?sort=slots&after={cursor}"),
        (api, f"/threads?order=asc&after={cursor}"),
        (api, f"/threads?status=open&after={cursor}"),
        (api, f"/threads/t-1/slots?after={cursor}"),
        (api, f"/threads?after={cursor[:-1]}"),
        (api, f"/threads?after=x{cursor}"),
        (foreign, f"/threads?after={cursor}"),
    ):
        answer = await client.get(target)
        assert (answer.status, answer.code) == (400, "bad_cursor")


async def test_forks_are_listed_by_their_parent(api: Client) -> None:
    await api.append("t-1", "a")
    for name in ("f-1", "f-2"):
        await api.post("/threads/t-1:fork", {"thread": name})
    listed = (await api.get("/threads?parent=t-1")).json["items"]
    assert {item["thread"] for item in listed} == {"f-1", "f-2"}


async def test_thread_list_can_be_filtered_by_time(api: Client) -> None:
    await api.append("t-1", "a")
    first = (await api.get("/threads/t-1")).json
    await api.append("t-2", "a")
    for name in ("active_after", "created_after"):
        moment = first["last_active_at"].replace("+", "%2B")
        listed = (await api.get(f"/threads?{name}={moment}")).json["items"]
        assert [item["thread"] for item in listed] == ["t-2"]


# Limits


async def test_full_thread_is_refused_by_code(
    api: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await api.put("/threads/t-1", {"config": {"max_slots": 1}})
    assert (await api.append("t-1", "a"))[0].status == 201
    capsys.readouterr()
    refused = (await api.append("t-1", "b"))[0]
    assert (refused.status, refused.code) == (409, "thread_full")
    line = capsys.readouterr().out
    assert '"code": "thread_full"' in line
    assert '"level": "info"' in line
    batch = {"items": [SLOT, SLOT]}
    refused = await api.post("/threads/t-1/slots:batch", batch)
    assert refused.code == "thread_full"
    assert (await api.get("/threads/t-1/slots/0")).json["content"] == "a"


async def test_reading_writes_no_byte(api: Client, acme: Project) -> None:
    await api.append("t-1", "a", "b")
    await api.get("/threads")
    tables = ("events", "slots", "thread_labels")

    def list_rows() -> list[str]:
        thread = Thread.objects.get(project=acme)
        related = [getattr(thread, table).values_list() for table in tables]
        return [repr(list(each)) for each in (Thread.objects.values_list(), *related)]

    before = list_rows()
    for target in (
        "/threads",
        "/threads/t-1",
        "/threads/t-1?at_seq=1",
        "/threads/t-1/slots?limit=1",
        "/threads/t-1/slots/0?view=handler",
        "/threads/t-1/events",
        "/threads/t-1/stats",
        "/stats",
        "/openapi.json",
    ):
        assert (await api.get(target)).status == 200
    assert list_rows() == before
