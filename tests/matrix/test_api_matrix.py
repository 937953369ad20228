"""Every operation of the API by every kind of credential.

The operations are read from the OpenAPI document; each needs a row.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.api.http import auth
from memoryhub.models import ApiKey, Project, Subject, Thread
from memoryhub.services.access import api_keys
from memoryhub.services.people import subjects
from memoryhub.services.turns import marks, turns
from memoryhub.services.turns.turns import NewTurn
from tests.api.client import Client, run
from tests.cast import factories, graves
from tests.matrix.people import PEOPLE
from tests.matrix.routes import (
    MAKING,
    OF_A_THREAD,
    OPERATIONS,
    ROWS,
    ask,
    client_of,
    make_whole,
)

pytestmark = [pytest.mark.django_db, pytest.mark.promise("P12")]

#: Operations that need a scope; the others accept any key.
SCOPED = [label for label in ROWS if OPERATIONS[label]["x-scope"] != auth.ANY]


@pytest.fixture(scope="module")
def acme(standing: None) -> Project:
    return factories.make_project("acme")


@pytest.fixture(scope="module")
def ann(acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


@pytest.fixture(scope="module", autouse=True)
def thread(acme: Project, ann: Subject) -> None:
    make_whole(factories.make_agent(acme))


@pytest.fixture(scope="module")
def client(acme: Project) -> Client:
    return client_of(acme)


@pytest.fixture(scope="module")
def dead(acme: Project) -> list[Client]:
    """Return a revoked key, an expired key, and values that are no key."""
    revoked, expired = client_of(acme), client_of(acme)
    rows = ApiKey.objects.order_by("-created_at")
    api_keys.revoke(rows[1])
    row = rows[0]
    row.expires_at = timezone.now() - timedelta(seconds=1)
    row.save(update_fields=["expires_at"])
    return [revoked, expired, Client(key="mh_live_x"), Client(key="")]


@pytest.fixture(scope="module")
def scoped(acme: Project) -> dict[tuple[str, ...], Client]:
    """Return a key of each scope, and one of all scopes that no agent has."""
    people = ("admin", "subject:export", "subject:forget")
    kinds = [(scope,) for scope in (*people, "memory:read", "memory:write")]
    return {scopes: client_of(acme, scopes=scopes) for scopes in (*kinds, people)}


@pytest.fixture(scope="module")
def stranger(standing: None) -> Client:
    return client_of(factories.make_project("zeta"))


@pytest.fixture(scope="module")
def bound(acme: Project) -> Client:
    """Return a key bound to bob, who does not own the thread."""
    return client_of(acme, subject=subjects.find_or_create(acme.id, "bob"))


def test_api_matrix_covers_every_operation() -> None:
    assert ROWS.keys() | PEOPLE.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("label", ROWS)
def test_right_key_is_accepted(client: Client, label: str) -> None:
    answer = ask(client, label)
    assert answer.status < 300, answer.body


@pytest.mark.parametrize("label", ROWS)
def test_missing_and_dead_credentials_answer_alike(
    dead: list[Client], label: str
) -> None:
    expected = ask(Client(key=None), label)
    assert expected.status == 401
    for each in dead:
        assert ask(each, label).comparable == expected.comparable


@pytest.mark.parametrize("label", ROWS)
def test_session_is_refused_by_the_api(label: str) -> None:
    cookie = [("cookie", "mh_session=" + "a" * 32)]
    target, body, _ = ROWS[label]
    method = label.partition(" ")[0].upper()
    work = Client(key=None).send(method, target.format(t="t-1"), body, headers=cookie)
    assert run(work).status == 401


@pytest.mark.parametrize("label", SCOPED)
def test_wrong_scope_is_refused(
    scoped: dict[tuple[str, ...], Client], label: str
) -> None:
    needs = OPERATIONS[label]["x-scope"]
    wrong = [
        each for each in scoped if auth.get_admitting_scopes(needs).isdisjoint(each)
    ]
    assert ("admin",) in wrong
    for scopes in wrong:
        answer = ask(scoped[scopes], label)
        assert (answer.status, answer.code) == (403, "scope"), scopes
        assert needs in answer.json["detail"], scopes


@pytest.mark.parametrize("label", OF_A_THREAD)
def test_foreign_thread_answers_like_an_absent_one(
    client: Client, stranger: Client, label: str
) -> None:
    """Another project's thread answers, to the byte, as one that does not exist."""
    if label in MAKING:
        # For another project the name is free: the request makes its own thread.
        assert ask(stranger, label).status in (200, 201)
        assert ask(client, label).status in (200, 201)
        return
    foreign, absent = ask(stranger, label), ask(stranger, label, thread="absent")
    assert (foreign.status, foreign.code) == (404, "not_found")
    assert foreign.comparable == absent.comparable
    names = [name for name, _ in foreign.headers]
    assert names == [name for name, _ in absent.headers]


@pytest.mark.parametrize("label", [label for label, row in ROWS.items() if not row[2]])
def test_foreign_records_are_neither_listed_nor_counted(
    client: Client, stranger: Client, label: str
) -> None:
    own, foreign = ask(client, label).json, ask(stranger, label).json
    if "items" in own:
        assert [item["thread"] for item in own["items"]] == ["t-1"]
        assert foreign["items"] == []
    elif own.keys() & {"tools", "valid"}:
        assert own == foreign
    elif "format" in own:
        # These operations are public, about the whole instance.
        assert own == foreign
    else:
        assert foreign["slots"] == 0


@pytest.mark.parametrize("label", OF_A_THREAD)
def test_bound_key_finds_no_other_subject(bound: Client, label: str) -> None:
    foreign = ask(bound, label)
    if label in MAKING:
        assert foreign.status in (200, 201)
        return
    assert (foreign.status, foreign.code) == (404, "not_found")
    absent = ask(bound, label, thread="absent")
    assert foreign.comparable == absent.comparable


@pytest.mark.parametrize("label", OF_A_THREAD)
def test_thread_of_a_restricted_or_erased_subject_is_refused(
    client: Client, ann: Subject, label: str
) -> None:
    found = {}
    for state in ("restricted", "erasing", "erased"):
        Subject.objects.filter(id=ann.id).update(state=state)
        answer = ask(client, label)
        found[state] = answer.status, answer.code
    Subject.objects.filter(id=ann.id).update(state="active")
    assert found == {
        "restricted": (409, "subject_restricted"),
        "erasing": (410, "subject_erased"),
        "erased": (410, "subject_erased"),
    }


@pytest.mark.no_replay
@pytest.mark.parametrize("label", OF_A_THREAD)
def test_erased_thread_is_refused(
    acme: Project, ann: Subject, client: Client, bound: Client, label: str
) -> None:
    """Keys that could read the thread get 410; others get 404."""
    row = Thread.objects.get(name="t-1")
    erasure = graves.bury_thread(row)
    for knowing in (client, client_of(acme, subject=ann)):
        answer = ask(knowing, label)
        assert (answer.status, answer.code) == (410, "thread_erased")
        assert answer.json["erasure"] == str(erasure.id)
    other = ask(bound, label)
    if label in MAKING:
        assert other.status < 300
        assert ask(client, label, thread="t-2").status < 300
    else:
        assert other.code == "not_found"


@pytest.mark.parametrize("label", [label for label, row in ROWS.items() if not row[2]])
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("restricted", (409, "subject_restricted")),
        ("erased", (410, "subject_erased")),
    ],
)
def test_key_bound_to_a_restricted_or_erased_subject_is_refused(
    acme: Project, ann: Subject, label: str, state: str, expected: tuple[int, str]
) -> None:
    """Check operations without a thread: a bound key is refused, others are not."""
    bob = subjects.find_or_create(acme.id, "bob")
    agent = factories.make_agent(acme)
    factories.make_thread(agent, "t-2", user_id="bob")
    factories.run(turns.begin_turn(agent=agent, thread="t-2", new=NewTurn()))
    thread = factories.get_thread(agent, "t-2")
    marks.mark_for_operator(thread, 1, "wrong", actor="operator:1")
    Subject.objects.filter(id=ann.id).update(state=state)
    bound, twin, all_of = (
        ask(client_of(acme, subject=subject), label) for subject in (ann, bob, None)
    )
    Subject.objects.filter(id=ann.id).update(state="active")
    public = OPERATIONS[label]["x-scope"] == auth.ANY
    if public or ("tools" in twin.json and state == "restricted"):
        # The answer is the same for every key.
        assert bound.json == twin.json
    else:
        assert (bound.status, bound.code) == expected
    for answer in (twin, all_of):
        assert answer.status == 200
        if "items" in answer.json:
            assert [item["thread"] for item in answer.json["items"]] == ["t-2"]
