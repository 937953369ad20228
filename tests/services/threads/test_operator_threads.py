from __future__ import annotations

import orjson
import pytest

from memoryhub.errors import BeyondHeadError, InvalidError, NameTakenError
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories

pytestmark = pytest.mark.django_db
ACTOR = "operator:01890000-0000-7000-8000-000000000000"


@pytest.fixture
def talk(agent: Agent) -> Thread:
    factories.make_thread(agent, labels={"team": "red"}, max_slots=50)
    factories.append(agent, "t-1", "one", "two")
    return factories.get_thread(agent)


def test_operator_closes_and_reopens_under_their_own_name(talk: Thread) -> None:
    operator_threads.close(talk, actor=ACTOR, reason="failed")
    operator_threads.reopen(talk, actor=ACTOR)
    newest = talk.events.order_by("-seq")[:2]
    assert [(event.type, event.actor) for event in newest] == [
        ("thread.reopened", ACTOR),
        ("thread.closed", ACTOR),
    ]


def test_closing_twice_writes_once(talk: Thread) -> None:
    first = operator_threads.close(talk, actor=ACTOR, reason="completed")
    second = operator_threads.close(talk, actor=ACTOR, reason="completed")
    assert (len(first.events), len(second.events)) == (1, 0)


def test_fork_takes_scope_labels_and_limits(agent: Agent, talk: Thread) -> None:
    operator_threads.fork(talk, actor=ACTOR, name="t-2", seq=2)
    fork = factories.get_thread(agent, "t-2")
    assert (fork.slot_count, fork.parent_id, fork.fork_seq) == (1, talk.id, 2)
    assert (fork.labels, fork.config) == (talk.labels, talk.config)
    assert fork.subject_id == talk.subject_id


@pytest.mark.parametrize(
    ("name", "seq", "refusal"),
    [
        ("t-1", 1, NameTakenError),
        ("t-2", 4, BeyondHeadError),
        ("a b", 1, InvalidError),
        ("mh.x", 1, InvalidError),
        ("", 1, InvalidError),
    ],
)
def test_refused_fork_changes_nothing(
    talk: Thread, name: str, seq: int, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        operator_threads.fork(talk, actor=ACTOR, name=name, seq=seq)
    assert Thread.objects.count() == 1


def test_thread_gets_retention_days_of_its_own(agent: Agent, talk: Thread) -> None:
    made = orjson.loads(talk.config)
    first = operator_threads.set_retention(talk, actor=ACTOR, idle_days=9, owner=True)
    assert [event.event.event_type for event in first.events] == ["thread.configured"]
    row = factories.get_thread(agent)
    assert orjson.loads(row.config) == {**made, "retention_idle_days": 9}
    again = operator_threads.set_retention(talk, actor=ACTOR, idle_days=9, owner=True)
    assert again.events == ()
    operator_threads.set_retention(talk, actor=ACTOR, idle_days=None)
    assert orjson.loads(factories.get_thread(agent).config) == made


def test_only_owners_shorten_the_retention_of_a_thread(
    acme: Project, agent: Agent, talk: Thread
) -> None:
    """Let an editor set no fewer than the project's days until an idle thread goes."""

    def keep(days: int | None, *, owner: bool = False) -> object:
        operator_threads.set_retention(talk, actor=ACTOR, idle_days=days, owner=owner)
        config = orjson.loads(factories.get_thread(agent).config)
        return config.get("retention_idle_days")

    def assert_refused(days: int) -> None:
        with pytest.raises(InvalidError) as refusal:
            keep(days)
        assert refusal.value.loc == "config.retention_idle_days"

    # The project keeps threads for ever, which no number of days exceeds.
    assert_refused(1)
    assert_refused(36_500)
    projects.set_retention(acme, idle_days=30)
    assert_refused(29)
    assert [keep(days) for days in (30, 31)] == [30, 31]
    assert keep(5, owner=True) == 5
    # The editor may repeat the owner's days, and take them back.
    assert keep(5) == 5
    assert_refused(6)
    assert keep(None) is None


def test_retention_days_out_of_bounds_change_nothing(talk: Thread) -> None:
    for days in (0, 36_501):
        with pytest.raises(InvalidError):
            operator_threads.set_retention(talk, actor=ACTOR, idle_days=days)
    assert Thread.objects.get().head_seq == talk.head_seq
