"""Threads that were made and erased since a backup: their names stay dead after it."""

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
from tests.cast.forgetting import forget, make_person, of, plan

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture(autouse=True)
def going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "waiting", 0)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return make_person(agent, "ann")


def intended(agent: Agent, ann: Subject, name: str, **more: object) -> ledger.Line:
    """The line of a thread of hers that no database knows any more."""
    digest = blind_index.thread_name(keys.project_key(agent.project), name)
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


def test_the_ledger_says_the_names_digest_all_along(agent: Agent, ann: Subject) -> None:
    """Before the fence, when it is complete, and never the name."""
    thread = get_thread(agent, "ann-1")
    forget(ann, "thread", thread=thread)
    digest = blind_index.thread_name(keys.project_key(agent.project), "ann-1")
    told = [(line.kind, *line.targets) for line in ledger.lines()]
    expected = (str(thread.id), digest.hex())
    assert told == [("intent", *expected), ("done", *expected)]
    assert b"ann-1" not in ledger.path().read_bytes()
    assert replays.look() == 0


@pytest.mark.parametrize("known", [True, False])
def test_a_name_stays_dead_though_nobody_knows_the_thread(
    agent: Agent, ann: Subject, known: bool
) -> None:
    """Whether or not she is in the backup; other names are free."""
    more = {} if known else {"subject": uuid4()}
    line = intended(agent, ann, "later-1", **more)
    assert replays.look() == 1
    row = replays.replay(line)
    assert (row.id, row.state, row.thread) == (line.erasure, State.COMPLETE, None)
    with pytest.raises(ThreadErasedError):
        make_thread(agent, "later-1", user_id="ann")
    make_thread(agent, "later-2", user_id="ann")
    told = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    assert (told["fenced"], told["erased"]) == ({}, {})
    assert told["verification"]["undeclared"] == 0
    assert [each.kind for each in ledger.lines()] == ["intent", "done"]
    assert not Subject.objects.filter(id=line.subject).exists() or known
    # Hers is as it was, and the next start has nothing to do.
    append(agent, "ann-1", "She lives.")
    assert (replays.look(), replays.pending()) == (0, [])


def test_one_who_was_forgotten_since_leaves_no_name_either(
    agent: Agent, ann: Subject
) -> None:
    line = intended(agent, ann, "later-1")
    whole = intended(agent, ann, "", scope="subject", targets=[])
    assert [each.n for each in replays.pending()] == [line.n, whole.n]
    for each in replays.pending():
        assert replays.replay(each).state == State.COMPLETE
    with pytest.raises(ThreadErasedError):
        make_thread(agent, "later-1", user_id="bob")
    assert Event.objects.filter(thread__subject=ann, payload__isnull=False).count() == 0
    assert replays.look() == 0


def test_a_name_that_was_let_go_is_not_buried_again(agent: Agent, ann: Subject) -> None:
    line = intended(agent, ann, "later-1")
    replays.replay(line)
    Tombstone.objects.filter(kind="thread").delete()
    assert (replays.look(), ledgers.unheard([line])) == (0, [])
    make_thread(agent, "later-1", user_id="ann")
    assert of(agent, "ann").state == "active"


def test_what_is_here_is_erased_and_not_just_buried(agent: Agent, ann: Subject) -> None:
    """The twin: the backup is of before the erasure, and knows the thread."""
    thread = get_thread(agent, "ann-1")
    line = intended(agent, ann, "ann-1")
    line = replace(line, targets=(str(thread.id), line.targets[1]))
    assert ledgers.unheard([line]) == []
    assert replays.replay(line).state == State.COMPLETE
    assert Thread.objects.get(id=thread.id).name[0] == "~"


def gone(agent: Agent, subject: UUID, names: Iterable[str], **more: object) -> Any:
    """The line of somebody with threads that no database knows any more."""
    project = keys.project_key(agent.project)
    digests = [blind_index.thread_name(project, name).hex() for name in names]
    more = {"subject": subject, "scope": "subject", "targets": digests, **more}
    return intended(agent, Subject(id=subject, created_at=clock.now()), "", **more)


@pytest.mark.parametrize("known", [True, False])
def test_the_names_of_a_whole_persons_threads_stay_dead(
    agent: Agent, ann: Subject, known: bool
) -> None:
    """Those that the backup has, and those that were made and erased since."""
    names = ["ann-1", "later-1", "later-2"] if known else ["later-1", "later-2"]
    line = gone(agent, ann.id if known else uuid4(), names, ticket="LEGAL-42")
    assert replays.look() == 1
    row = replays.replay(line)
    assert (row.state, row.ticket) == (State.COMPLETE, "LEGAL-42")
    for name in names:
        with pytest.raises(ThreadErasedError) as refusal:
            make_thread(agent, name, user_id="bob")
        assert refusal.value.detail["erasure"] == str(line.erasure)
    make_thread(agent, "later-3", user_id="bob")
    assert Tombstone.objects.filter(kind="thread").count() == len(names)
    told = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
    assert told["ticket"] == "LEGAL-42"
    assert replays.look() == 0


def test_what_is_fenced_at_the_start_leaves_no_name_either(
    agent: Agent, ann: Subject
) -> None:
    """The backup is as of the plan; a thread was made before it was confirmed."""
    row = plan(ann)
    line = gone(agent, ann.id, ["later-1"], erasure=row.id)
    assert replays.look() == 0
    row.refresh_from_db()
    assert (row.state, row.ledger_n) == ("fenced", line.n)
    with pytest.raises(ThreadErasedError):
        make_thread(agent, "later-1", user_id="bob")


def test_a_person_with_very_many_threads(agent: Agent, ann: Subject) -> None:
    """As many statements for each thousand names, and one line of the ledger."""
    names = [f"later-{n}" for n in range(2_500)]
    line = gone(agent, ann.id, names)
    with CaptureQueriesContext(connection) as asked:
        row = Erasure(id=graves.make_erasure(ann).id, project_id=agent.project)
        row.subject_id = ann.id
        thread_tombstones.lay(row, line)
        thread_tombstones.lay(row, line)
    laid = [each for each in asked if "INSERT" in each["sql"]]
    assert 3 <= len(laid) < 40
    assert Tombstone.objects.filter(kind="thread").count() == 2_500
