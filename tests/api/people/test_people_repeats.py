"""Idempotency-Keys on the routes about people: one effect, and nothing kept of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest
import time_machine
from django.utils import timezone

from memoryhub.api.http import auth
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Membership
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.events import RequestKey
from memoryhub.models.keys import SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.people import holds, subjects
from tests.api.client import Answer, Client
from tests.cast import factories, forgetting, graves

pytestmark = pytest.mark.django_db

WHOLE = {"scope": "subject", "reason": "test"}
BASIS = {"basis": "claims"}
REPLAYED = "idempotent-replayed"


@pytest.fixture
def officer(acme: Project) -> Client:
    return Client(key=factories.make_key(acme, scopes=["subject:forget"])[1])


@pytest.fixture
def messages(agent: Agent, ann: Subject) -> None:
    for user_id in ("ann", "bob"):
        factories.append(agent, f"{user_id}-1", "I would like seat 12A.")
        factories.make_thread(agent, f"{user_id}-2", user_id=user_id)
        factories.append(agent, f"{user_id}-2", "And a meal.")


async def post(client: Client, path: str, body: object, key: str = "k-1") -> Answer:
    return await client.post(path, body, headers=[("idempotency-key", key)])


async def twice(client: Client, path: str, body: object, key: str = "k-1") -> Any:
    """Post twice and return the answer; the second must be a replay without a write."""
    first, second = [await post(client, path, body, key) for _ in range(2)]
    assert (first.header(REPLAYED), second.header(REPLAYED)) == (None, "true")
    assert (first.status, first.json) == (second.status, second.json)
    assert RequestKey.objects.filter(thread=None).count() == 1
    return first.json


def count_changes(action: str) -> int:
    return AuditEntry.objects.filter(action=action).count()


async def test_restriction_that_was_lifted_is_not_put_back_by_a_repeat(
    officer: Client, ann: Subject
) -> None:
    path = f"/subjects/{ann.id}"
    await twice(officer, f"{path}:restrict", BASIS)
    assert (await officer.post(f"{path}:unrestrict", {})).json["state"] == "active"
    late = await post(officer, f"{path}:restrict", BASIS)
    assert (late.status, late.json["state"]) == (200, "active")
    assert late.header(REPLAYED) == "true"
    assert count_changes("subject.restricted") == 1


async def test_lifted_restriction_is_not_lifted_again_by_a_repeat(
    officer: Client, ann: Subject
) -> None:
    path = f"/subjects/{ann.id}"
    await officer.post(f"{path}:restrict", BASIS)
    await twice(officer, f"{path}:unrestrict", {})
    await officer.post(f"{path}:restrict", BASIS)
    late = await post(officer, f"{path}:unrestrict", {})
    assert late.json["state"] == "restricted"
    assert count_changes("subject.unrestricted") == 1


async def test_erasure_plan_is_made_once(
    officer: Client, ann: Subject, messages: None
) -> None:
    """Without a key the repeat is refused as in progress; with one it gets the plan."""
    path = f"/subjects/{ann.id}/erasures"
    made = await twice(officer, path, WHOLE)
    assert Erasure.objects.count() == 1
    assert (await officer.post(path, WHOLE)).code == "erasure_in_progress"
    body = {"plan_token": made["plan_token"], "count": made["count"]}
    done = await officer.post(f"/erasures/{made['id']}:confirm", body)
    assert (done.status, done.json["state"]) == (202, "fenced"), done.body


async def test_confirmation_and_cancellation_have_one_effect(
    officer: Client, ann: Subject, messages: None
) -> None:
    path = f"/subjects/{ann.id}/erasures"
    made = (await officer.post(path, WHOLE)).json
    await twice(officer, f"/erasures/{made['id']}:cancel", {})
    RequestKey.objects.all().delete()
    made = (await officer.post(path, WHOLE)).json
    body = {"plan_token": made["plan_token"], "count": made["count"]}
    await twice(officer, f"/erasures/{made['id']}:confirm", body)
    wrong = {**body, "count": made["count"] + 1}
    other = await post(officer, f"/erasures/{made['id']}:confirm", wrong)
    assert (other.status, other.code) == (422, "idempotency_mismatch")


async def test_confirmation_of_a_held_erasure_is_repeatable(
    officer: Client, acme: Project, ann: Subject, messages: None
) -> None:
    made = (await officer.post(f"/subjects/{ann.id}/erasures", WHOLE)).json
    vera = operators.add("vera")
    operators.set_role(acme, vera, Membership.Role.OFFICER)
    holds.open_hold(
        ann,
        basis="legal_claims",
        reviewer=vera,
        expires_at=timezone.now() + timedelta(days=1),
        actor="command",
    )
    body = {"plan_token": made["plan_token"], "count": made["count"]}
    held = await twice(officer, f"/erasures/{made['id']}:confirm", body)
    assert held["state"] == "held"


async def test_refused_request_can_be_sent_again(
    officer: Client, ann: Subject, messages: None
) -> None:
    made = (await officer.post(f"/subjects/{ann.id}/erasures", WHOLE)).json
    body = {"plan_token": made["plan_token"], "count": made["count"] + 1}
    path = f"/erasures/{made['id']}:confirm"
    refused = await post(officer, path, body)
    assert (refused.status, refused.code) == (409, "count_mismatch")
    assert not RequestKey.objects.exists()
    done = await post(officer, path, {**body, "count": made["count"]})
    assert done.status == 202


@pytest.mark.no_replay
async def test_readmission_repeated_makes_one_person(
    officer: Client, ann: Subject
) -> None:
    officer.connect()
    graves.bury_subject(ann)
    keys = SubjectKey.objects.using("keys").count()
    made = await twice(officer, "/subjects:readmit", {"user_id": "ann"})
    assert made["generation"] == 2
    assert SubjectKey.objects.using("keys").count() == keys + 1
    assert count_changes("subject.readmitted") == 1
    later = await officer.post("/subjects:readmit", {"user_id": "ann"})
    assert later.code == "not_erased"


async def test_key_that_was_used_elsewhere_writes_nothing(
    api: Client, officer: Client, acme: Project, ann: Subject, messages: None
) -> None:
    """Either use may come first: one about a thread, or one about a person."""
    api.connect()
    bob = subjects.find_or_create(acme.id, "bob")
    restrict, close = f"/subjects/{ann.id}:restrict", "/threads/bob-2:close"
    assert (await post(officer, restrict, BASIS, "k-1")).status == 200
    assert (await post(api, close, {"reason": "completed"}, "k-2")).status == 200
    for client, path, body, key in (
        (officer, restrict, {"basis": "accuracy_contested"}, "k-1"),
        (officer, f"/subjects/{bob.id}:restrict", BASIS, "k-1"),
        (officer, f"/subjects/{ann.id}/erasures", WHOLE, "k-1"),
        (api, "/threads/bob-2:reopen", {}, "k-1"),
        (officer, f"/subjects/{bob.id}:restrict", BASIS, "k-2"),
        (officer, "/subjects:readmit", {"user_id": "ann"}, "k-2"),
    ):
        refused = await post(client, path, body, key)
        assert (refused.status, refused.code) == (422, "idempotency_mismatch"), path
    bob.refresh_from_db()
    assert (bob.state, Erasure.objects.count()) == ("active", 0)
    assert factories.get_thread(factories.make_agent(acme), "bob-2").status == "closed"


async def test_idempotency_keys_of_another_subjects_key_are_separate(
    acme: Project, officer: Client, ann: Subject
) -> None:
    officer.connect()
    scopes = ["subject:forget"]
    bound = Client(key=factories.make_key(acme, scopes=scopes, subject=ann)[1])
    path = f"/subjects/{ann.id}:restrict"
    for client in (officer, bound):
        done = await post(client, path, BASIS)
        assert (done.status, done.header(REPLAYED)) == (200, None)
    assert RequestKey.objects.count() == 2


@pytest.mark.parametrize("key", ["", "k" * 256, "k 1", "ké"])
async def test_row_83_a_key_is_visible_ascii(
    officer: Client, ann: Subject, key: str
) -> None:
    for path, body in (
        (f"/subjects/{ann.id}:restrict", BASIS),
        (f"/subjects/{ann.id}/erasures", WHOLE),
        ("/subjects:readmit", {"user_id": "ann"}),
    ):
        refused = await post(officer, path, body, key)
        assert refused.status == 422
        assert refused.json["errors"][0]["code"] == "idempotency_key"
    assert not Erasure.objects.exists()


async def test_key_means_nothing_any_more_after_a_day(
    officer: Client, ann: Subject
) -> None:
    path = f"/subjects/{ann.id}"
    await post(officer, f"{path}:restrict", BASIS)
    await officer.post(f"{path}:unrestrict", {})
    with time_machine.travel(timezone.now() + timedelta(hours=24, seconds=1)):
        auth.forget()
        again = await post(officer, f"{path}:restrict", BASIS)
        assert (again.header(REPLAYED), again.json["state"]) == (None, "restricted")
    assert RequestKey.objects.count() == 1


async def test_stored_request_holds_nothing_personal(
    officer: Client, ann: Subject, messages: None
) -> None:
    body = {**WHOLE, "scope": "thread", "thread": "ann-2", "ticket": "LEGAL-42"}
    made = await post(officer, f"/subjects/{ann.id}/erasures", body, "for-ann")
    assert made.status == 201, made.body
    ((row),) = RequestKey.objects.filter(thread=None).values()
    stored = b"".join(
        bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
        for value in row.values()
    )
    for text in ("ann-2", "for-ann", "LEGAL-42", made.json["plan_token"]):
        assert text.encode() not in stored


@pytest.mark.django_db(transaction=True)
async def test_idempotency_rows_of_a_subject_are_erased_with_her(
    officer: Client, api: Client, ann: Subject, messages: None
) -> None:
    """Rows are counted and proved; other people keep theirs. Repeats get a 410."""
    api.connect()
    bob = subjects.find_or_create(ann.project_id, "bob")
    await post(officer, f"/subjects/{bob.id}:restrict", BASIS, "bobs")
    path = f"/subjects/{ann.id}"
    await post(officer, f"{path}:restrict", BASIS, "k-0")
    made = (await post(officer, f"{path}/erasures", WHOLE, "k-1")).json
    body = {"plan_token": made["plan_token"], "count": made["count"]}
    confirm = f"/erasures/{made['id']}:confirm"
    assert (await post(officer, confirm, body, "k-2")).status == 202
    assert RequestKey.objects.filter(subject=ann).count() == 3
    done = forgetting.finish(Erasure.objects.get(id=made["id"]))
    assert (done.state, done.waiting_on) == ("complete", "")
    assert [row.subject_id for row in RequestKey.objects.all()] == [bob.id]
    receipt = orjson.loads(Receipt.objects.get(erasure=done, n=0).text)
    assert receipt["erased"]["request_keys"]["count"] == 3
    again = await post(officer, confirm, body, "k-2")
    assert (again.status, again.json["state"]) == (202, "complete")
    for repeat, fields, key in (
        (f"{path}:restrict", BASIS, "k-0"),
        (f"{path}/erasures", WHOLE, "k-1"),
    ):
        gone = await post(officer, repeat, fields, key)
        assert (gone.status, gone.code) == (410, "subject_erased")
    assert RequestKey.objects.count() == 1
    assert erasures.close_due() == 0


@pytest.mark.django_db(transaction=True)
async def test_concurrent_repeats_have_one_effect(served: tuple[Client, str]) -> None:
    """The others are told the result, or that the request is under way."""
    project = Project.objects.get(slug="acme")
    officer = Client(key=factories.make_key(project, scopes=["subject:forget"])[1])
    subject: UUID = subjects.find_or_create(project.id, "ann").id
    path = f"/subjects/{subject}:restrict"
    answers = await asyncio.gather(*[post(officer, path, BASIS) for _ in range(20)])
    fresh = [each for each in answers if each.status == 200]
    assert [each.header(REPLAYED) for each in fresh].count(None) == 1
    assert {each.code for each in answers if each.status != 200} <= {"in_progress"}
    assert count_changes("subject.restricted") == 1
    assert (await post(officer, path, BASIS)).header(REPLAYED) == "true"
