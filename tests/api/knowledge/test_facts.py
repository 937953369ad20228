"""Facts on the wire: two addresses, two clocks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.api.client import SLOT, Client
from tests.cast import factories, forgetting

pytestmark = pytest.mark.django_db
FACT: dict[str, Any] = {"entity": "user", "predicate": "home airport", "value": "OSL"}
FROM, UNTIL = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    factories.append(agent, "visit", "I moved.")
    return forgetting.get_subject(agent, "ann")


async def test_fact_by_a_thread_is_the_subjects(api: Client, ann: Subject) -> None:
    sent = {**FACT, "valid_from": FROM, "source": {"thread": "visit", "seq": 2}}
    made = await api.post("/threads/visit/facts", sent)
    assert made.status == 201
    assert made.json == {
        "subject": str(ann.id),
        "seq": 2,
        "ids": [2],
        "without_effect": [],
    }
    by_id = await api.get(f"/subjects/{ann.id}/facts")
    assert by_id.json == (await api.get("/threads/visit/facts")).json
    (fact,) = by_id.json["items"]
    assert fact["sources"] == [{"thread": "visit", "seq": 2}]
    ended = await api.post(f"/subjects/{ann.id}/facts/2:end", {"at": UNTIL})
    assert ended.json["ids"] == [3]
    of_past = f"/subjects/{ann.id}/facts?valid_at=2026-01-15T00:00:00Z"
    assert len((await api.get(of_past)).json["items"]) == 1
    assert (await api.get(f"/subjects/{ann.id}/facts")).json["items"] == []
    story = (await api.get(f"/subjects/{ann.id}/facts/2")).json
    assert story["rests_on"] == [2, 3]
    assert story["fact"]["closed_by"] == 3
    loaded = (await api.get(f"/subjects/{ann.id}/memory")).json
    assert (loaded["facts"], loaded["counts"]["assertions"]) == ([], 2)


async def test_repeated_assertion_has_one_effect(api: Client, ann: Subject) -> None:
    for n in range(2):
        named = [("Idempotency-Key", "k")]
        again = await api.post("/threads/visit/facts", FACT, headers=named)
        assert again.json["ids"] == [2], n
    assert (await api.get("/threads/visit/facts")).json["items"][0][
        "confirmations"
    ] == 1


async def test_repeat_is_answered_though_its_fact_is_gone(
    api: Client, ann: Subject
) -> None:
    await api.post("/threads/visit/facts", FACT)
    named = [("Idempotency-Key", "k")]
    path, body = f"/subjects/{ann.id}/facts/2:retract", {"reason": "wrong"}
    first = await api.post(path, body, headers=named)
    again = await api.post(path, body, headers=named)
    assert (again.status, again.json) == (200, first.json)
    assert (await api.post(path, body)).status == 404


async def test_model_is_told_that_its_claim_has_no_effect(
    api: Client, ann: Subject
) -> None:
    """The claim was retracted as wrong; an agent's claims and others still count."""
    await api.post("/threads/visit/facts", FACT)
    await api.post(f"/subjects/{ann.id}/facts/2:retract", {"reason": "wrong"})
    named, by_model = [("Idempotency-Key", "k")], {**FACT, "origin": "model"}
    taken_back = {"reason": "wrong", "whole": False}
    items = [by_model, {**by_model, "value": "BGO"}, {**by_model, "entity": "Bo"}, FACT]
    for _ in range(2):
        made = await api.post(
            "/threads/visit/facts:batch", {"items": items}, headers=named
        )
        assert (made.status, made.json["ids"]) == (201, [4, 5, 6, 7])
        assert made.json["without_effect"] == [4]
        # A repeat is answered as the first time, whatever happened since.
        await api.post(f"/subjects/{ann.id}/facts/5:retract", taken_back)
    story = (await api.get(f"/subjects/{ann.id}/facts/7")).json
    counting = [each["seq"] for each in story["assertions"] if each["counts"]]
    assert counting == [7]


async def test_fact_lists_continue_where_they_stopped(
    api: Client, ann: Subject
) -> None:
    items = [{**FACT, "predicate": "likes", "value": str(n)} for n in range(7)]
    items += [{**FACT, "predicate": f"p {n}", "value": "x"} for n in range(4)]
    await api.post("/threads/visit/facts:batch", {"items": items})
    whole = (await api.get("/threads/visit/facts?limit=200")).json["items"]
    assert len(whole) == 11
    found, after = [], ""
    while True:
        part = (await api.get(f"/threads/visit/facts?limit=2{after}")).json
        found += part["items"]
        if part["next"] is None:
            break
        after = f"&after={part['next']}"
    assert found == whole
    search = {"predicate": "LIKES", "limit": 5}
    liked = (await api.post(f"/subjects/{ann.id}/facts:search", search)).json
    assert len(liked["items"]) == 5
    rest = {**search, "after": liked["next"]}
    rest = (await api.post(f"/subjects/{ann.id}/facts:search", rest)).json
    assert len(rest["items"]) == 2


async def test_bound_key_reads_its_own_names(bound: Client, ann: Subject) -> None:
    await bound.post("/threads/mine/slots", SLOT)
    sent = {**FACT, "source": {"thread": "mine", "seq": 2}}
    assert (await bound.post("/threads/mine/facts", sent)).status == 201
    (fact,) = (await bound.get(f"/subjects/{ann.id}/facts")).json["items"]
    assert fact["sources"] == [{"thread": "mine", "seq": 2}]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("entity", " ", "value"),
        ("predicate", "a\u0007b", "value"),
        ("predicate", "x" * 129, "value"),
        ("value", "", "value"),
        ("value", "x" * 4_097, "value"),
        ("value", {"a": 1}, "type"),
        ("confidence", 1.5, "value"),
        ("confidence", "0.9", "type"),
        ("valid_from", "2026-01-01T00:00:00", "time"),
        ("valid_until", FROM, "value"),
        ("source", {"thread": "visit", "seq": 99}, "unknown_source"),
        ("source", {"thread": "nowhere", "seq": 2}, "unknown_source"),
        ("origin", "operator", "value"),
        ("colour", "red", "extra_field"),
    ],
)
async def test_bad_facts_are_refused(
    api: Client, ann: Subject, field: str, value: object, code: str
) -> None:
    sent = {**FACT, "valid_from": FROM, field: value}
    refused = await api.post("/threads/visit/facts", sent)
    assert refused.status == 422
    assert code in {each["code"] for each in refused.json["errors"]}
    assert not Thread.objects.filter(home=True).exists()


async def test_malformed_fact_queries_are_refused(api: Client, ann: Subject) -> None:
    at = f"/subjects/{ann.id}/facts"
    for query in ("limit=0", "limit=201", "valid_at=2026-01-01", "ended=yes", "x=1"):
        assert (await api.get(f"{at}?{query}")).status == 422, query
    assert (await api.get(f"{at}/7")).status == 404
    assert (await api.post(f"{at}/7:end", {"at": FROM})).status == 404
    assert (await api.post(f"{at}/7:retract", {"reason": "bored"})).status == 422
    many = {"entity": "u", "predicate": "p", "cardinality": "few"}
    assert (await api.post(f"{at}:configure", many)).status == 422
