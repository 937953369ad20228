"""Many requests at once, through the real writer and readers."""

from __future__ import annotations

import asyncio

import pytest
from django.db import connections

from tests.api.client import Client
from tests.cast import factories


@pytest.mark.promise("P6", load="a key 50 times at once")
@pytest.mark.django_db(transaction=True)
async def test_idempotency_key_used_fifty_times_at_once_has_one_effect(
    served: tuple[Client, str],
) -> None:
    api, _ = served
    named = [("idempotency-key", "k")]
    body = {"from": "a", "to": "b", "type": "x.y", "content": 1}
    answers = await asyncio.gather(
        *(api.post("/threads/t-1/slots", body, headers=named) for _ in range(50))
    )
    assert {answer.body for answer in answers} == {answers[0].body}
    assert answers[0].status == 201
    assert (await api.get("/threads/t-1")).json["slots"] == 1


@pytest.mark.promise("P12", load="200 interleaved reads in 20 projects")
@pytest.mark.django_db(transaction=True)
async def test_request_scope_never_leaks_across_tasks(
    served: tuple[Client, str],
) -> None:
    """Requests of many projects interleave: each sees its own thread only."""
    made = await asyncio.to_thread(_projects)
    clients = {slug: Client(key=key) for slug, key in made.items()}
    for slug, client in clients.items():
        await client.append("t-1", slug)

    async def ask(slug: str) -> None:
        read = await clients[slug].get("/threads/t-1/slots/0")
        assert read.json["content"] == slug

    await asyncio.gather(*(ask(slug) for slug in clients for _ in range(10)))


def _projects() -> dict[str, str]:
    made = {
        f"p-{n}": factories.make_key(factories.make_project(f"p-{n}"))[1]
        for n in range(20)
    }
    connections.close_all()
    return made


@pytest.mark.django_db(transaction=True)
async def test_subject_asked_for_by_many_at_once_is_one(
    served: tuple[Client, str],
) -> None:
    api, _ = served
    answers = await asyncio.gather(
        *(api.put(f"/threads/t-{n}", {"user_id": "ann"}) for n in range(12))
    )
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json["subject_id"] for answer in answers}) == 1
