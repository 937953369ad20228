from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import time_machine
from django.contrib.sessions.models import Session
from django.db import connections
from django.utils import timezone

from memoryhub.errors import InvalidError, NameTakenError
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Membership, Operator, SignInLink
from memoryhub.models.projects import Project
from memoryhub.services.access import operators, projects
from tests.cast.sockets import sign_in

pytestmark = pytest.mark.django_db

STRONG = "seven herons on the jetty"


def test_first_start_makes_an_operator_who_owns_every_project(
    acme: Project, zeta: Project
) -> None:
    operator = operators.ensure_default()
    assert operator.username == operators.DEFAULT_USERNAME
    assert not operator.has_usable_password()
    assert operators.get_role(acme, operator) == Membership.Role.OWNER
    assert operators.list_projects(operator) == [acme, zeta]


def test_later_start_makes_no_second_default_operator(acme: Project) -> None:
    first = operators.ensure_default()
    assert operators.ensure_default() == first
    assert Operator.objects.count() == 1
    assert Membership.objects.count() == 1


def test_project_with_an_owner_gets_no_default_owner(acme: Project) -> None:
    ann = operators.add("ann")
    operators.set_role(acme, ann, "owner")
    operator = operators.ensure_default()
    assert operators.get_role(acme, operator) is None
    assert operators.list_projects(operator) == []


def test_new_project_gets_the_default_owner_at_the_next_start() -> None:
    operator = operators.ensure_default()
    made = projects.create("later")
    assert operators.get_role(made, operator) is None
    operators.ensure_default()
    assert operators.get_role(made, operator) == "owner"


@pytest.mark.parametrize("name", ["", "a b", "-a", "ä", "a\n", "x" * 65])
def test_invalid_operator_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        operators.add(name)
    assert refusal.value.invalid_code == "name"
    assert not Operator.objects.exists()


def test_operator_name_is_unique() -> None:
    operators.add("ann")
    with pytest.raises(NameTakenError):
        operators.add("ann")


def test_disabled_operator_is_not_found() -> None:
    ann = operators.add("ann")
    assert operators.find("ann") == ann
    Operator.objects.update(is_active=False)
    assert operators.find("ann") is None


def test_each_role_includes_the_lower_roles() -> None:
    roles = ["viewer", "editor", "officer", "owner"]
    for rank, role in enumerate(roles):
        allowed = [
            needed for needed in roles if operators.is_role_at_least(role, needed)
        ]
        assert allowed == roles[: rank + 1]
    assert not operators.is_role_at_least(None, "viewer")


def test_role_is_set_changed_and_removed(acme: Project, zeta: Project) -> None:
    ann = operators.add("ann")
    operators.set_role(acme, ann, "viewer")
    operators.set_role(acme, ann, "editor")
    assert operators.get_role(acme, ann) == "editor"
    assert operators.get_role(zeta, ann) is None
    operators.set_role(acme, ann, None)
    assert operators.get_role(acme, ann) is None


def test_unknown_role_is_refused(acme: Project) -> None:
    with pytest.raises(InvalidError):
        operators.set_role(acme, operators.add("ann"), "admin")


@pytest.mark.parametrize("role", [None, "officer"])
def test_last_owner_keeps_the_role(acme: Project, role: str | None) -> None:
    ann, bob = operators.add("ann"), operators.add("bob")
    operators.set_role(acme, ann, "owner")
    operators.set_role(acme, bob, "officer")
    with pytest.raises(InvalidError) as refusal:
        operators.set_role(acme, ann, role)
    assert refusal.value.invalid_code == "last_owner"
    assert operators.get_role(acme, ann) == "owner"
    operators.set_role(acme, bob, "owner")
    operators.set_role(acme, ann, role)
    assert operators.get_role(acme, ann) == role


@pytest.mark.parametrize("password", ["short", "123456789012", "password1234", "x"])
def test_weak_password_is_refused(password: str) -> None:
    ann = operators.add("ann")
    with pytest.raises(InvalidError) as refusal:
        operators.set_password(ann, password)
    assert refusal.value.invalid_code == "password_weak"
    assert password not in str(refusal.value.detail)
    ann.refresh_from_db()
    assert not ann.has_usable_password()


def test_password_is_stored_as_scrypt() -> None:
    ann = operators.add("ann")
    operators.set_password(ann, STRONG)
    ann.refresh_from_db()
    assert ann.password.startswith("scrypt$")
    assert ann.check_password(STRONG)


def test_sign_in_link_works_once() -> None:
    ann = operators.add("ann")
    token = operators.make_link(ann)
    assert len(token) == 43
    assert operators.use_link(token) == ann
    assert operators.use_link(token) is None


def test_sign_in_link_is_stored_as_a_digest() -> None:
    token = operators.make_link(operators.add("ann"))
    (row,) = SignInLink.objects.values()
    assert token not in str(row)
    assert token.encode() not in bytes(row["digest"])
    assert len(bytes(row["digest"])) == 32


def test_sign_in_link_expires_after_its_minutes() -> None:
    ann = operators.add("ann")
    early, late = operators.make_link(ann), operators.make_link(ann)
    with time_machine.travel(timezone.now() + timedelta(minutes=14), tick=False):
        assert operators.use_link(early) == ann
    with time_machine.travel(timezone.now() + timedelta(minutes=16), tick=False):
        assert operators.use_link(late) is None


def test_unknown_link_or_disabled_operator_signs_nobody_in() -> None:
    ann = operators.add("ann")
    token = operators.make_link(ann)
    Operator.objects.update(is_active=False)
    assert operators.use_link("x" * 43) is None
    assert operators.use_link(token) is None


@pytest.mark.parametrize("minutes", [0, -1, 24 * 60 + 1])
def test_sign_in_link_minutes_have_bounds(minutes: int) -> None:
    with pytest.raises(InvalidError):
        operators.make_link(operators.add("ann"), minutes)


@pytest.mark.django_db(transaction=True)
def test_sign_in_link_used_many_times_at_once_admits_one() -> None:
    token = operators.make_link(operators.add("ann"))

    def use(_: int) -> bool:
        try:
            return operators.use_link(token) is not None
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(use, range(16))) == 1


def test_role_change_ends_the_sessions(acme: Project, zeta: Project) -> None:
    ann, bob = operators.add("ann"), operators.add("bob")
    operators.set_role(acme, ann, "viewer")
    kept = sign_in(bob)
    for project, role in ((acme, "editor"), (acme, "viewer"), (zeta, "viewer")):
        session = sign_in(ann)
        operators.set_role(project, ann, role)
        assert not Session.objects.filter(session_key=session).exists()
    session = sign_in(ann)
    # Setting the same role again ends no session; removing the role does.
    operators.set_role(acme, ann, "viewer")
    found = Session.objects.values_list("session_key", flat=True)
    assert {*found} == {kept, session}
    operators.set_role(zeta, ann, None)
    assert [*found.all()] == [kept]


def test_refused_role_change_ends_no_session(acme: Project) -> None:
    ann = operators.add("ann")
    operators.set_role(acme, ann, "owner")
    session = sign_in(ann)
    with pytest.raises(InvalidError):
        operators.set_role(acme, ann, "viewer")
    assert Session.objects.filter(session_key=session).exists()


# Disabled operators


def test_disabled_operator_loses_sessions_and_links(acme: Project) -> None:
    ann, bob = operators.add("ann"), operators.add("bob")
    operators.set_role(acme, ann, "editor")
    session, kept = sign_in(ann), sign_in(bob)
    token = operators.make_link(ann)
    operators.disable(ann)
    operators.disable(ann)
    found = Session.objects.values_list("session_key", flat=True)
    assert [*found] == [kept] != [session]
    assert operators.use_link(token) is None
    assert operators.find("ann") is None
    # The role is kept for a later enabling.
    assert operators.get_role(acme, ann) == "editor"
    operators.enable(ann)
    operators.enable(ann)
    assert operators.find("ann") == ann
    entries = AuditEntry.objects.filter(target_id=str(ann.id)).order_by("seq")
    actions = [row.action for row in entries if row.action.endswith("abled")]
    assert actions == ["operator.disabled", "operator.enabled"]


def test_last_owner_stays_enabled(acme: Project) -> None:
    ann, bob = operators.add("ann"), operators.add("bob")
    operators.set_role(acme, ann, "owner")
    session = sign_in(ann)
    with pytest.raises(InvalidError) as refusal:
        operators.disable(ann)
    assert refusal.value.invalid_code == "last_owner"
    assert operators.find("ann") == ann
    assert Session.objects.filter(session_key=session).exists()
    operators.set_role(acme, bob, "owner")
    operators.disable(ann)
    # A disabled operator does not count as an owner.
    with pytest.raises(InvalidError):
        operators.set_role(acme, bob, "officer")
    with pytest.raises(InvalidError):
        operators.disable(bob)
    operators.set_role(acme, ann, None)
    assert operators.get_role(acme, bob) == "owner"


def test_default_operator_can_not_be_disabled(acme: Project) -> None:
    default = operators.ensure_default()
    with pytest.raises(InvalidError) as refusal:
        operators.disable(default)
    assert refusal.value.loc == "username"
    assert operators.find(default.username) == default
