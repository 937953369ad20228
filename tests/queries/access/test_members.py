from __future__ import annotations

from uuid import uuid4

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from memoryhub.errors import NotFoundError
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project
from memoryhub.queries.access import members
from memoryhub.services.access import operators

pytestmark = pytest.mark.django_db
Role = Membership.Role


def join(project: Project, name: str, role: str = Role.VIEWER) -> Operator:
    operator = operators.find(name) or operators.add(name)
    operators.set_role(project, operator, role)
    return operator


def test_membership_is_that_of_its_own_project(acme: Project, zeta: Project) -> None:
    ann = join(acme, "ann", Role.EDITOR)
    found = members.get_membership("acme", ann)
    assert found is not None
    assert (found.role, found.project) == (Role.EDITOR, acme)
    assert members.get_membership("zeta", ann) is None
    assert members.get_member(acme, ann.id).operator == ann
    for project, operator in ((zeta, ann.id), (acme, uuid4())):
        with pytest.raises(NotFoundError):
            members.get_member(project, operator)


@pytest.mark.parametrize("size", [1, 20])
def test_members_are_listed_by_name_in_one_query(
    acme: Project,
    zeta: Project,
    size: int,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    join(zeta, "zoe")
    names = [f"o-{number:02}" for number in range(size)]
    for name in reversed(names):
        join(acme, name)
    with django_assert_num_queries(1):
        rows = members.list_members(acme, limit=100)
        assert [row.operator.username for row in rows] == names
    assert len(members.list_members(acme, limit=1)) == 1


def test_officers_are_those_who_may_sign_in_and_act(
    acme: Project, zeta: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for role in Role.values:
        join(acme, role, role)
    operators.disable(join(acme, "gone", Role.OFFICER))
    join(zeta, "zoe", Role.OWNER)
    with django_assert_num_queries(1):
        found = members.list_officers(acme)
    assert [each.username for each in found] == ["officer", "owner"]
