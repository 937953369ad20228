"""Every operation of the API by every kind of credential.

The operations are read from the OpenAPI document: one without a row fails.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.api import api as agent_api
from memoryhub.api.http import auth
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.notes import AddNotes, NewNote
from memoryhub.kernel.memory.tasks import SetTask
from memoryhub.models import ApiKey, Project, Subject, Thread
from memoryhub.services.access import api_keys
from memoryhub.services.memory import checkpoints, keys, working_memory
from memoryhub.services.people import subjects
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.api.client import PAGE, SLOT, Answer, Client, run
from tests.cast import factories, graves
from tests.matrix.people import PEOPLE

pytestmark = [pytest.mark.django_db, pytest.mark.promise("P12")]

KEY = {"op": "set", "key": "seat", "value": "12A"}
#: By operation: where, with what body, and whether it is about one thread.
ROWS: dict[str, tuple[str, object, bool]] = {
    "get /api/v1/threads": ("/threads", None, False),
    "post /api/v1/threads:search": ("/threads:search", {}, False),
    "get /api/v1/stats": ("/stats", None, False),
    "put /api/v1/threads/{thread}": ("/threads/{t}", {}, True),
    "get /api/v1/threads/{thread}": ("/threads/{t}", None, True),
    "patch /api/v1/threads/{thread}": ("/threads/{t}", {"labels": {}}, True),
    "post /api/v1/threads/{thread}:close": ("/threads/{t}:close", {}, True),
    "post /api/v1/threads/{thread}:reopen": ("/threads/{t}:reopen", {}, True),
    "post /api/v1/threads/{thread}:fork": ("/threads/{t}:fork", {"thread": "f"}, True),
    "post /api/v1/threads/{thread}/slots": ("/threads/{t}/slots", SLOT, True),
    "post /api/v1/threads/{thread}/slots:batch": (
        "/threads/{t}/slots:batch",
        {"items": [SLOT]},
        True,
    ),
    "get /api/v1/threads/{thread}/slots": ("/threads/{t}/slots", None, True),
    "get /api/v1/threads/{thread}/slots/{index}": ("/threads/{t}/slots/0", None, True),
    "get /api/v1/threads/{thread}/events": ("/threads/{t}/events", None, True),
    "get /api/v1/threads/{thread}/stats": ("/threads/{t}/stats", None, True),
    "get /api/v1/tools": ("/tools", None, False),
    "get /api/v1/receipt-keys": ("/receipt-keys", None, False),
    "post /api/v1/receipts:verify": ("/receipts:verify", {"receipt": {}}, False),
    **{
        f"{method} /api/v1/threads/{{thread}}{path.replace('slot-0', '{page_id}')}": (
            "/threads/{t}" + path,
            body,
            True,
        )
        for method, path, body in (
            ("post", "/pages", PAGE),
            ("post", "/pages:batch", {"items": [PAGE]}),
            ("put", "/system-prompt", {"text": "Be brief."}),
            ("get", "/pages", None),
            ("get", "/pages/slot-0", None),
            ("get", "/pages/slot-0/history", None),
            ("patch", "/pages/slot-0", {"importance": 0.9}),
            ("post", "/pages/slot-0/fault", {}),
            ("post", "/pages/slot-0/map", {}),
            ("post", "/pages/slot-0/pin", {}),
            ("post", "/pages/slot-0/unpin", {}),
            ("post", "/pages/slot-0/reference", {}),
            ("get", "/working-set", None),
            ("get", "/tlb", None),
            ("get", "/paging", None),
            ("get", "/manifest", None),
            ("get", "/mutations", None),
            ("post", "/tlb:flush", {}),
            ("post", "/tlb:invalidate", {"tier": "L0"}),
            ("get", "/context", None),
            ("post", "/turns", {}),
            ("get", "/turns", None),
            ("post", "/tool-calls", {}),
            ("get", "/tools", None),
            ("put", "/tools", {"items": []}),
        )
    },
    "put /api/v1/threads/{thread}/pages/{page_id}": (
        "/threads/{t}/pages/rules",
        PAGE,
        True,
    ),
    "delete /api/v1/threads/{thread}/pages/{page_id}": (
        "/threads/{t}/pages/note",
        None,
        True,
    ),
    "post /api/v1/threads/{thread}/pages/{page_id}/evict": (
        "/threads/{t}/pages/note/evict",
        {},
        True,
    ),
    "get /api/v1/threads/{thread}/turns/{turn}": ("/threads/{t}/turns/1", None, True),
    **{
        f"get /api/v1/threads/{{thread}}/turns/{{turn}}/{lens}": (
            f"/threads/{{t}}/turns/2/{lens}",
            None,
            True,
        )
        for lens in ("diff", "prefix")
    },
    "get /api/v1/threads/{thread}/turns/{turn}/context": (
        "/threads/{t}/turns/1/context",
        None,
        True,
    ),
    **{
        f"{method} /api/v1/threads/{{thread}}{route}": (
            "/threads/{t}" + path,
            body,
            True,
        )
        for method, route, path, body in (
            ("put", "/keys/{key}", "/keys/new", {"value": 1}),
            ("get", "/keys/{key}", "/keys/seat", None),
            ("patch", "/keys/{key}", "/keys/seat", {"ttl_seconds": 60}),
            ("delete", "/keys/{key}", "/keys/seat", None),
            ("get", "/keys", "/keys", None),
            ("post", "/keys:batch", "/keys:batch", {"items": [KEY]}),
            ("post", "/keys:clear", "/keys:clear", {}),
            ("get", "/task", "/task", None),
            ("put", "/task", "/task", {}),
            ("patch", "/task", "/task", {"current_step": 1}),
            ("delete", "/task", "/task", None),
            ("post", "/notes", "/notes", {"text": "hm"}),
            ("post", "/notes:batch", "/notes:batch", {"items": [{"text": "hm"}]}),
            ("get", "/notes", "/notes", None),
            ("post", "/notes:clear", "/notes:clear", {}),
            ("post", "/checkpoints", "/checkpoints", {}),
            ("get", "/checkpoints", "/checkpoints", None),
            ("get", "/checkpoints:compare", "/checkpoints:compare?a=here", None),
            ("get", "/checkpoints/{checkpoint}", "/checkpoints/here", None),
            ("delete", "/checkpoints/{checkpoint}", "/checkpoints/here", None),
            (
                "post",
                "/checkpoints/{checkpoint}:restore",
                "/checkpoints/here:restore",
                {},
            ),
            ("get", "/working-memory", "/working-memory", None),
        )
    },
}
OF_A_THREAD = [label for label, row in ROWS.items() if row[2]]
#: With a name that is new these make a thread instead of missing it.
MAKING = {
    "put /api/v1/threads/{thread}",
    "put /api/v1/threads/{thread}/system-prompt",
    "put /api/v1/threads/{thread}/pages/{page_id}",
    "post /api/v1/threads/{thread}/pages",
    "post /api/v1/threads/{thread}/pages:batch",
    "post /api/v1/threads/{thread}/turns",
    "post /api/v1/threads/{thread}/slots",
    "post /api/v1/threads/{thread}/slots:batch",
    "put /api/v1/threads/{thread}/keys/{key}",
    "post /api/v1/threads/{thread}/keys:batch",
    "put /api/v1/threads/{thread}/task",
    "put /api/v1/threads/{thread}/tools",
    "post /api/v1/threads/{thread}/notes",
    "post /api/v1/threads/{thread}/notes:batch",
    "post /api/v1/threads/{thread}/checkpoints",
}
OPERATIONS = {
    f"{method} {path}": operation
    for path, methods in agent_api.get_openapi_schema()["paths"].items()
    for method, operation in methods.items()
}


#: Any key will do for the others.
SCOPED = [label for label in ROWS if OPERATIONS[label]["x-scope"] != auth.ANY]


@pytest.fixture(scope="module")
def acme(standing: None) -> Project:
    return factories.make_project("acme")


@pytest.fixture(scope="module")
def ann(acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


@pytest.fixture(scope="module", autouse=True)
def thread(acme: Project, ann: Subject) -> None:
    """A thread of ann's: a page that may leave, a message, two turns, all memory."""
    agent = factories.make_agent(acme)
    factories.make_thread(agent, "t-1", user_id="ann", auto_pin_turns=0)
    factories.make_page(agent, "note")
    factories.append(agent, "t-1", "hello")
    for _ in range(2):
        factories.run(turns.begin(agent=agent, thread="t-1", new=NewTurn()))
    seat = keys.setting("seat", "12A", Expiry())
    factories.run(keys.change(agent=agent, thread="t-1", changes=(seat,)))
    for command in (SetTask(), AddNotes(notes=(NewNote(text=b'"hm"', bytes=2),))):
        work = working_memory.submit(agent=agent, thread="t-1", command=command)
        factories.run(work)
    here = TakeCheckpoint(name="here")
    factories.run(checkpoints.take(agent=agent, thread="t-1", command=here))


def _client(project: Project, **options: Any) -> Client:
    return Client(key=factories.make_key(project, **options)[1])


def _ask(client: Client, label: str, *, thread: str = "t-1") -> Answer:
    target, body, _ = ROWS[label]
    method = label.partition(" ")[0].upper()
    return run(client.send(method, target.format(t=thread), body))


def test_route_matrix_is_total() -> None:
    assert ROWS.keys() | PEOPLE.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("label", ROWS)
def test_the_right_key_is_let_in(acme: Project, label: str) -> None:
    answer = _ask(_client(acme), label)
    assert answer.status < 300, answer.body


@pytest.mark.parametrize("label", ROWS)
def test_no_credential_and_every_dead_one_are_alike(acme: Project, label: str) -> None:
    revoked, expired = _client(acme), _client(acme)
    rows = ApiKey.objects.order_by("-created_at")
    api_keys.revoke(rows[1])
    row = rows[0]
    row.expires_at = timezone.now() - timedelta(seconds=1)
    row.save(update_fields=["expires_at"])
    expected = _ask(Client(key=None), label)
    assert expected.status == 401
    for client in (revoked, expired, Client(key="mh_live_x"), Client(key="")):
        assert _ask(client, label).comparable == expected.comparable


@pytest.mark.parametrize("label", ROWS)
def test_a_session_is_no_credential(label: str) -> None:
    cookie = [("cookie", "mh_session=" + "a" * 32)]
    target, body, _ = ROWS[label]
    method = label.partition(" ")[0].upper()
    work = Client(key=None).send(method, target.format(t="t-1"), body, headers=cookie)
    assert run(work).status == 401


@pytest.mark.parametrize("label", SCOPED)
def test_the_wrong_scope_is_refused(acme: Project, label: str) -> None:
    needs = OPERATIONS[label]["x-scope"]
    single = {"memory:read", "memory:write", "subject:export", "subject:forget"}
    others = sorted(single - auth.admitting(needs))
    people = [other for other in others if other.startswith("subject:")]
    for scopes in (["admin"], *([other] for other in others), ["admin", *people]):
        answer = _ask(_client(acme, scopes=scopes), label)
        assert (answer.status, answer.code) == (403, "scope")
        assert needs in answer.json["detail"]


@pytest.mark.parametrize("label", OF_A_THREAD)
def test_foreign_equals_absent(acme: Project, zeta: Project, label: str) -> None:
    """Another project's thread answers to the byte as one that does not exist."""
    stranger = _client(zeta)
    if label in MAKING:
        # To a stranger the name is free: what comes about is a thread of its own.
        assert _ask(stranger, label).status in (200, 201)
        assert _ask(_client(acme), label).status in (200, 201)
        return
    foreign, absent = _ask(stranger, label), _ask(stranger, label, thread="absent")
    assert (foreign.status, foreign.code) == (404, "not_found")
    assert foreign.comparable == absent.comparable
    names = [name for name, _ in foreign.headers]
    assert names == [name for name, _ in absent.headers]


@pytest.mark.parametrize("label", [label for label, row in ROWS.items() if not row[2]])
def test_foreign_things_are_neither_listed_nor_counted(
    acme: Project, zeta: Project, label: str
) -> None:
    own, foreign = _ask(_client(acme), label).json, _ask(_client(zeta), label).json
    if "items" in own:
        assert [item["thread"] for item in own["items"]] == ["t-1"]
        assert foreign["items"] == []
    elif own.keys() & {"tools", "valid"}:
        assert own == foreign
    elif "format" in own:
        # Of the whole instance, and public.
        assert own == foreign
    else:
        assert foreign["slots"] == 0


@pytest.mark.parametrize("label", OF_A_THREAD)
def test_a_bound_key_finds_no_other_subject(acme: Project, label: str) -> None:
    bob = subjects.find_or_create(acme.id, "bob")
    bound = _client(acme, subject=bob)
    foreign = _ask(bound, label)
    if label in MAKING:
        assert foreign.status in (200, 201)
        return
    assert (foreign.status, foreign.code) == (404, "not_found")
    absent = _ask(bound, label, thread="absent")
    assert foreign.comparable == absent.comparable


@pytest.mark.parametrize("label", OF_A_THREAD)
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("restricted", (409, "subject_restricted")),
        ("erased", (410, "subject_erased")),
    ],
)
def test_a_subject_that_is_restricted_or_erased(
    acme: Project, ann: Subject, label: str, state: str, expected: tuple[int, str]
) -> None:
    Subject.objects.filter(id=ann.id).update(state=state)
    answer = _ask(_client(acme), label)
    Subject.objects.filter(id=ann.id).update(state="active")
    assert (answer.status, answer.code) == expected


@pytest.mark.no_replay
@pytest.mark.parametrize("label", OF_A_THREAD)
def test_a_thread_that_is_erased(acme: Project, ann: Subject, label: str) -> None:
    """Its name is dead to whoever knew it, and unknown to others."""
    client = _client(acme)
    row = Thread.objects.get(name="t-1")
    erasure = graves.bury_thread(row)
    for knowing in (client, _client(acme, subject=ann)):
        answer = _ask(knowing, label)
        assert (answer.status, answer.code) == (410, "thread_erased")
        assert answer.json["erasure"] == str(erasure.id)
    bob = subjects.find_or_create(acme.id, "bob")
    other = _ask(_client(acme, subject=bob), label)
    if label in MAKING:
        assert other.status < 300
        assert _ask(client, label, thread="t-2").status < 300
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
def test_a_key_whose_subject_is_restricted_or_erased(
    acme: Project, ann: Subject, label: str, state: str, expected: tuple[int, str]
) -> None:
    """Of what is no thread's: it may see nothing; who is not bound sees the rest."""
    bob = subjects.find_or_create(acme.id, "bob")
    factories.make_thread(factories.make_agent(acme), "t-2", user_id="bob")
    Subject.objects.filter(id=ann.id).update(state=state)
    bound, twin, all_of = (
        _ask(_client(acme, subject=subject), label) for subject in (ann, bob, None)
    )
    Subject.objects.filter(id=ann.id).update(state="active")
    public = OPERATIONS[label]["x-scope"] == auth.ANY
    if public or ("tools" in twin.json and state == "restricted"):
        # What is the same for everybody.
        assert bound.json == twin.json
    else:
        assert (bound.status, bound.code) == expected
    for answer in (twin, all_of):
        assert answer.status == 200
        if "items" in answer.json:
            assert [item["thread"] for item in answer.json["items"]] == ["t-2"]
