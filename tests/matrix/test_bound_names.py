"""Thread names: a key bound to a subject learns no name of another subject."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memoryhub.models import Event, Project, Subject, Thread
from memoryhub.models.access.api_keys import SUBJECT_SCOPES
from memoryhub.services.people import subjects
from tests.api.client import SLOT, Answer, Client, run
from tests.cast import factories, graves, recordings
from tests.matrix.routes import OF_A_THREAD, ROWS

pytestmark = [pytest.mark.django_db, pytest.mark.promise("P12")]
#: Names of equal length, so that byte counts are equal.
THEIRS, NOBODYS = "theirs-1", "nobody-1"
DAYS = {"config": {"retention_idle_days": 30}}
#: Requests that the matrix lacks, by label: method, target, body.
OTHERS: dict[str, tuple[str, str, Any]] = {
    "fork": ("POST", "/threads/mine:fork", {"thread": "{t}"}),
    "put with days": ("PUT", "/threads/{t}", DAYS),
    "patch with days": ("PATCH", "/threads/{t}", DAYS),
    "put with a user": ("PUT", "/threads/{t}", {"user_id": "bob"}),
    "put with another user": ("PUT", "/threads/{t}", {"user_id": "ann"}),
    "forks of it": ("GET", "/threads?parent={t}", None),
    "forks of it, searched": ("POST", "/threads:search", {"parent": "{t}"}),
}
REQUESTS = {
    label: (label.partition(" ")[0].upper(), *ROWS[label][:2]) for label in OF_A_THREAD
} | OTHERS
MADE = ("put /api/v1/threads/{thread}", "get /api/v1/threads/{thread}")
#: States of the other subject's thread.
STATES: dict[str, Callable[[Thread], object]] = {
    "open": lambda row: None,
    "of a restricted subject": lambda row: Subject.objects.filter(
        id=row.subject_id
    ).update(state=Subject.State.RESTRICTED),
    "erased": graves.bury_thread,
    "importing": lambda row: Thread.objects.filter(id=row.id).update(
        status=Thread.Status.IMPORTING
    ),
    "damaged": lambda row: Thread.objects.filter(id=row.id).update(
        head_hash=b"\0" * 32
    ),
}


@pytest.fixture(scope="module")
def acme(standing: None) -> Project:
    return factories.make_project("acme")


@pytest.fixture(scope="module")
def theirs(acme: Project) -> Thread:
    """Make a thread of ann, named by another key."""
    return factories.make_thread(factories.make_agent(acme), THEIRS, user_id="ann")


@pytest.fixture(scope="module")
def bob(acme: Project, theirs: Thread) -> Subject:
    made = subjects.find_or_create(acme.id, "bob")
    bound = factories.make_agent(acme, subject=made)
    factories.append(bound, "mine", "hello")
    return made


def client(project: Project, **options: Any) -> Client:
    return Client(key=factories.make_key(project, **options)[1])


def fill_name(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: fill_name(each, name) for key, each in value.items()}
    return value.replace("{t}", name) if isinstance(value, str) else value


def ask(key: Client, label: str, name: str, **options: Any) -> Answer:
    method, target, body = REQUESTS[label]
    return run(
        key.send(method, fill_name(target, name), fill_name(body, name), **options)
    )


def shape_of(answer: Answer, name: str) -> tuple[Any, ...]:
    """Return an answer without the sent name, ids, times and digests."""
    text = answer.body.decode().replace(name, "<name>")
    text = re.sub(r"[0-9a-f]{64}|page-[0-9a-f]{32}", "<digest>", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<id>", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)", "<time>", text)
    text = re.sub(r'"request_id":"[0-9a-f]+"', '"request_id"', text)
    hidden = {b"x-request-id", b"etag", b"ratelimit"}
    return (
        answer.status,
        text,
        [h for h in answer.headers if h[0].lower() not in hidden],
    )


@pytest.fixture(scope="module")
def key(acme: Project, bob: Subject) -> Client:
    return client(acme, subject=bob)


@pytest.mark.parametrize("label", REQUESTS)
def test_thread_name_of_another_subject_answers_like_an_unused_one(
    theirs: Thread, key: Client, label: str
) -> None:
    head = theirs.head_seq
    answers = [shape_of(ask(key, label, name), name) for name in (THEIRS, NOBODYS)]
    assert answers[0] == answers[1]
    assert "name_taken" not in answers[0][1]
    theirs.refresh_from_db()
    assert theirs.head_seq == head


@pytest.mark.no_replay
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("label", [*MADE, *OTHERS])
def test_thread_name_of_another_subject_is_hidden_in_every_state(
    theirs: Thread, key: Client, label: str, state: str
) -> None:
    STATES[state](theirs)
    answers = [shape_of(ask(key, label, name), name) for name in (THEIRS, NOBODYS)]
    assert answers[0] == answers[1]


def test_stored_thread_name_of_another_subject_is_hidden(
    acme: Project, theirs: Thread, bob: Subject
) -> None:
    """A key of ann made the thread: to a key of bob its name is like any other."""
    ann = factories.make_agent(acme, subject=Subject.objects.get(id=theirs.subject_id))
    factories.append(ann, "hers", "hello")
    stored, free = f"{theirs.subject_id}:hers", f"{theirs.subject_id}:free"
    for label in (*MADE, *OTHERS):
        key = client(acme, subject=bob)
        answers = [shape_of(ask(key, label, name), name) for name in (stored, free)]
        assert answers[0] == answers[1], label


def test_forget_plan_does_not_reveal_thread_names_of_others(
    acme: Project, theirs: Thread, bob: Subject
) -> None:
    key = client(acme, subject=bob, scopes=SUBJECT_SCOPES)
    body = {"scope": "thread", "reason": "test"}
    answers = [
        shape_of(
            run(key.post(f"/subjects/{bob.id}/erasures", {**body, "thread": name})),
            name,
        )
        for name in (THEIRS, NOBODYS)
    ]
    assert answers[0] == answers[1]
    mine = {**body, "thread": "mine"}
    assert run(key.post(f"/subjects/{bob.id}/erasures", mine)).status == 201


# Names by key


def test_thread_name_of_a_bound_key_is_its_own(acme: Project, bob: Subject) -> None:
    key, other = client(acme, subject=bob), client(acme)
    made = run(key.post("/threads/new/slots", SLOT))
    assert (made.status, made.json["thread"]) == (201, "new")
    stored = f"{bob.id}:new"
    assert Thread.objects.get(id=made.json["thread_id"]).name == stored
    for each, name in ((key, "new"), (key, stored), (other, stored)):
        found = run(each.get(f"/threads/{name}")).json
        assert (found["thread"], found["thread_id"]) == (name, made.json["thread_id"])
        assert run(each.post(f"/threads/{name}/slots", SLOT)).json["thread"] == name
    assert run(other.get("/threads/new")).status == 404
    assert {each["thread"] for each in run(key.get("/threads")).json["items"]} == {
        *("mine", "new")
    }
    assert stored in {
        each["thread"] for each in run(other.get("/threads")).json["items"]
    }


@pytest.mark.parametrize("label", OF_A_THREAD)
def test_bound_key_sees_only_its_own_thread_names(
    bob: Subject, key: Client, label: str
) -> None:
    assert f"{bob.id}:" not in ask(key, label, "mine").body.decode()


def test_thread_made_by_others_keeps_its_name_for_a_bound_key(
    acme: Project, bob: Subject
) -> None:
    agent = factories.make_agent(acme)
    row = factories.make_thread(agent, "for-bob", user_id="bob")
    key = client(acme, subject=bob)
    assert run(key.post("/threads/for-bob/slots", SLOT)).json["thread_id"] == str(
        row.id
    )
    assert run(key.put("/threads/for-bob", {})).status == 200
    taken = run(key.post("/threads/mine:fork", {"thread": "for-bob"}))
    assert (taken.status, taken.code) == (409, "name_taken")
    run(key.post("/threads/for-bob:fork", {"thread": "son"}))
    forks = run(key.get("/threads?parent=for-bob")).json["items"]
    assert [each["thread"] for each in forks] == ["son"]
    assert Thread.objects.get(parent=row).name == f"{bob.id}:son"


def test_repeated_request_of_a_bound_key_is_answered_alike(
    acme: Project, bob: Subject
) -> None:
    key = client(acme, subject=bob)
    again = [("idempotency-key", "one")]
    for path, body in (
        ("/threads/once/slots", SLOT),
        ("/threads/mine:fork", {"thread": "forked"}),
        ("/threads/begun/turns", {"items": [SLOT]}),
    ):
        again = [("idempotency-key", path)]
        first, second = (run(key.post(path, body, headers=again)) for _ in range(2))
        assert first.status == second.status == 201
        assert first.json == second.json
        assert second.header("idempotent-replayed") == "true"


def test_context_of_a_bound_keys_thread_is_the_same_for_every_key(
    acme: Project, bob: Subject
) -> None:
    key, other = client(acme, subject=bob), client(acme)
    made = run(key.post("/threads/talk/turns", {"items": [SLOT]}))
    assert str(bob.id) not in made.body.decode()
    for each, name in ((key, "talk"), (other, f"{bob.id}:talk")):
        kept = run(each.get(f"/threads/{name}/turns/1/context")).json
        assert (kept["thread"], kept["verified"]) == (name, True)
        assert kept["sha256"] == made.json["sha256"]


def test_reserved_thread_name_is_refused_to_other_keys(
    acme: Project, bob: Subject, theirs: Thread, tmp_path: Path
) -> None:
    """Otherwise a refusal would reveal the thread names of bob's keys."""
    name, other = f"{bob.id}:trap", client(acme)
    for request in (
        other.put(f"/threads/{name}", {"user_id": "ann"}),
        other.post(f"/threads/{name}/slots", SLOT),
        other.post(f"/threads/{THEIRS}:fork", {"thread": name}),
    ):
        answer = run(request)
        assert (answer.status, answer.code) == (422, "reserved_name")
    path = recordings.write_lines(
        tmp_path, recordings.build_message(thread=name, user_id="ann")
    )
    assert [bad.code for bad in recordings.take(acme, path)[1]] == ["reserved_name"]
    assert not Thread.objects.filter(name=name).exists()
    assert run(other.put(f"/threads/{name}", {"user_id": "bob"})).status == 201
    free = f"{UUID(int=7)}:any"
    assert run(other.put(f"/threads/{free}", {})).status == 201


def test_thread_name_too_long_with_its_subject_is_refused(
    acme: Project, bob: Subject
) -> None:
    key = client(acme, subject=bob)
    events = Event.objects.count()
    for length, status in ((91, 201), (92, 422), (128, 422)):
        answer = run(key.put(f"/threads/{'x' * length}", {}))
        assert answer.status == status
    assert Event.objects.count() == events + 1
