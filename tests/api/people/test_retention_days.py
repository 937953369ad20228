"""Retention of threads, as an agent may set it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from memoryhub.models.projects import Project
from memoryhub.services.access import projects
from tests.api.client import Client

pytestmark = pytest.mark.django_db(transaction=True)


async def test_agent_keeps_nothing_for_less_than_its_project(
    api: Client, acme: Project
) -> None:
    """With a short retention an agent could be talked into erasing threads."""

    async def send_days(days: int | None) -> list[int]:
        body = {"config": {"retention_idle_days": days}}
        fresh = uuid4().hex
        fork = {"thread": f"{fresh}.fork", **body}
        answers = [
            await api.put(f"/threads/{fresh}", body),
            await api.patch("/threads/t-1", body),
            await api.post("/threads/t-1:fork", fork),
        ]
        return [each.status for each in answers]

    await api.put("/threads/t-1")
    refused, taken = [422] * 3, [201, 200, 201]
    assert await send_days(36_500) == refused
    projects.set_retention(acme, idle_days=30)
    assert await send_days(29) == refused
    assert [await send_days(days) for days in (30, 31, None)] == [taken] * 3
    # A thread that is there keeps its days, whatever the next PUT says.
    projects.set_retention(acme, idle_days=None)
    again = {"config": {"retention_idle_days": 30}}
    assert (await api.put("/threads/t-1", again)).status == 200
    now = await api.get("/threads/t-1")
    assert now.json["config"]["retention_idle_days"] is None


async def test_refusal_names_the_field_and_the_least(
    api: Client, acme: Project
) -> None:
    projects.set_retention(acme, idle_days=30)
    body = {"config": {"retention_idle_days": 1}}
    answer = await api.put("/threads/t-1", body)
    assert (answer.status, answer.code) == (422, "value")
    (error,) = answer.json["errors"]
    assert error["loc"][-2:] == ["config", "retention_idle_days"]
    assert (await api.get("/threads/t-1")).status == 404
