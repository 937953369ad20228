"""Pages that are open while what they show is erased."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.test import Client

from inspector import BUILD
from inspector.live.hub import hub
from memoryhub.models.access.operators import Membership
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.readers import read
from memoryhub.queries.verify import heads
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import restrictions
from tests.cast import factories
from tests.cast.sockets import Socket, refused
from tests.inspector import forgotten
from tests.inspector.conftest import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
HEAD = ["head"]


@pytest.fixture
def other(agent: Agent) -> Thread:
    return factories.make_thread(agent, "other", user_id="zoe")


def hello(thread: Thread) -> dict[str, object]:
    want = [{"thread": str(thread.id), "panels": HEAD, "seq": 0}]
    return {"t": "hello", "v": 1, "build": BUILD, "want": want}


def forget(thread: Thread, scope: str) -> Erasure:
    more = {"thread": thread} if scope == "thread" else {}
    return forgotten.confirm(forgotten.plan(thread.subject, scope=scope, **more))


@pytest.mark.parametrize("scope", ["subject", "thread"])
async def test_content_leaves_the_page_and_the_proof_is_named(
    served: None, session: str, thread: Thread, scope: str
) -> None:
    """By the erasure while it goes on, by the receipt from then on."""
    socket = Socket(session)
    await socket.open()
    await socket.hello({thread.id: (0, HEAD)})
    row = await read(forget, thread, scope)
    done = await read(forgotten.finish, row)
    assert done.state == "complete"
    await hub.look()
    gone = await socket.control("gone")
    assert gone["thread"] == str(thread.id)
    assert gone["code"] in {"subject_erased", "thread_erased"}
    assert gone["erasure"] == str(row.id)
    assert hub.audience.watches[thread.id].panels == {}
    await socket.leave()
    assert await refused(Socket(session), hello(thread)) == 4410
    receipt = await read(Receipt.objects.get)
    head = (await read(heads.list_heads, [thread.id]))[thread.id]
    assert head.proof is not None
    assert (head.proof.erasure, head.proof.receipt) == (row.id, receipt.id)


async def test_a_list_goes_on_without_what_was_erased(
    other: Thread, served: None, session: str, thread: Thread
) -> None:
    """Of a page that shows several threads the others stay live."""
    await read(forgotten.finish, await read(forget, thread, "thread"))
    socket = Socket(session)
    await socket.open()
    wanted: dict[UUID, tuple[int, list[str]]] = {
        each: (0, ["row"]) for each in (thread.id, other.id)
    }
    greeted = await socket.hello(wanted)
    assert set(greeted["heads"]) == {str(other.id)}
    assert str(other.id) in await socket.push()
    await socket.leave()


async def test_a_list_shows_a_viewer_nothing_of_who_is_restricted(
    other: Thread, served: None, session: str, thread: Thread
) -> None:
    await read(_restrict, thread.subject_id)
    socket = Socket(session)
    await socket.open()
    wanted = {each: (0, ["row"]) for each in (thread.id, other.id)}
    greeted = await socket.hello(wanted)
    assert set(greeted["heads"]) == {str(other.id)}
    await socket.leave()
    assert await refused(Socket(session), hello(thread)) == 4403
    await read(_unrestrict, thread.subject_id)


def test_a_list_of_threads_has_nobody_who_is_being_erased(
    agent: Agent, acme: Project
) -> None:
    for name in ("ann", "bob"):
        forgotten.make_person(agent, name)
    ann = Thread.objects.get(name="ann-1").subject
    viewer = operators.add("vera")
    operators.set_role(acme, operators.ensure_default(), Membership.Role.OWNER)
    operators.set_role(acme, viewer, Membership.Role.VIEWER)
    client = signed_in(viewer)
    assert names(client) == {"ann-1", "ann-2", "bob-1", "bob-2"}
    row = forgotten.confirm(forgotten.plan(ann))
    assert row.state == "fenced"
    assert names(client) == {"bob-1", "bob-2"}
    forgotten.finish(row)
    assert names(client) == {"bob-1", "bob-2"}


def test_who_is_restricted_is_in_an_officers_list_alone(
    agent: Agent, acme: Project
) -> None:
    for name in ("ann", "bob"):
        forgotten.make_person(agent, name)
    ann = Thread.objects.get(name="ann-1").subject
    clients = {}
    operators.set_role(acme, operators.ensure_default(), Membership.Role.OWNER)
    for role in ("editor", "officer"):
        operator = operators.add(role)
        operators.set_role(acme, operator, role)
        clients[role] = signed_in(operator)
    restrictions.restrict(ann.id, basis="claims", actor=forgotten.CAROL)
    assert names(clients["editor"]) == {"bob-1", "bob-2"}
    assert names(clients["officer"]) == {"ann-1", "ann-2", "bob-1", "bob-2"}
    overview = clients["editor"].get("/p/acme/").content.decode()
    assert "bob-1" in overview
    assert "ann-1" not in overview
    restrictions.unrestrict(ann.id, actor=forgotten.CAROL)
    assert names(clients["editor"]) == {"ann-1", "ann-2", "bob-1", "bob-2"}


def names(client: Client) -> set[str]:
    listed = client.get("/p/acme/threads.json").json()["items"]
    return {each["thread"] for each in listed}


def _restrict(subject: UUID) -> Subject:
    return restrictions.restrict(subject, basis="claims", actor=forgotten.CAROL)


def _unrestrict(subject: UUID) -> Subject:
    return restrictions.unrestrict(subject, actor=forgotten.CAROL)
