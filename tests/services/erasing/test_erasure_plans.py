from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import orjson
import pytest
import time_machine
from django.db import OperationalError, connection
from django.utils import timezone

from memoryhub.errors import (
    ErasureInProgressError,
    InvalidError,
    SubjectRestrictedError,
    UnavailableError,
)
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.people import subjects
from tests.cast.factories import append, get_thread, make_page, make_thread
from tests.cast.forgetting import plan

pytestmark = pytest.mark.django_db

State = Erasure.State
Run: TypeAlias = Callable[..., Any]


@pytest.fixture
def ann(agent: Agent) -> Subject:
    """Make two threads with messages and a page each."""
    for name in ("ann-1", "ann-2"):
        make_thread(agent, name, user_id="ann", labels={"channel": "web"})
        append(agent, name, "I would like seat 12A, please.", "And a meal.")
        make_page(agent, "rules", thread=name)
    found = subjects.find(agent.project, "ann")
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def bob(agent: Agent) -> Thread:
    """Make the twin: the same texts of another subject."""
    thread = make_thread(agent, "bob-1", user_id="bob", labels={"channel": "web"})
    append(agent, "bob-1", "I would like seat 12A, please.", "And a meal.")
    return thread


def count_places(row: Erasure) -> dict[str, int]:
    return {each.place: each.erase for each in ErasureLine.from_row(row).places}


def test_plan_counts_each_place_and_changes_nothing(ann: Subject) -> None:
    before = list(Event.objects.order_by("thread", "seq").values_list("chain"))
    row = plan(ann)
    counts = count_places(row)
    threads = Thread.objects.filter(subject=ann)
    sealed = Event.objects.filter(thread__in=threads, payload__isnull=False)
    assert counts["events"] == sealed.count() > 4
    assert counts["threads"] == counts["thread_labels"] == 2
    assert counts["slots"] == 4
    assert counts["subjects"] == counts["subject_keys"] == 1
    line = ErasureLine.from_row(row)
    assert line.count == sum(counts.values())
    assert (line.state, line.threads, line.forks) == (State.PLANNED, 2, 0)
    assert "backups" in line.residue
    assert list(Event.objects.order_by("thread", "seq").values_list("chain")) == before
    assert Subject.objects.get(id=ann.id).state == Subject.State.ACTIVE
    heads = orjson.loads(row.targets)["heads"]
    assert {tuple(each) for each in heads} == {
        (str(thread.id), thread.head_seq) for thread in threads
    }
    assert AuditEntry.objects.filter(action="erasure.planned").count() == 1


def test_thread_scope_plans_that_thread_alone(agent: Agent, ann: Subject) -> None:
    row = plan(ann, "thread", thread=get_thread(agent, "ann-1"))
    assert count_places(row)["threads"] == 1
    assert "subject_keys" not in count_places(row)
    assert count_places(row)["slots"] == 2


def test_plan_that_matches_nothing_counts_zero(ann: Subject) -> None:
    row = plan(ann, "before", before=datetime(1999, 1, 1, tzinfo=UTC))
    assert ErasureLine.from_row(row).count == 0


@pytest.mark.parametrize(
    ("asked", "loc"),
    [
        ({"scope": "all"}, "scope"),
        ({"reason": "she asked me to"}, "reason"),
        ({"ticket": "x y"}, "ticket"),
        ({"ticket": "ann@example.com"}, "ticket"),
        ({"ticket": "LEGAL-42\n"}, "ticket"),
        ({"ticket": "T-49157712"}, "ticket"),
        ({"scope": "before"}, "before"),
        ({"before": datetime(2020, 1, 1, tzinfo=UTC)}, "before"),
        ({"scope": "before", "before": datetime(2020, 1, 1)}, "before"),  # noqa: DTZ001
        ({"scope": "before", "before": datetime(1969, 1, 1, tzinfo=UTC)}, "before"),
        ({"scope": "before", "before": datetime(2190, 1, 1, tzinfo=UTC)}, "before"),
        ({"scope": "thread"}, "thread"),
        ({"scope": "record"}, "thread"),
        ({"seq": 1}, "record"),
    ],
)
def test_invalid_erasure_request_is_refused(
    ann: Subject, asked: dict[str, object], loc: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        plan(ann, **asked)  # type: ignore[arg-type]
    assert refused.value.loc == loc
    assert not Erasure.objects.exists()


def test_plan_of_another_subjects_thread_is_refused(agent: Agent, ann: Subject) -> None:
    with pytest.raises(InvalidError):
        plan(ann, "thread", thread=get_thread(agent, "bob-1"))


def test_subject_has_one_open_erasure_at_a_time(ann: Subject) -> None:
    first = plan(ann)
    with pytest.raises(ErasureInProgressError) as refused:
        plan(ann)
    assert refused.value.detail["erasure"] == str(first.id)
    bob = subjects.find(ann.project_id, "bob")
    assert bob is not None
    plan(bob)
    erasures.cancel(first, actor="command")
    plan(ann)


def test_expired_plan_allows_a_new_one(ann: Subject) -> None:
    first = plan(ann)
    with time_machine.travel(timezone.now() + timedelta(minutes=16)):
        second = plan(ann)
    assert Erasure.objects.get(id=first.id).state == State.EXPIRED
    assert second.state == State.PLANNED


def test_plan_may_keep_agents_out_until_it_expires(agent: Agent, ann: Subject) -> None:
    row = plan(ann, restrict=True)
    with pytest.raises(SubjectRestrictedError):
        append(agent, "ann-1", "Still there?")
    append(agent, "bob-1", "I am not the one.")
    assert erasures.close_due() == 0
    with time_machine.travel(timezone.now() + timedelta(minutes=16)):
        assert erasures.close_due() == 1
        append(agent, "ann-1", "Here again.")
    assert Erasure.objects.get(id=row.id).state == State.EXPIRED


def list_audited(subject: Subject) -> list[tuple[str, str]]:
    """List audit entries about the subject, as (action, actor kind)."""
    rows = AuditEntry.objects.filter(target_id=str(subject.id)).order_by("seq")
    return [*rows.values_list("action", "actor_kind")]


def test_plan_restriction_and_its_end_are_audited(ann: Subject) -> None:
    erasures.cancel(plan(ann), actor="command")
    assert list_audited(ann) == []
    erasures.cancel(plan(ann, restrict=True), actor="command")
    told = [("subject.restricted", "command"), ("subject.unrestricted", "command")]
    assert list_audited(ann) == told
    plan(ann, restrict=True)
    with time_machine.travel(timezone.now() + timedelta(minutes=16)):
        assert erasures.close_due() == 1
    told += [("subject.restricted", "command"), ("subject.unrestricted", "worker")]
    assert list_audited(ann) == told


@pytest.mark.parametrize("fails", [True, False])
def test_failed_plan_restricts_nobody(agent: Agent, ann: Subject, fails: bool) -> None:
    """Lose the database after the plan is counted, or not at all."""

    def lost(run: Run, sql: str, params: Any, many: bool, context: Any) -> Any:
        if fails and 'INSERT INTO "memoryhub_erasure"' in sql:
            raise OperationalError
        return run(sql, params, many, context)

    with connection.execute_wrapper(lost):
        if fails:
            with pytest.raises(UnavailableError):
                plan(ann, restrict=True)
        else:
            plan(ann, restrict=True)
    found = Subject.objects.get(id=ann.id)
    assert found.state == ("active" if fails else "restricted")
    assert Erasure.objects.exists() != fails
    assert bool(list_audited(ann)) != fails
    if fails:
        append(agent, "ann-1", "Still there?")
        assert plan(ann).state == State.PLANNED


def test_earlier_restriction_outlives_the_plan(ann: Subject) -> None:
    Subject.objects.filter(id=ann.id).update(state="restricted", basis="claims")
    row = plan(ann, restrict=True)
    erasures.cancel(row, actor="command")
    found = Subject.objects.get(id=ann.id)
    assert (found.state, found.basis) == ("restricted", "claims")


def test_token_covers_every_field_of_one_plan(ann: Subject) -> None:
    row = plan(ann)
    token = erasures.build_token(row)
    erasures.require_token(row, token)
    for name, value in (
        ("planned", row.planned.replace('"count"', '"count" ')),
        ("targets", '{"heads":[],"ranges":[]}'),
        ("epoch", row.epoch + 1),
        ("scope", "thread"),
        ("expires_at", row.expires_at + timedelta(seconds=1)),
    ):
        kept = getattr(row, name)
        setattr(row, name, value)
        changed = erasures.build_token(row)
        setattr(row, name, kept)
        # The same JSON with other whitespace is the same plan.
        assert (changed != token) == (name != "planned"), name
    row.planned = row.planned.replace('"threads":2', '"threads":3')
    with pytest.raises(InvalidError):
        erasures.require_token(row, token)
