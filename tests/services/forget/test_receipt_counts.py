"""Receipts against the database: each place of a receipt, counted by separate SQL.

This file's own statements count before and after, in a memory with two generations
of forks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.conf import settings
from django.db import connections

from memoryhub import journal
from memoryhub.journal.log import snapshots
from memoryhub.journal.writing.uses import uses
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import bundled
from tests.cast.factories import append, get_thread, make_agent, run
from tests.cast.forgetting import confirm, finish, get_subject, plan
from tests.services.acts import fork

pytestmark = pytest.mark.django_db(transaction=True)

POSTGRES = "postgresql" in settings.DATABASES["default"]["ENGINE"]
_HERS = "JOIN memoryhub_thread t ON t.id = x.thread_id WHERE t.subject_id = %s"
_ALL = "SELECT count(*) FROM memoryhub_{table} x " + _HERS
#: Statements that count a subject's rows, by the place's name in receipts.
PLACES: Mapping[str, str] = {
    "events": _ALL.format(table="event") + " AND x.payload IS NOT NULL",
    "slots": _ALL.format(table="slot"),
    "turns": _ALL.format(table="turn"),
    "pages": _ALL.format(table="page") + " AND x.deleted_seq IS NULL",
    "page_levels": _ALL.format(table="pagelevel"),
    "evicted_pages": _ALL.format(table="evictedpage"),
    "keys": _ALL.format(table="key"),
    "checkpoints": _ALL.format(table="checkpoint"),
    "due_values": _ALL.format(table="duevalue"),
    "snapshots": _ALL.format(table="snapshot"),
    "thread_labels": _ALL.format(table="threadlabel"),
    "request_keys": _ALL.format(table="requestkey"),
    "derivations": _ALL.format(table="derivation"),
    "threads": "SELECT count(*) FROM memoryhub_thread"
    " WHERE subject_id = %s AND name NOT LIKE '~%%'",
    "subjects": "SELECT count(*) FROM memoryhub_subject WHERE id = %s"
    " AND (subject_ref IS NOT NULL OR external_id IS NOT NULL)",
    "daily_uses": "SELECT count(*) FROM memoryhub_dailyuse WHERE subject_id = %s",
    "totals": "SELECT count(*) FROM memoryhub_total WHERE subject_id = %s",
}
KEYS = "SELECT count(*) FROM memoryhub_subjectkey WHERE subject = %s"


def count_places(subject: UUID) -> dict[str, int]:
    asked = [subject if POSTGRES else subject.hex]
    found = {}
    for alias, places in (("default", PLACES), ("keys", {"subject_keys": KEYS})):
        with connections[alias].cursor() as cursor:
            for place, statement in places.items():
                cursor.execute(statement, asked)
                (found[place],) = cursor.fetchone()
    return found


def read_receipt(row: Erasure) -> dict[str, Any]:
    shape: dict[str, Any] = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    return shape


@pytest.fixture
def ann(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Subject:
    monkeypatch.setattr(snapshots, "INTERVAL", 8)
    bundled.live_in_threads(agent, "ann", prefix="ann-")
    bundled.live_in_threads(agent, "bob", prefix="bob-")
    request = journal.KeyedRequest(key="k-1", fingerprint=b"same")
    append(agent, "ann-t-1", "said once", request=request)
    journal.run(uses.flush)
    return get_subject(agent, "ann")


def build_target(agent: Agent, scope: str) -> dict[str, object]:
    thread = get_thread(agent, "ann-t-1")
    first = Event.objects.filter(thread=thread, page="fares").earliest("seq").seq
    given: dict[str, dict[str, object]] = {
        "subject": {},
        "thread": {"thread": thread},
        "before": {"before": clock.now() - timedelta(microseconds=1)},
        "record": {"thread": thread, "seq": first},
    }
    return given[scope]


@pytest.mark.parametrize("late", [False, True], ids=["planned", "forked-meanwhile"])
@pytest.mark.parametrize("scope", ["subject", "thread", "before", "record"])
def test_receipt_counts_match_the_database(
    agent: Agent, ann: Subject, scope: str, late: bool
) -> None:
    """Compare the receipt's erased, retained and rebuilt rows with the counts."""
    bob = get_subject(agent, "bob")
    twin = count_places(bob.id)
    row = confirm(plan(ann, scope, **build_target(agent, scope))) if late else None
    if late and scope != "subject":
        # Fork between the confirmation and the fence.
        fork(agent, "ann-t-1", "ann-late")
    before = count_places(ann.id)
    row = finish(row or confirm(plan(ann, scope, **build_target(agent, scope))))
    assert (row.state, row.waiting_on) == (Erasure.State.COMPLETE, "")
    after, told = count_places(ann.id), read_receipt(row)
    # The confirmation of a whole subject fences at once, before the first count.
    if not (late and scope == "subject"):
        gone = {place: n - after[place] for place, n in before.items()}
        erased = {place: each["count"] for place, each in told["erased"].items()}
        if scope in ("before", "record"):
            # Each erased snapshot is made anew, and further due ones besides.
            planned = orjson.loads(row.planned)["places"]["snapshots"]
            assert planned["derive"] == before["snapshots"] <= after["snapshots"]
            del gone["snapshots"]
        if scope != "subject":
            # The totals count the smaller memory and the decrease itself.
            del gone["totals"]
        assert {place: n for place, n in gone.items() if n} == erased
        assert told["fenced"] == erased
    assert told["erased"]["events"]["count"] > 0
    named = after["threads"] and "~" not in get_name(agent, row)
    words = {each["what"] for each in told["residue"]}
    assert ("names_in_forks" in words) is (scope == "thread" and bool(named))
    kept = {each["what"] for each in told["retained"] if each["reason"] == "fork"}
    assert kept == ({"threads", "slots", "turns"} if scope == "thread" else set())
    # All snapshots of the threads that stay were made anew.
    left = after["snapshots"]
    assert told["rebuilt"] == ({"snapshots": left} if left else {})
    assert count_places(bob.id) == twin
    for thread in ann.threads.select_related("subject"):
        assert verify(thread) is None


def get_name(agent: Agent, row: Erasure) -> str:
    return row.thread.name if row.thread else "~"


def test_receipt_names_every_key_that_was_handed_memory(
    acme: Project, agent: Agent, ann: Subject
) -> None:
    """Name keys that began a turn, even in the moment before the fence."""
    turning, writing, before = (make_agent(acme) for _ in range(3))
    run(turns.begin_turn(agent=before, thread="ann-t-1", new=NewTurn()))
    journal.run(uses.flush)
    append(writing, "ann-t-1", "It only writes.")
    row = plan(ann)
    run(turns.begin_turn(agent=turning, thread="bob-t-1", new=NewTurn()))
    uses.count_read(turning.prefix, ann.id)
    row = finish(confirm(row))
    told = read_receipt(row)["recipients"]
    # The agent of the fixture began turns as well.
    expected = {agent.prefix, turning.prefix, before.prefix}
    assert told == sorted(f"key:{prefix}" for prefix in expected)


def test_receipt_names_keys_recorded_after_the_fence(
    acme: Project, agent: Agent, ann: Subject
) -> None:
    """Flush reads that another process counted while this one made the fence."""
    other = make_agent(acme)
    row = confirm(plan(ann))
    assert row.state == Erasure.State.FENCED
    uses.count_read(other.prefix, ann.id)
    journal.run(uses.flush)
    told = read_receipt(finish(row))["recipients"]
    assert told == sorted([f"key:{agent.prefix}", f"key:{other.prefix}"])
    assert count_places(ann.id)["daily_uses"] == 0
