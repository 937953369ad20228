"""Holds: opened for a reason, with a reviewer, and for a year at most."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from memoryhub.errors import InvalidError, NotFoundError, SubjectErasedError
from memoryhub.models import Membership, Operator, Project, Subject
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Hold
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import holds as listed
from memoryhub.queries.threads import retention
from memoryhub.services.access import operators, projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import holds, subjects
from memoryhub.workers import retention as retiring
from tests.cast import factories, graves

pytestmark = pytest.mark.django_db

ACTOR = "command"
DAY = timedelta(days=1)


@pytest.fixture
def ann(acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


def _operator(project: Project, role: str, name: str = "vera") -> Operator:
    made = operators.add(name)
    operators.set_role(project, made, Membership.Role(role))
    return made


@pytest.fixture
def vera(acme: Project) -> Operator:
    return _operator(acme, "officer")


def _open(subject: Subject, reviewer: Operator, *, days: float = 30) -> Hold:
    return holds.open_hold(
        subject,
        basis="legal_claims",
        reviewer=reviewer,
        expires_at=clock.now() + timedelta(days=days),
        actor=ACTOR,
    )


def _in_force(subject: Subject, *, ahead: timedelta = timedelta()) -> int:
    return listed.select_in_force(subject.id, now=clock.now() + ahead).count()


def test_hold_is_in_force_until_it_is_lifted_or_expires(
    ann: Subject, vera: Operator, acme: Project
) -> None:
    bob = subjects.find_or_create(acme.id, "bob")
    hold = _open(ann, vera, days=30)
    assert (_in_force(ann), _in_force(bob)) == (1, 0)
    assert _in_force(ann, ahead=29 * DAY) == 1
    assert _in_force(ann, ahead=31 * DAY) == 0
    holds.renew_hold(hold.id, expires_at=clock.now() + 60 * DAY, actor=ACTOR)
    assert _in_force(ann, ahead=31 * DAY) == 1
    holds.lift_hold(hold.id, actor=ACTOR)
    assert _in_force(ann) == 0
    rows = AuditEntry.objects.filter(target_id=str(hold.id)).order_by("seq")
    actions = ["hold.opened", "hold.renewed", "hold.lifted"]
    assert [*rows.values_list("action", flat=True)] == actions


def test_two_holds_are_lifted_one_by_one(ann: Subject, vera: Operator) -> None:
    first, second = _open(ann, vera), _open(ann, vera)
    holds.lift_hold(first.id, actor=ACTOR)
    assert _in_force(ann) == 1
    holds.lift_hold(second.id, actor=ACTOR)
    assert _in_force(ann) == 0


@pytest.mark.parametrize(
    ("days", "code"),
    [(0, "expiry_in_past"), (-1, "expiry_in_past"), (365.01, "value")],
)
def test_hold_ends_within_a_year(
    ann: Subject, vera: Operator, days: float, code: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        _open(ann, vera, days=days)
    assert (caught.value.invalid_code, caught.value.loc) == (code, "expires_at")
    hold = _open(ann, vera, days=365)
    with pytest.raises(InvalidError):
        holds.renew_hold(
            hold.id, expires_at=clock.now() + timedelta(days=days), actor=ACTOR
        )


def test_hold_expiry_without_a_time_zone_is_refused(
    ann: Subject, vera: Operator
) -> None:
    naive = datetime.now(UTC).replace(tzinfo=None) + DAY
    with pytest.raises(InvalidError):
        holds.open_hold(
            ann, basis="archiving", reviewer=vera, expires_at=naive, actor=ACTOR
        )


def test_hold_basis_is_one_of_five_words(ann: Subject, vera: Operator) -> None:
    for basis in ("", "claims", "because"):
        with pytest.raises(InvalidError):
            holds.open_hold(
                ann,
                basis=basis,
                reviewer=vera,
                expires_at=clock.now() + DAY,
                actor=ACTOR,
            )
    assert not Hold.objects.exists()


@pytest.mark.parametrize("role", ["viewer", "editor", "elsewhere", "disabled"])
def test_hold_reviewer_must_be_an_officer_or_owner(
    acme: Project, zeta: Project, ann: Subject, role: str
) -> None:
    there = role in ("viewer", "editor")
    project = zeta if role == "elsewhere" else acme
    reviewer = _operator(project, role if there else "officer")
    if role == "disabled":
        Operator.objects.filter(id=reviewer.id).update(is_active=False)
        reviewer.refresh_from_db()
    with pytest.raises(InvalidError) as caught:
        _open(ann, reviewer)
    assert caught.value.loc == "reviewer"
    _open(ann, _operator(acme, "owner", "olga"))


def test_ended_hold_can_be_neither_lifted_nor_renewed(
    ann: Subject, vera: Operator
) -> None:
    lifted, expired = _open(ann, vera), _open(ann, vera)
    holds.lift_hold(lifted.id, actor=ACTOR)
    Hold.objects.filter(id=expired.id).update(expires_at=clock.now() - DAY)
    for hold in (lifted.id, expired.id, uuid4()):
        with pytest.raises(NotFoundError):
            holds.lift_hold(hold, actor=ACTOR)
        with pytest.raises(NotFoundError):
            holds.renew_hold(hold, expires_at=clock.now() + DAY, actor=ACTOR)


@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_erased_subject_can_not_be_held(
    ann: Subject, vera: Operator, state: str
) -> None:
    graves.make_erasure(ann)
    Subject.objects.filter(id=ann.id).update(state=state)
    with pytest.raises(SubjectErasedError):
        _open(ann, vera)
    assert not Hold.objects.exists()


def test_hold_lines_name_their_reviewer(
    acme: Project, zeta: Project, ann: Subject, vera: Operator
) -> None:
    made = [_open(ann, vera, days=n + 1) for n in range(3)]
    holds.lift_hold(made[0].id, actor=ACTOR)
    now = clock.now()
    lines = listed.list_subject_holds(ann.id, now=now)
    assert {line.id for line in lines} == {hold.id for hold in made}
    assert {line.reviewer for line in lines} == {"vera"}
    assert sum(line.in_force for line in lines) == 2
    first = listed.list_holds(acme.id, now=now, limit=2)
    rest = listed.list_holds(acme.id, now=now, limit=2, after=first.next)
    assert [*first.items, *rest.items] == [*lines]
    open_ones = listed.list_holds(acme.id, now=now, open_only=True).items
    assert {line.id for line in open_ones} == {made[1].id, made[2].id}
    assert listed.list_holds(zeta.id, now=now).items == ()
    assert listed.get_hold(acme.id, made[0].id, now=now).lifted_by == ACTOR
    with pytest.raises(NotFoundError):
        listed.get_hold(zeta.id, made[0].id, now=now)


def test_held_thread_is_not_retired(
    agent: Agent, acme: Project, ann: Subject, vera: Operator
) -> None:
    """Retire the held thread after the hold, and the twin's thread at once."""
    for whose in ("ann", "bob"):
        factories.make_thread(agent, f"{whose}-1", user_id=whose)
    projects.set_retention(acme, idle_days=1)
    later = clock.now() + 5 * DAY
    hold = _open(ann, vera, days=10)
    row = factories.get_thread(agent, "ann-1")
    acme.refresh_from_db()
    due = {thread.name for thread in retention.filter_due(acme, at=later)}
    assert due == {"bob-1"}
    assert retention.get_due_at(row) == hold.expires_at
    assert retiring.retire(later) == 1
    holds.lift_hold(hold.id, actor=ACTOR)
    assert retiring.retire(later) == 1
