"""Threads made and erased since a backup: their names stay dead after a restore."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import ThreadErasedError
from memoryhub.models.erasures import Erasure, Receipt, Tombstone
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import ledgers, replays, thread_tombstones
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.vault.keys import blind_index, keys
from memoryhub.vault.proof import ledger
from tests.cast import graves
from tests.cast.factories import append, get_thread, make_thread
from tests.cast.forgetting import forget, get_subject, make_person, plan

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture(autouse=True)
def going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "waiting", 0)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return make_person(agent, "ann")


def append_intent(
    agent: Agent, ann: Subject, name: str, **more: object
) -> ledger.LedgerLine:
    """Write the line of a thread that no database knows any more."""
    digest = blind_index.digest_thread_name(keys.get_project_key(agent.project), name)
    return ledger.append(
        **{  # type: ignore[arg-type]  # of several types
            "kind": "intent",
            "erasure": uuid4(),
            "project": agent.project,
            "subject": ann.id,
            "subject_ref": None,
            "scope": "thread",
            "reason": "test",
            "targets": [str(uuid4()), digest.hex()],
            "at": ann.created_at,
            **more,
        }
    )


def test_ledger_lines_hold_the_digest_of_a_thread_name(
    agent: Agent, ann: Subject
) -> None:
    """Write the digest with the intent and with the end, and never the name."""
    thread = get_thread(agent, "ann-1")
    forget(ann, "thread", thread=thread)
    digest = blind_index.digest_thread_name(
        keys.get_project_key(agent.project), "ann-1"
    )
    told = [(line.kind, *line.targets) for line in ledger.iter_lines()]
    expected = (str(thread.id), digest.hex())
    assert told == [("intent", *expected), ("done", *expected)]
    assert b"ann-1" not in ledger.path().read_bytes()
    assert replays.fence_and_count() == 0


@pytest.mark.parametrize("known", [True, False])
def test_name_of_an_unknown_erased_thread_stays_dead(
    agent: Agent, ann: Subject, known: bool
) -> None:
    """Replay with and without the subject in the backup; other names stay free."""
    more = {} if known else {"subject": uuid4()}
    line = append_intent(agent, ann, "later-1", **more)
    assert replays.fence_and_count() == 1
    row = replays.replay_erasure(line)
    assert (row.id, row.state, row.thread) == (line.erasure, State.COMPLETE, None)
    with pytest.raises(ThreadErasedError):
        make_thread(agent, "later-1", user_id="ann")
    make_thread(agent, "later-2", user_id="ann")
    told = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    assert (told["fenced"], told["erased"]) == ({}, {})
    assert told["verification"]["undeclared"] == 0
    assert [each.kind for each in ledger.iter_lines()] == ["intent", "done"]
    assert not Subject.objects.filter(id=line.subject).exists() or known
    # The subject's thread is as it was, and the next start has nothing to do.
    append(agent, "ann-1", "She lives.")
    assert (replays.fence_and_count(), replays.list_pending()) == (0, [])


def test_thread_name_of_a_subject_erased_since_stays_dead(
    agent: Agent, ann: Subject
) -> None:
    line = append_intent(agent, ann, "later-1")
    whole = append_intent(agent, ann, "", scope="subject", targets=[])
    assert [each.n for each in replays.list_pending()] == [line.n, whole.n]
    for each in replays.list_pending():
        assert replays.replay_erasure(each).state == State.COMPLETE
    with pytest.raises(ThreadErasedError):
        make_thread(agent, "later-1", user_id="bob")
    assert Event.objects.filter(thread__subject=ann, payload__isnull=False).count() == 0
    assert replays.fence_and_count() == 0


def test_released_thread_name_gets_no_new_tombstone(agent: Agent, ann: Subject) -> None:
    line = append_intent(agent, ann, "later-1")
    replays.replay_erasure(line)
    Tombstone.objects.filter(kind="thread").delete()
    assert (replays.fence_and_count(), ledgers.filter_unknown_threads([line])) == (
        0,
        [],
    )
    make_thread(agent, "later-1", user_id="ann")
    assert get_subject(agent, "ann").state == "active"


def test_known_thread_is_erased_by_its_replay(agent: Agent, ann: Subject) -> None:
    """Replay over a backup of before the erasure, which knows the thread."""
    thread = get_thread(agent, "ann-1")
    line = append_intent(agent, ann, "ann-1")
    line = replace(line, targets=(str(thread.id), line.targets[1]))
    assert ledgers.filter_unknown_threads([line]) == []
    assert replays.replay_erasure(line).state == State.COMPLETE
    assert Thread.objects.get(id=thread.id).name[0] == "~"


def append_subject_intent(
    agent: Agent, subject: UUID, names: Iterable[str], **more: object
) -> Any:
    """Write the line of a subject with threads that no database knows any more."""
    project = keys.get_project_key(agent.project)
    digests = [blind_index.digest_thread_name(project, name).hex() for name in names]
    more = {"subject": subject, "scope": "subject", "targets": digests, **more}
    return append_intent(agent, Subject(id=subject, created_at=clock.now()), "", **more)


@pytest.mark.parametrize("known", [True, False])
def test_thread_names_of_an_erased_subject_stay_dead(
    agent: Agent, ann: Subject, known: bool
) -> None:
    """Cover names in the backup, and names made and erased since."""
    names = ["ann-1", "later-1", "later-2"] if known else ["later-1", "later-2"]
    line = append_subject_intent(
        agent, ann.id if known else uuid4(), names, ticket="LEGAL-42"
    )
    assert replays.fence_and_count() == 1
    row = replays.replay_erasure(line)
    assert (row.state, row.ticket) == (State.COMPLETE, "LEGAL-42")
    for name in names:
        with pytest.raises(ThreadErasedError) as refusal:
            make_thread(agent, name, user_id="bob")
        assert refusal.value.detail["erasure"] == str(line.erasure)
    make_thread(agent, "later-3", user_id="bob")
    assert Tombstone.objects.filter(kind="thread").count() == len(names)
    told = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    assert told["ticket"] == "LEGAL-42"
    assert replays.fence_and_count() == 0


def test_thread_name_of_a_plan_fenced_at_the_start_stays_dead(
    agent: Agent, ann: Subject
) -> None:
    """Restore a backup of the plan; a thread was made before the confirmation."""
    row = plan(ann)
    line = append_subject_intent(agent, ann.id, ["later-1"], erasure=row.id)
    assert replays.fence_and_count() == 0
    row.refresh_from_db()
    assert (row.state, row.ledger_n) == ("fenced", line.n)
    with pytest.raises(ThreadErasedError):
        make_thread(agent, "later-1", user_id="bob")


def test_many_thread_names_are_laid_in_few_statements(
    agent: Agent, ann: Subject
) -> None:
    """Lay the names by a few statements per thousand, from one ledger line."""
    names = [f"later-{n}" for n in range(2_500)]
    line = append_subject_intent(agent, ann.id, names)
    with CaptureQueriesContext(connection) as asked:
        row = Erasure(id=graves.make_erasure(ann).id, project_id=agent.project)
        row.subject_id = ann.id
        thread_tombstones.lay_tombstones(row, line)
        thread_tombstones.lay_tombstones(row, line)
    laid = [each for each in asked if "INSERT" in each["sql"]]
    assert 3 <= len(laid) < 40
    assert Tombstone.objects.filter(kind="thread").count() == 2_500
