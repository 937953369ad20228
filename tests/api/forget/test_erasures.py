from __future__ import annotations

from typing import Any
from uuid import UUID, uuid1, uuid4

import pytest

from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures, receipts
from tests.api.client import Client
from tests.cast import factories, graves

pytestmark = pytest.mark.django_db

FORGET = ["subject:forget"]
WHOLE = {"scope": "subject", "reason": "test"}
#: Result of a complete scan.
LOOKED = (
    '{"scanner":"1","self_test":"passed","surfaces":["database"],"needles":{},'
    '"hits":[],"undeclared":0,"unreachable":[]}'
)


@pytest.fixture
def forgetter(acme: Project) -> Client:
    return Client(key=factories.make_key(acme, scopes=FORGET)[1])


@pytest.fixture
def threads(agent: Agent, ann: Subject) -> None:
    """Make the subject's threads, and another's, which must all stay."""
    for user_id in ("ann", "bob"):
        name = f"{user_id}-1"
        factories.make_thread(agent, name, user_id=user_id)
        factories.append(agent, name, "I would like seat 12A.", "And a meal.")


async def plan(client: Client, subject: object, **more: Any) -> Any:
    body = {**WHOLE, **more}
    return await client.post(f"/subjects/{subject}/erasures", body)


async def confirm(client: Client, made: Any, **other: Any) -> Any:
    body = {"plan_token": made["plan_token"], "count": made["count"], **other}
    return await client.post(f"/erasures/{made['id']}:confirm", body)


async def test_confirmed_erasure_hides_everything_at_once(
    forgetter: Client, api: Client, ann: Subject, threads: None
) -> None:
    made = await plan(forgetter, ann.id, ticket="LEGAL-42")
    assert made.status == 201, made.body
    planned = made.json
    assert (planned["state"], planned["scope"]) == ("planned", "subject")
    assert planned["count"] == sum(place["erase"] for place in planned["places"]) > 0
    assert (await api.get("/threads/ann-1/slots/0")).status == 200
    done = await confirm(forgetter, planned)
    assert (done.status, done.json["state"]) == (202, "fenced"), done.body
    gone = await api.get("/threads/ann-1/slots/0")
    assert (gone.status, gone.code) == (410, "subject_erased")
    assert (await api.get("/threads/bob-1/slots/0")).status == 200
    read = await forgetter.get(f"/erasures/{planned['id']}")
    assert read.json == done.json
    early = await forgetter.get(f"/erasures/{planned['id']}/receipt")
    assert (early.status, early.code) == (409, "not_complete")
    early = await forgetter.get(f"/erasures/{planned['id']}/addenda")
    assert (early.status, early.code) == (409, "not_complete")


@pytest.mark.parametrize(
    ("named", "clock"), [("before", "occurred"), ("recorded_before", "recorded")]
)
async def test_plan_names_its_clock(
    forgetter: Client, ann: Subject, threads: None, named: str, clock: str
) -> None:
    fields = {"scope": "before", named: "2020-01-01T00:00:00Z", "thread": "ann-1"}
    made = await plan(forgetter, ann.id, **fields)
    assert (made.status, made.json["clock"]) == (201, clock), made.body
    assert made.json["before"] == "2020-01-01T00:00:00+00:00"


def _forms(row: UUID) -> list[str]:
    """Return other spellings of an id, which the API does not accept."""
    text = str(row)
    forms = [text.upper(), row.hex, f"{{{text}}}", f"urn:uuid:{text}", f"{text}0"]
    return [*forms, "9" * 5_000, str(UUID(int=0)), str(uuid1())]


async def test_erasure_id_is_accepted_in_one_spelling(
    forgetter: Client, ann: Subject, threads: None
) -> None:
    """Row 59 of the bad inputs: another spelling is answered like an absent id."""
    made = UUID((await plan(forgetter, ann.id)).json["id"])
    absent = await forgetter.get(f"/erasures/{uuid4()}")
    assert absent.status == 404
    for form in _forms(made):
        answer = await forgetter.get(f"/erasures/{form}")
        assert answer.comparable == absent.comparable, form
        assert (await plan(forgetter, form)).status == 404, form
    for form in _forms(ann.id):
        assert (await plan(forgetter, form)).status == 404, form


async def test_stale_plan_is_answered_with_the_new_one(
    forgetter: Client, agent: Agent, ann: Subject, threads: None
) -> None:
    made = (await plan(forgetter, ann.id)).json
    forgetter.connect()
    factories.append(agent, "ann-1", "One thing more.")
    stale = await confirm(forgetter, made)
    assert (stale.status, stale.code) == (409, "plan_stale")
    fresh = stale.json["plan"]
    assert fresh["id"] == made["id"]
    assert fresh["count"] > made["count"]
    assert (await confirm(forgetter, fresh)).status == 202


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"scope": None}, "value"),
        ({"scope": "all"}, "value"),
        ({"scope": "*"}, "value"),
        ({"reason": "she wrote to us"}, "value"),
        ({"ticket": "x y"}, "value"),
        ({"ticket": "ann@example.com"}, "value"),
        ({"scope": "before"}, "missing"),
        ({"scope": "before", "before": "2190-01-01T00:00:00Z"}, "time_range"),
        ({"scope": "before", "before": "1969-12-31T23:59:59Z"}, "time_range"),
        ({"scope": "before", "before": "2020-01-01T00:00:00"}, "time"),
        ({"scope": "before", "recorded_before": "2190-01-01T00:00:00Z"}, "time_range"),
        (
            {
                "scope": "before",
                "before": "2020-01-01T00:00:00Z",
                "recorded_before": "2020-01-01T00:00:00Z",
            },
            "value",
        ),
        ({"recorded_before": "2020-01-01T00:00:00Z"}, "value"),
        ({"scope": "thread", "thread": "ann-1", "before": "2020-01-01T00:00Z"}, None),
        ({"scope": "thread"}, "missing"),
        ({"scope": "record", "thread": "ann-1"}, "missing"),
        ({"scope": "record", "record": 1}, "missing"),
        ({"scope": "record", "thread": "ann-1", "record": 0}, "value"),
        ({"user_id": "ann"}, "extra_field"),
        ({"before": "2020-01-01T00:00:00Z"}, "value"),
    ],
)
async def test_bad_plans_are_refused(
    forgetter: Client, ann: Subject, threads: None, fields: Any, code: str | None
) -> None:
    answer = await plan(forgetter, ann.id, **fields)
    assert answer.status == 422, answer.body
    assert code is None or answer.code == code
    forgetter.connect()
    assert not Erasure.objects.exists()


async def test_unknown_threads_and_records_are_not_found(
    forgetter: Client, ann: Subject, threads: None
) -> None:
    for fields in (
        {"scope": "thread", "thread": "bob-1"},
        {"scope": "thread", "thread": "no-such"},
        {"scope": "record", "thread": "ann-1", "record": 10**6},
    ):
        answer = await plan(forgetter, ann.id, **fields)
        assert answer.status == 404, answer.body


async def test_erasure_key_has_a_budget(
    forgetter: Client,
    ann: Subject,
    threads: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(erasures, "A_DAY", 0)
    made = (await plan(forgetter, ann.id)).json
    refused = await confirm(forgetter, made)
    assert (refused.status, refused.code) == (429, "forget_budget")
    assert int(refused.header("retry-after") or 0) > 0
    monkeypatch.undo()
    assert (await confirm(forgetter, made)).status == 202


async def test_erasures_are_listed_newest_first(
    forgetter: Client, ann: Subject, threads: None
) -> None:
    first = (await plan(forgetter, ann.id)).json["id"]
    await forgetter.post(f"/erasures/{first}:cancel", {})
    second = (await plan(forgetter, ann.id)).json["id"]
    listed = (await forgetter.get("/erasures?limit=1")).json
    assert [each["id"] for each in listed["items"]] == [second]
    rest = (await forgetter.get(f"/erasures?limit=1&after={listed['next']}")).json
    assert [each["id"] for each in rest["items"]] == [first]
    assert rest["next"] is None
    kept = (await forgetter.get("/erasures?state=planned")).json["items"]
    assert [each["id"] for each in kept] == [second]
    other = await forgetter.get(f"/erasures?state=planned&after={listed['next']}")
    assert (other.status, other.code) == (400, "bad_cursor")


async def test_erasure_addenda_are_listed_and_verify(
    forgetter: Client, ann: Subject
) -> None:
    forgetter.connect()
    row = graves.make_erasure(ann, scope="record", verification=LOOKED)
    receipt = receipts.issue_receipt(row)
    path = f"/erasures/{row.id}"
    assert (await forgetter.get(f"{path}/addenda")).json == {"items": []}
    before = (await forgetter.get(f"{path}/receipt")).body
    for what, numbers in (("rewritten", {}), ("scanned", {"bytes": 412})):
        receipts.add_addendum(row, what, numbers)
    addenda = (await forgetter.get(f"{path}/addenda")).json["items"]
    assert [each["what"] for each in addenda] == ["rewritten", "scanned"]
    assert {each["to"] for each in addenda} == {str(receipt.id)}
    for each in addenda:
        good = await forgetter.post("/receipts:verify", {"receipt": each})
        assert good.json == {"valid": True, "reason": None}
        forged = {**each, "numbers": {"bytes": 0}}
        bad = await forgetter.post("/receipts:verify", {"receipt": forged})
        assert bad.json == {"valid": False, "reason": "bad_signature"}
    # The receipt is the same to the byte.
    assert (await forgetter.get(f"{path}/receipt")).body == before
