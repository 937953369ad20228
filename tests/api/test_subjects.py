"""Subjects that a PUT names: made with the thread, or not at all."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from memoryhub.journal import writer
from memoryhub.models import Project, Subject, Thread
from memoryhub.models.keys import SubjectKey
from memoryhub.services.api_keys import Agent
from tests import factories
from tests.api.client import Client

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("taken", "subject_conflict"),
        ("retired", "thread_erased"),
        ("erased", "thread_erased"),
        ("importing", "not_found"),
        ("restricted", "subject_restricted"),
        ("gone", "subject_erased"),
        ("full", "project_full"),
    ],
)
async def test_a_refused_put_makes_no_subject(
    api: Client, agent: Agent, why: str, code: str
) -> None:
    """Nor a key: what is refused leaves nothing behind, as often as it is tried."""
    api.connect()
    thread = factories.make_thread(agent, "t-1", user_id="ann")
    subject = Subject.objects.filter(id=thread.subject_id)
    if why == "restricted":
        subject.update(state="restricted")
    elif why == "gone":
        subject.update(state="erased")
    elif why == "full":
        Project.objects.update(max_threads=1)
    elif why != "taken":
        Thread.objects.update(status=why)
    keys = SubjectKey.objects.using("keys")
    counts = Subject.objects.count(), keys.count()
    for n in range(3):
        name = "t-2" if why == "full" else "t-1"
        refused = await api.put(f"/threads/{name}", {"user_id": f"bob-{n}"})
        assert refused.code == code
    assert (Subject.objects.count(), keys.count()) == counts
    if why in ("retired", "erased", "importing"):
        Thread.objects.update(status="open")


@pytest.mark.django_db(transaction=True)
async def test_new_subjects_wait_for_the_writer_without_a_reader(
    served: tuple[Client, str], settings: Any
) -> None:
    api, _ = served
    assert (await api.put("/threads/t-1")).status == 201
    release = threading.Event()
    writer.put_work(release.wait)
    try:
        puts = [
            asyncio.create_task(api.put(f"/threads/t-{n}", {"user_id": f"u-{n}"}))
            for n in range(2, 2 + 2 * settings.READERS)
        ]
        while writer.waiting < settings.READERS:  # noqa: ASYNC110 # a thread's queue
            await asyncio.sleep(0)
        assert (await asyncio.wait_for(api.get("/threads/t-1"), 10)).status == 200
    finally:
        release.set()
    made = await asyncio.gather(*puts)
    assert {answer.status for answer in made} == {201}
    assert len({answer.json["subject_id"] for answer in made}) == len(made)
