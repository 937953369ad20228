"""Threads that were made and erased since a backup: their names stay dead after it."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import orjson
import pytest

from memoryhub.errors import ThreadErasedError
from memoryhub.models.erasures import Erasure, Receipt, Tombstone
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services import ledgers, replays
from memoryhub.services.api_keys import Agent
from memoryhub.services.standstill import standstill
from memoryhub.vault import blind_index, keys, ledger
from tests.factories import append, get_thread, make_thread
from tests.forgetting import forget, make_person, of

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture(autouse=True)
def going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "waiting", 0)


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
