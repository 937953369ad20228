from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone

from memoryhub.models.access.operators import Membership
from memoryhub.models.projects import Project
from memoryhub.queries.access.session_rights import SessionRights, get_session_rights
from memoryhub.services.access import operators

pytestmark = pytest.mark.django_db
Role = Membership.Role


def standings(
    sessions: list[str], members: list[Any], *, late: timedelta = timedelta()
) -> SessionRights:
    return get_session_rights(
        sessions=sessions,
        projects=["acme", "zeta"],
        operators=[member.id for member in members],
        now=timezone.now() + late,
    )


def make_session() -> str:
    store = SessionStore()
    store["seen"] = "now"
    store.save()
    return str(store.session_key)


@pytest.mark.parametrize("size", [1, 20])
def test_standings_cost_one_query(
    acme: Project, size: int, django_assert_num_queries: Any
) -> None:
    members = [operators.add(f"o-{number}") for number in range(size)]
    for member in members:
        operators.set_role(acme, member, Role.VIEWER)
    sessions = [make_session() for _ in members]
    with django_assert_num_queries(1):
        found = standings(sessions, members)
    assert set(found.sessions) == set(sessions)
    assert {operator for _, operator in found.members} == {row.id for row in members}


def test_session_that_has_ended_is_left_out() -> None:
    session = make_session()
    assert list(standings([session, "no-such"], []).sessions) == [session]
    assert standings([session], [], late=timedelta(hours=13)).sessions == {}


def test_roles_are_those_of_each_project(acme: Project, zeta: Project) -> None:
    olga, otto = operators.add("olga"), operators.add("otto")
    operators.set_role(acme, olga, Role.OWNER)
    operators.set_role(acme, otto, Role.VIEWER)
    operators.set_role(zeta, otto, Role.OWNER)
    found = standings([], [olga, otto]).members
    assert {key: member.role for key, member in found.items()} == {
        ("acme", olga.id): "owner",
        ("acme", otto.id): "viewer",
        ("zeta", otto.id): "owner",
    }
    assert found["zeta", otto.id].project == zeta.id


def test_inactive_operator_has_no_role(acme: Project) -> None:
    olga = operators.add("olga")
    operators.set_role(acme, olga, Role.OWNER)
    type(olga).objects.filter(id=olga.id).update(is_active=False)
    assert standings([], [olga]).members == {}
