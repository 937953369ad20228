"""Contract common to all API routes, checked for each route that documents it."""

from __future__ import annotations

import re

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from memoryhub.api.http import auth
from memoryhub.journal import Address, Order, perform
from memoryhub.kernel.commands import CloseThread, RetireThread
from memoryhub.models import Event, Project, Thread
from tests.api.client import PAGE, SLOT, Client, run
from tests.cast import factories
from tests.matrix.routes import KEY, OF_A_THREAD, ask, client_of, declaring, make_whole

pytestmark = pytest.mark.django_db

T = "/api/v1/threads/{thread}"
#: Writes that a closed thread accepts.
STILL = {
    f"put {T}",
    f"patch {T}",
    *(f"post {T}:{v}" for v in ("close", "reopen", "fork")),
    # An answer is judged later.
    *(f"{method} {T}/turns/{{turn}}/mark" for method in ("put", "delete")),
}
PAGING = f"get {T}/paging"
#: Tool calls: a wrong call gets a normal answer.
TOLD = {f"post {T}/tool-calls"}
#: Operations on a subject's knowledge, which is in the home thread.
OF_ITS_SUBJECT = {
    label for label in OF_A_THREAD if re.search(r"/(blocks|facts)\b", label)
}
#: Field of the stats that grows with time, fixed for comparison.
IDLE = {"idle_seconds": 0}
REPLAYED = "idempotent-replayed"
#: Bodies of writes that fill a thread, by collection.
MORE = {"slots": SLOT, "notes": {"text": "hm"}, "keys": KEY, "pages": PAGE}
READS = [label for label in OF_A_THREAD if label.startswith("get ")]
#: POST operations that only read: search text must not be in an address.
#: Endings of reads that are POSTs, so that their texts stay out of addresses.
_ASKING = ("/search", "/recall", ":check")
SEARCHES = [label for label in OF_A_THREAD if label.endswith(_ASKING)]
MINDING = [label for label in declaring("If-Match") if label not in TOLD]
NAMED = [label for label in declaring("Idempotency-Key") if label not in TOLD]
#: The cursor of events is a seq.
LISTS = [label for label in declaring("after") if "events" not in label]


@pytest.fixture(scope="module")
def acme(standing: None) -> Project:
    made = factories.make_project("acme")
    make_whole(factories.make_agent(made))
    return made


@pytest.fixture(scope="module")
def client(acme: Project) -> Client:
    return client_of(acme)


@pytest.mark.parametrize("label", NAMED)
def test_repeated_write_answers_the_same_and_writes_nothing(
    client: Client, label: str
) -> None:
    named = [("idempotency-key", "k")]
    first = ask(client, label, headers=named)
    events = Event.objects.count()
    again = ask(client, label, headers=named)
    assert (again.status, again.body) == (first.status, first.body)
    assert (first.header(REPLAYED), again.header(REPLAYED)) == (None, "true")
    other = run(client.post("/threads/t-2/slots", SLOT, headers=named))
    assert (other.status, other.code) == (422, "idempotency_mismatch")
    assert Event.objects.count() == events


@pytest.mark.parametrize("label", MINDING)
def test_write_with_a_stale_if_match_is_refused(client: Client, label: str) -> None:
    events = Event.objects.count()
    for seen, expected in (("99", (409, "stale")), ("x", (400, "bad_precondition"))):
        answer = ask(client, label, headers=[("if-match", seen)])
        assert (answer.status, answer.code) == expected, seen
        assert Event.objects.count() == events, seen


@pytest.mark.parametrize(
    "label",
    [each for each in MINDING if "post " in each and each not in OF_ITS_SUBJECT],
)
def test_write_with_the_current_if_match_is_accepted(
    client: Client, label: str
) -> None:
    seen = [("if-match", str(Thread.objects.get(name="t-1").head_seq))]
    assert ask(client, label, headers=seen).status < 300


@pytest.mark.parametrize("label", READS)
def test_read_changes_nothing(client: Client, label: str) -> None:
    def everything() -> list[object]:
        rows = [Event.objects.count(), *Thread.objects.values_list()]
        return [*rows, ask(client, f"get {T}/tlb").json, ask(client, PAGING).json]

    before = everything()
    assert ask(client, label).status == 200
    assert everything() == before


@pytest.mark.parametrize(
    "label", [each for each in declaring("at_seq") if each not in OF_ITS_SUBJECT]
)
def test_read_is_as_of_any_event(client: Client, label: str) -> None:
    head = Thread.objects.get(name="t-1").head_seq
    now = {**ask(client, label).json, **IDLE}
    for query in (f"at_seq={head}", "at_turn=2"):
        assert {**ask(client, label, query=query).json, **IDLE} == now
    for query in (f"at_seq={head + 1}", "at_turn=3"):
        beyond = ask(client, label, query=query)
        assert (beyond.status, beyond.code) == (404, "seq_unknown"), query
    assert ask(client, label, query="at_seq=0").status in (200, 404)


@pytest.mark.parametrize("label", LISTS)
def test_list_is_walked_by_its_own_cursors_only(client: Client, label: str) -> None:
    part, found = ask(client, label, query="limit=1").json, []
    cursor, name = part["next"], "keys" if "compare" in label else "items"
    while True:
        found += part[name]
        if part["next"] is None:
            break
        part = ask(client, label, query=f"limit=1&after={part['next']}").json
    assert found == ask(client, label, query="limit=200").json[name]
    for forged in ("3", "x" * 20, cursor[:-1] if cursor else "-1"):
        answer = ask(client, label, query=f"limit=1&after={forged}")
        assert (answer.status, answer.code) == (400, "bad_cursor")


def test_read_costs_the_same_at_any_size(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "BELIEVED_SECONDS", 60.0)
    counts = list[dict[str, int]]()
    for size in (1, 80):
        for path, item in MORE.items():
            items = [
                {**item, "key": f"k{n}"} if "op" in item else item for n in range(size)
            ]
            made = run(client.post(f"/threads/t-1/{path}:batch", {"items": items}))
            assert made.status < 300, made.body
        counts.append({label: _count_statements(client, label) for label in READS})
    assert counts[0] == counts[1]


def _count_statements(client: Client, label: str) -> int:
    """Count the SQL statements of a read that is not the first."""
    query = "limit=200" if label in LISTS else ""
    ask(client, label, query=query)
    with CaptureQueriesContext(connections["default"]) as asked:
        ask(client, label, query=query)
    return len(asked)


@pytest.mark.parametrize(
    "label", [each for each in OF_A_THREAD if each not in TOLD | OF_ITS_SUBJECT]
)
def test_closed_or_retired_thread_refuses_writes(
    acme: Project, client: Client, label: str
) -> None:
    address = Address(project=acme.id, name="t-1")
    for command, expected, still in (
        (CloseThread(reason="completed"), (409, "thread_closed"), STILL),
        (RetireThread(policy_days=1, idle_days=2), (410, "thread_erased"), set[str]()),
    ):
        perform(Order(address=address, command=command, actor="command"))
        events = Event.objects.count()
        answer = ask(client, label)
        if label in still.union(READS, SEARCHES):
            assert answer.status < 300, answer.body
        else:
            assert (answer.status, answer.code) == expected
            assert Event.objects.count() == events
