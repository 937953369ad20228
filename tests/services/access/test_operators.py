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


def test_the_first_start_makes_an_operator_who_owns_every_project(
    acme: Project, zeta: Project
) -> None:
    operator = operators.ensure_default()
    assert operator.username == operators.DEFAULT
    assert not operator.has_usable_password()
    assert operators.role_in(acme, operator) == Membership.Role.OWNER
    assert operators.projects_of(operator) == [acme, zeta]


def test_a_later_start_changes_nothing(acme: Project) -> None:
    first = operators.ensure_default()
    assert operators.ensure_default() == first
    assert Operator.objects.count() == 1
    assert Membership.objects.count() == 1


def test_a_project_with_an_owner_is_left_to_them(acme: Project) -> None:
    ann = operators.add("ann")
    operators.set_role(acme, ann, "owner")
    operator = operators.ensure_default()
    assert operators.role_in(acme, operator) is None
    assert operators.projects_of(operator) == []


def test_a_new_project_is_owned_by_the_next_start() -> None:
    operator = operators.ensure_default()
    made = projects.create("later")
    assert operators.role_in(made, operator) is None
    operators.ensure_default()
    assert operators.role_in(made, operator) == "owner"


@pytest.mark.parametrize("name", ["", "a b", "-a", "ä", "a\n", "x" * 65])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        operators.add(name)
    assert refusal.value.invalid_code == "name"
    assert not Operator.objects.exists()


def test_a_name_is_taken_once() -> None:
    operators.add("ann")
    with pytest.raises(NameTakenError):
        operators.add("ann")


def test_a_disabled_operator_is_not_found() -> None:
    ann = operators.add("ann")
    assert operators.find("ann") == ann
    Operator.objects.update(is_active=False)
    assert operators.find("ann") is None


def test_roles_include_the_ones_before() -> None:
    roles = ["viewer", "editor", "officer", "owner"]
    for rank, role in enumerate(roles):
        allowed = [needed for needed in roles if operators.allows(role, needed)]
        assert allowed == roles[: rank + 1]
    assert not operators.allows(None, "viewer")


def test_a_role_is_set_changed_and_taken(acme: Project, zeta: Project) -> None:
    ann = operators.add("ann")
    operators.set_role(acme, ann, "viewer")
    operators.set_role(acme, ann, "editor")
    assert operators.role_in(acme, ann) == "editor"
    assert operators.role_in(zeta, ann) is None
    operators.set_role(acme, ann, None)
    assert operators.role_in(acme, ann) is None


def test_a_word_that_is_no_role_is_refused(acme: Project) -> None:
    with pytest.raises(InvalidError):
        operators.set_role(acme, operators.add("ann"), "admin")


@pytest.mark.parametrize("role", [None, "officer"])
def test_last_owner_stays(acme: Project, role: str | None) -> None:
    ann, bob = operators.add("ann"), operators.add("bob")
    operators.set_role(acme, ann, "owner")
    operators.set_role(acme, bob, "officer")
    with pytest.raises(InvalidError) as refusal:
        operators.set_role(acme, ann, role)
    assert refusal.value.invalid_code == "last_owner"
    assert operators.role_in(acme, ann) == "owner"
    operators.set_role(acme, bob, "owner")
    operators.set_role(acme, ann, role)
    assert operators.role_in(acme, ann) == role


@pytest.mark.parametrize("password", ["short", "123456789012", "password1234", "x"])
def test_a_weak_password_is_refused(password: str) -> None:
    ann = operators.add("ann")
    with pytest.raises(InvalidError) as refusal:
        operators.set_password(ann, password)
    assert refusal.value.invalid_code == "password_weak"
    assert password not in str(refusal.value.detail)
    ann.refresh_from_db()
    assert not ann.has_usable_password()


def test_a_password_is_kept_as_scrypt() -> None:
    ann = operators.add("ann")
    operators.set_password(ann, STRONG)
    ann.refresh_from_db()
    assert ann.password.startswith("scrypt$")
    assert ann.check_password(STRONG)


def test_link_works_once() -> None:
    ann = operators.add("ann")
    token = operators.make_link(ann)
    assert len(token) == 43
    assert operators.use_link(token) == ann
    assert operators.use_link(token) is None


def test_only_the_digest_of_a_link_is_kept() -> None:
    token = operators.make_link(operators.add("ann"))
    (row,) = SignInLink.objects.values()
    assert token not in str(row)
    assert token.encode() not in bytes(row["digest"])
    assert len(bytes(row["digest"])) == 32


def test_a_link_ends_with_its_minutes() -> None:
    ann = operators.add("ann")
    early, late = operators.make_link(ann), operators.make_link(ann)
    with time_machine.travel(timezone.now() + timedelta(minutes=14), tick=False):
        assert operators.use_link(early) == ann
    with time_machine.travel(timezone.now() + timedelta(minutes=16), tick=False):
        assert operators.use_link(late) is None


def test_a_link_that_is_unknown_or_of_a_disabled_operator_signs_nobody_in() -> None:
    ann = operators.add("ann")
    token = operators.make_link(ann)
    Operator.objects.update(is_active=False)
    assert operators.use_link("x" * 43) is None
    assert operators.use_link(token) is None


@pytest.mark.parametrize("minutes", [0, -1, 24 * 60 + 1])
def test_a_link_has_bounded_minutes(minutes: int) -> None:
    with pytest.raises(InvalidError):
        operators.make_link(operators.add("ann"), minutes)


@pytest.mark.django_db(transaction=True)
def test_of_many_that_use_a_link_at_once_one_gets_in() -> None:
    token = operators.make_link(operators.add("ann"))

    def use(_: int) -> bool:
        try:
            return operators.use_link(token) is not None
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(use, range(16))) == 1


def test_another_role_ends_the_sessions(acme: Project, zeta: Project) -> None:
    ann, bob = operators.add("ann"), operators.add("bob")
    operators.set_role(acme, ann, "viewer")
    kept = sign_in(bob)
    for project, role in ((acme, "editor"), (acme, "viewer"), (zeta, "viewer")):
        session = sign_in(ann)
        operators.set_role(project, ann, role)
        assert not Session.objects.filter(session_key=session).exists()
    session = sign_in(ann)
    # The same as before needs no other session; to be taken out does.
    operators.set_role(acme, ann, "viewer")
    found = Session.objects.values_list("session_key", flat=True)
    assert {*found} == {kept, session}
    operators.set_role(zeta, ann, None)
    assert [*found.all()] == [kept]


def test_a_change_that_is_refused_ends_nothing(acme: Project) -> None:
    ann = operators.add("ann")
    operators.set_role(acme, ann, "owner")
    session = sign_in(ann)
    with pytest.raises(InvalidError):
        operators.set_role(acme, ann, "viewer")
    assert Session.objects.filter(session_key=session).exists()


# Who is to be let in no more


def test_disabling_ends_sessions_links_and_passwords(acme: Project) -> None:
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
    # The role is there for another day.
    assert operators.role_in(acme, ann) == "editor"
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
    # Who is disabled owns nothing that counts.
    with pytest.raises(InvalidError):
        operators.set_role(acme, bob, "officer")
    with pytest.raises(InvalidError):
        operators.disable(bob)
    operators.set_role(acme, ann, None)
    assert operators.role_in(acme, bob) == "owner"


def test_the_way_back_in_stays(acme: Project) -> None:
    default = operators.ensure_default()
    with pytest.raises(InvalidError) as refusal:
        operators.disable(default)
    assert refusal.value.loc == "username"
    assert operators.find(default.username) == default
