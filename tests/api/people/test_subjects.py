"""Subjects: made with the thread that names them, looked at, restricted, and gone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from uuid import uuid4

import pytest

from memoryhub.api.http import auth
from memoryhub.journal import writer
from memoryhub.models import Project, Subject, Thread, Tombstone
from memoryhub.models.keys import SubjectKey
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from tests.api.client import PAGE, Client
from tests.cast import factories, graves

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
async def test_refused_put_makes_no_subject(
    api: Client, agent: Agent, why: str, code: str
) -> None:
    """No key is made either: a refused request leaves nothing, however often tried."""
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


ERASED = "Ann lives at 14 Rue des Lilas, Lyon."
SCOPES = ["subject:export", "subject:forget"]


@pytest.fixture
def officer(acme: Project) -> Client:
    """Return a service that answers what people ask for their data."""
    return Client(key=factories.make_key(acme, scopes=SCOPES)[1])


async def _resolve(api: Client, user_id: object = "ann") -> Any:
    return await api.post("/subjects:resolve", {"user_id": user_id})


async def test_user_id_is_resolved_by_who_may_ask(
    api: Client, officer: Client, reader: Client, foreign: Client, ann: Subject
) -> None:
    expected = {"id": str(ann.id), "state": "active", "generation": 1}
    for asking in (api, officer, reader):
        assert (await _resolve(asking)).json == expected
    unknown = await _resolve(api, "nobody")
    assert (unknown.status, unknown.code) == (404, "not_found")
    assert (await _resolve(foreign)).comparable == unknown.comparable
    assert not Subject.objects.filter(project__slug="zeta", anonymous=False).exists()


NOBODY: list[tuple[object, str]] = [
    ("", "value"),
    ("*", "value"),
    ("%", "value"),
    ("**", "value"),
    (" ", "value"),
    ("x" * 257, "value"),
    (7, "type"),
    (None, "type"),
    (["ann"], "type"),
]


@pytest.mark.parametrize(("user_id", "code"), NOBODY)
async def test_row_124_nobody_and_anybody_are_nobodys_id(
    api: Client, officer: Client, ann: Subject, user_id: object, code: str
) -> None:
    """The words mean neither everybody nor the anonymous subject."""
    api.connect()
    body = {"user_id": user_id}
    count = Subject.objects.count()
    answers = [
        await _resolve(api, user_id),
        await officer.post("/subjects:readmit", body),
    ]
    if user_id is not None:
        # Where none may be named, null is none.
        answers += [
            await api.post("/threads:search", body),
            await api.put("/threads/t-1", body),
        ]
    for answer in answers:
        assert (answer.status, answer.code) == (422, code)
    assert Subject.objects.count() == count
    assert (await api.post("/subjects:resolve", {})).code == "missing"


async def test_profile_counts_what_is_held(
    api: Client, officer: Client, ann: Subject
) -> None:
    await api.put("/threads/t-1", {"user_id": "ann"})
    await api.append("t-1", "hello", "again")
    for asking in (api, officer):
        found = (await asking.get(f"/subjects/{ann.id}")).json
        assert found["id"] == str(ann.id)
        assert (found["slots"], found["threads"]) == (2, {"open": 1})
        assert found["kinds"]["slot.appended"]["sealed"] == 2
    assert (await api.get("/subjects/ann")).status == 404


async def test_restricted_subject_is_kept_from_agents(
    api: Client, officer: Client, reader: Client, bound: Client, ann: Subject
) -> None:
    """The twin is not restricted; keys that answer for the data go on."""
    for whose in ("ann", "bob"):
        await api.put(f"/threads/{whose}-1", {"user_id": whose})
        await api.append(f"{whose}-1", "hello")
    path = f"/subjects/{ann.id}"
    done = await officer.post(f"{path}:restrict", {"basis": "accuracy_contested"})
    expected = {"id": str(ann.id), "state": "restricted", "generation": 1}
    assert (done.status, done.json) == (200, expected)
    auth.forget()
    refused = [
        await api.get("/threads/ann-1"),
        await api.get("/threads/ann-1/slots/0"),
        (await api.append("ann-1", "more"))[0],
        await api.put("/threads/ann-1", {"user_id": "ann"}),
        await api.put("/threads/ann-2", {"user_id": "ann"}),
        await api.post("/threads:search", {"user_id": "ann"}),
        await api.get(path),
        await bound.get("/threads"),
        await bound.get("/stats"),
        await bound.post("/threads:search", {}),
    ]
    for answer in refused:
        assert (answer.status, answer.code) == (409, "subject_restricted")
    listed = (await api.get("/threads")).json["items"]
    assert [item["thread"] for item in listed] == ["bob-1"]
    assert (await api.get("/threads/bob-1/slots/0")).status == 200
    assert (await _resolve(reader)).json == expected
    assert (await officer.get(path)).json["basis"] == "accuracy_contested"
    lifted = await officer.post(f"{path}:unrestrict", {})
    assert lifted.json["state"] == "active"
    assert len((await api.get("/threads")).json["items"]) == 2
    assert (await api.append("ann-1", "more"))[0].status == 201


@pytest.mark.no_replay
async def test_erased_subject_is_gone_with_proof(
    api: Client, officer: Client, foreign: Client, ann: Subject
) -> None:
    """The subject's project gets the proof; another project gets a 404."""
    api.connect()
    erasure = graves.bury_subject(ann)
    path, basis = f"/subjects/{ann.id}", {"basis": "claims"}
    for receipt in (None, graves.make_receipt(erasure)):
        proof = {"erasure": str(erasure.id)}
        if receipt is not None:
            proof["receipt"] = str(receipt.id)
        for answer in (
            await officer.get(path),
            await api.get(path),
            await officer.post(f"{path}:restrict", basis),
            await officer.post(f"{path}:unrestrict", {}),
        ):
            assert (answer.status, answer.code) == (410, "subject_erased")
            assert {name: answer.json[name] for name in proof} == proof
    for gone in (
        await _resolve(api),
        await api.put("/threads/t-9", {"user_id": "ann"}),
        await api.post("/threads:search", {"user_id": "ann"}),
    ):
        assert (gone.status, gone.code) == (410, "subject_erased")
        assert gone.json["erasure"] == str(erasure.id)
    absent = await foreign.get(f"/subjects/{uuid4()}")
    assert (await foreign.get(path)).comparable == absent.comparable
    assert (await _resolve(foreign)).code == "not_found"


@pytest.mark.no_replay
async def test_erased_user_id_is_readmitted(
    api: Client, officer: Client, ann: Subject
) -> None:
    await api.put("/threads/t-1", {"user_id": "ann"})
    early = await officer.post("/subjects:readmit", {"user_id": "ann"})
    assert (early.status, early.code) == (409, "not_erased")
    graves.bury_subject(ann)
    assert (await api.post("/subjects:readmit", {"user_id": "ann"})).code == "scope"
    done = await officer.post("/subjects:readmit", {"user_id": "ann"})
    assert done.status == 201
    assert done.json["generation"] == 2
    assert done.json["id"] != str(ann.id)
    assert (await _resolve(api)).json == done.json
    profile = (await officer.get(f"/subjects/{done.json['id']}")).json
    assert (profile["events"], profile["threads"]) == (0, {})
    assert (await api.put("/threads/t-2", {"user_id": "ann"})).status == 201
    again = await api.put("/threads/t-1", {"user_id": "ann"})
    assert (again.status, again.code) == (410, "thread_erased")


@pytest.mark.no_replay
async def test_erased_thread_answers_to_its_name_for_ever(
    api: Client, bound: Client, foreign: Client, agent: Agent, ann: Subject
) -> None:
    api.connect()
    for whose in ("ann", "bob"):
        factories.make_thread(agent, f"{whose}-1", user_id=whose)
        factories.append(agent, f"{whose}-1", "hello")
    erasure = graves.bury_thread(factories.get_thread(agent, "ann-1"))
    receipt = graves.make_receipt(erasure)
    for asking in (api, bound):
        for path in ("", "/slots", "/slots/0", "/events", "/pages", "/keys", "/stats"):
            answer = await asking.get(f"/threads/ann-1{path}")
            assert (answer.status, answer.code) == (410, "thread_erased")
            assert answer.json["receipt"] == str(receipt.id)
    written = (await api.append("ann-1", "more"))[0]
    assert (written.status, written.code) == (410, "thread_erased")
    assert written.json["erasure"] == str(erasure.id)
    absent = await foreign.get("/threads/ann-2")
    assert (await foreign.get("/threads/ann-1")).comparable == absent.comparable
    other = Client(key=factories.make_key(_get_project(bound), subject=_bob(ann))[1])
    theirs = await other.get("/threads/ann-1")
    assert theirs.comparable == absent.comparable
    assert (await other.get("/threads/bob-1")).status == 200
    listed = (await api.get("/threads")).json["items"]
    assert [item["thread"] for item in listed] == ["bob-1"]


def _get_project(client: Client) -> Project:
    return Project.objects.get(slug="acme")


def _bob(ann: Subject) -> Subject:
    return subjects.find_or_create(ann.project_id, "bob")


@pytest.mark.no_replay
async def test_key_bound_to_an_erased_subject_is_refused(
    api: Client, bound: Client, agent: Agent, ann: Subject
) -> None:
    api.connect()
    factories.make_thread(agent, "ann-1", user_id="ann")
    graves.bury_subject(ann)
    auth.forget()
    for answer in (
        await bound.get("/threads"),
        await bound.get("/stats"),
        await bound.get("/tools"),
        await bound.get("/threads/ann-1"),
        await bound.get("/threads/never"),
        await bound.post("/threads:search", {}),
        await bound.put("/threads/new"),
        (await bound.append("new", "hello"))[0],
    ):
        assert (answer.status, answer.code) == (410, "subject_erased")
    assert (await api.get("/threads/never")).status == 404
    assert (await api.put("/threads/new")).status == 201


async def test_erased_value_is_refused_with_its_tombstone(
    api: Client, ann: Subject
) -> None:
    """Every route that keeps a value refuses it; another subject may write it."""
    for whose in ("ann", "bob"):
        await api.put(f"/threads/{whose}", {"user_id": whose})
        await api.put(f"/threads/{whose}/pages/p", PAGE)
    graves.bury_values(ann, [("page", {"text": ERASED})])
    stone = Tombstone.objects.get()
    page = {**PAGE, "content": {"text": ERASED.upper()}}
    key = {"op": "set", "key": "home", "value": ERASED}
    for method, path, body in (
        ("POST", "/pages", page),
        ("POST", "/pages:batch", {"items": [PAGE, page]}),
        ("PUT", "/pages/new", page),
        ("PUT", "/pages/p", page),
        ("PATCH", "/pages/p", {"content": {"text": ERASED}}),
        ("PUT", "/system-prompt", {"text": ERASED}),
        ("PUT", "/keys/home", {"value": ERASED}),
        ("POST", "/keys:batch", {"items": [key]}),
        ("POST", "/notes", {"text": ERASED}),
        ("POST", "/notes:batch", {"items": [{"text": "hm"}, {"text": ERASED}]}),
    ):
        refused = await api.send(method, f"/threads/ann{path}", body)
        assert (refused.status, refused.code) == (410, "value_erased"), path
        assert refused.json["tombstone"] == str(stone.id)
        assert ERASED.upper() not in refused.body.decode().upper()
        assert (await api.send(method, f"/threads/bob{path}", body)).status < 300, path
    assert (await api.append("ann", ERASED))[0].status == 201
