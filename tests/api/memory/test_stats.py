from __future__ import annotations

import random
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.models import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import stats as workers
from tests.api.client import SLOT, Client, run
from tests.cast import factories

pytestmark = pytest.mark.django_db


async def test_stats_equal_those_of_the_fold(api: Client, agent: Agent) -> None:
    """After any history the counts are those of a recount, at every seq of it."""
    chance = random.Random(11)
    sent: list[dict[str, object]] = []
    for n in range(40):
        fields: dict[str, object] = {
            "from": chance.choice(["a", "b", "c"]),
            "type": chance.choice(["x.one", "x.two"]),
            "tokens": chance.randint(0, 9),
        }
        sent.append(fields)
        await api.append("t-1", "x" * n, **fields)
        if chance.random() < 0.2:
            await api.post("/threads/t-1:close", {})
            await api.post("/threads/t-1:reopen", {})
    await api.post("/threads/t-1:fork", {"thread": "f", "seq": 10})
    head = (await api.get("/threads/t-1")).json["seq"]
    for seq in (0, 1, 7, head // 2, head):
        then = (await api.get(f"/threads/t-1/slots?limit=200&at_seq={seq}")).json
        stats = (await api.get(f"/threads/t-1/stats?at_seq={seq}")).json
        items = then["items"]
        assert stats["slots"] == len(items)
        assert stats["tokens"] == sum(item["tokens"] for item in items)
        assert stats["bytes"] == sum(item["bytes"] for item in items)
        for counts, name in (("types", "type"), ("senders", "from")):
            named = [item[name] for item in items]
            wanted = {each: named.count(each) for each in set(named)}
            assert stats[counts] == {"top": wanted, "other": 0}
        assert stats["headroom"] == stats["max_slots"] - len(items)
        assert stats["forks"] == 1
        assert stats["events"] == seq
    fork = (await api.get("/threads/f/stats")).json
    assert fork["slots"] == fork["inherited"]


async def test_names_beyond_the_fiftieth_are_counted_together(
    api: Client, agent: Agent
) -> None:
    items = [{**SLOT, "from": f"a-{n:03}"} for n in range(60)]
    await api.post("/threads/t-1/slots:batch", {"items": items + items[:1]})
    senders = (await api.get("/threads/t-1/stats")).json["senders"]
    assert len(senders["top"]) == 50
    assert senders["top"]["a-000"] == 2
    assert senders["other"] == 10


async def test_projects_sums_say_how_old_they_are(api: Client) -> None:
    stats = (await api.get("/stats")).json
    assert stats["age_seconds"] >= 0
    assert stats["max_threads"] == 100_000
    assert stats["threads"] == {"open": 0, "closed": 0, "retired": 0, "erased": 0}


@pytest.mark.usefixtures("believed")
def test_bound_key_is_told_of_its_own_threads_only(
    api: Client,
    bound: Client,
    agent: Agent,
    ann: Subject,
    django_assert_num_queries: Any,
) -> None:
    nothing = {"open": 0, "closed": 0, "retired": 0, "erased": 0}
    factories.make_thread(agent, "his", user_id="bob")
    factories.append(agent, "his", "a", "b", "c")
    workers.take(timezone.now())
    assert run(api.get("/stats")).json["slots"] == 3
    before = run(bound.get("/stats")).json
    assert (before["threads"], before["slots"], before["bytes"]) == (nothing, 0, 0)
    factories.make_thread(agent, "hers-1", user_id="ann", max_slots=1)
    factories.make_thread(agent, "hers-2", user_id="ann")
    factories.append(agent, "hers-1", "a")
    factories.append(agent, "hers-2", "bb", "cc")
    run(api.post("/threads/hers-2:close", {}))
    # Whether she is still there, her threads, and the limit.
    with django_assert_num_queries(3):
        found = run(bound.get("/stats")).json
    assert found["threads"] == {**nothing, "open": 1, "closed": 1}
    assert (found["slots"], found["bytes"]) == (3, 192)
    assert found["nearly_full_threads"] == 1
    assert (found["age_seconds"], found["max_threads"]) == (0, 100_000)
