"""People whom a write makes, who are named by a header: only where it is accepted."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

from memoryhub.api.http import auth
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from tests.api.client import SLOT, Client, Header
from tests.api.somebodys import WRITES

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

PLACES = {
    "thread": "own",
    "subject": UUID(int=7),
    "page_id": "page",
    "key": "seat",
    "namespace": "trips",
    "checkpoint": "tea",
    "block": "manner",
    "index": 0,
    "turn": 1,
    "fact": 1,
}
#: Of the routes that make a thread of a new name.
MAKING = {
    "put /threads/{thread}",
    "post /threads/{thread}/slots",
    "put /threads/{thread}/pages/{page_id}",
    "put /threads/{thread}/keys/{key}",
    "post /threads/{thread}/notes",
    "post /threads/{thread}/turns",
}


def name_person(person: str) -> Header:
    return (auth.PERSON_HEADER, person)


def count_people() -> int:
    return Subject.objects.filter(subject_ref__isnull=False).count()


async def write_as_strangers(
    api: Client, headers: tuple[Header, ...] = (), bad: Any = None
) -> set[str]:
    """Send each write as another unknown person; return the accepted ones.

    Asserts that each accepted write makes one person, and each refused one nobody.
    """
    accepted = set[str]()
    for number, (label, body) in enumerate(WRITES.items()):
        method, _, path = label.partition(" ")
        target = path.format(**PLACES)
        before = count_people()
        answer = await api.send(
            *(method.upper(), target, bad or body),
            headers=[name_person(f"person-{number}"), *headers],
        )
        assert answer.status < 500, (label, answer.body)
        assert count_people() - before == (answer.status < 300), (label, answer.body)
        accepted |= {label} if answer.status < 300 else set()
    return accepted


async def test_accepted_write_of_each_route_makes_its_person(api: Client) -> None:
    assert await write_as_strangers(api) >= MAKING


@pytest.mark.parametrize("why", ["body", "precondition", "full"])
async def test_refused_write_of_each_route_makes_nobody(
    api: Client, acme: Project, why: str
) -> None:
    api.connect()
    if why == "full":
        Project.objects.filter(id=acme.id).update(max_threads=1, thread_count=1)
    headers = (("if-match", "9"),) if why == "precondition" else ()
    accepted = await write_as_strangers(
        api, headers, bad={"bad": 1} if why == "body" else None
    )
    # Some routes have no precondition.
    assert why == "precondition" or not accepted


async def test_thread_of_a_new_person_may_name_the_person(api: Client) -> None:
    named = [name_person("cleo")]
    made = await api.put("/threads/t", {"user_id": "cleo"}, headers=named)
    other = await api.put("/threads/u", {"user_id": "bob"}, headers=named)
    assert (made.status, other.status, count_people()) == (201, 404, 1)
    again = await api.put("/threads/t", {"user_id": "cleo"}, headers=named)
    assert (again.status, again.json["subject_id"]) == (200, made.json["subject_id"])


@pytest.mark.django_db(transaction=True)
async def test_first_writes_at_once_make_one_person(
    served: tuple[Client, str],
) -> None:
    api, _ = served
    named = [name_person("cleo")]
    answers = await asyncio.gather(
        *(api.post(f"/threads/t-{n}/slots", SLOT, headers=named) for n in range(6)),
        *(api.post("/threads/t-0/slots", SLOT, headers=named) for _ in range(2)),
    )
    assert {answer.status for answer in answers} == {201}
    assert await asyncio.to_thread(count_and_close) == 1
    threads = (await api.get("/threads", headers=named)).json["items"]
    assert sorted(each["slots"] for each in threads) == [1, 1, 1, 1, 1, 3]


def count_and_close() -> int:
    try:
        return count_people()
    finally:
        connections.close_all()
