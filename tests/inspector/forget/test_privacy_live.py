"""Open pages while their content is erased."""

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
from tests.cast.sockets import Socket, send_until_closed
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
async def test_erased_content_leaves_the_open_page_which_names_the_proof(
    served: None, session: str, thread: Thread, scope: str
) -> None:
    """The proof is the erasure while it runs, and the receipt from then on."""
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
    assert await send_until_closed(Socket(session), hello(thread)) == 4410
    receipt = await read(Receipt.objects.get)
    head = (await read(heads.list_heads, [thread.id]))[thread.id]
    assert head.proof is not None
    assert (head.proof.erasure, head.proof.receipt) == (row.id, receipt.id)


async def test_open_list_drops_the_erased_thread_and_stays_live(
    other: Thread, served: None, session: str, thread: Thread
) -> None:
    """On a page of several threads the others stay live."""
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


async def test_open_list_shows_viewers_no_restricted_subject(
    other: Thread, served: None, session: str, thread: Thread
) -> None:
    await read(_restrict, thread.subject_id)
    socket = Socket(session)
    await socket.open()
    wanted = {each: (0, ["row"]) for each in (thread.id, other.id)}
    greeted = await socket.hello(wanted)
    assert set(greeted["heads"]) == {str(other.id)}
    await socket.leave()
    assert await send_until_closed(Socket(session), hello(thread)) == 4403
    await read(_unrestrict, thread.subject_id)


def test_thread_list_omits_subjects_being_erased(agent: Agent, acme: Project) -> None:
    for name in ("ann", "bob"):
        forgotten.make_person(agent, name)
    ann = Thread.objects.get(name="ann-1").subject
    viewer = operators.add("vera")
    operators.set_role(acme, operators.ensure_default(), Membership.Role.OWNER)
    operators.set_role(acme, viewer, Membership.Role.VIEWER)
    client = signed_in(viewer)
    assert list_names(client) == {"ann-1", "ann-2", "bob-1", "bob-2"}
    row = forgotten.confirm(forgotten.plan(ann))
    assert row.state == "fenced"
    assert list_names(client) == {"bob-1", "bob-2"}
    forgotten.finish(row)
    assert list_names(client) == {"bob-1", "bob-2"}


def test_restricted_subject_is_listed_for_officers_only(
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
    restrictions.restrict_subject(ann.id, basis="claims", actor=forgotten.CAROL)
    assert list_names(clients["editor"]) == {"bob-1", "bob-2"}
    assert list_names(clients["officer"]) == {"ann-1", "ann-2", "bob-1", "bob-2"}
    overview = clients["editor"].get("/p/acme/").content.decode()
    assert "bob-1" in overview
    assert "ann-1" not in overview
    restrictions.unrestrict_subject(ann.id, actor=forgotten.CAROL)
    assert list_names(clients["editor"]) == {"ann-1", "ann-2", "bob-1", "bob-2"}


def list_names(client: Client) -> set[str]:
    listed = client.get("/p/acme/threads.json").json()["items"]
    return {each["thread"] for each in listed}


def _restrict(subject: UUID) -> Subject:
    return restrictions.restrict_subject(subject, basis="claims", actor=forgotten.CAROL)


def _unrestrict(subject: UUID) -> Subject:
    return restrictions.unrestrict_subject(subject, actor=forgotten.CAROL)
