from __future__ import annotations

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from memoryhub.errors import NotFoundError
from memoryhub.models.projects import Project
from memoryhub.queries.access import api_keys
from memoryhub.services.access import api_keys as making

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("size", [1, 20])
def test_keys_are_listed_newest_first_in_one_query(
    acme: Project,
    zeta: Project,
    size: int,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    making.create(zeta)
    made = [making.create(acme)[0] for _ in range(size)]
    making.revoke(made[0])
    with django_assert_num_queries(1):
        found = api_keys.list_keys(acme, limit=100)
    assert found == made[::-1]
    assert api_keys.list_keys(acme, limit=1) == made[-1:]


def test_key_is_found_in_its_project_until_it_is_revoked(
    acme: Project, zeta: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    row, _ = making.create(acme)
    with django_assert_num_queries(1):
        found = api_keys.get_key(acme, row.prefix)
        assert (found.project, found.subject) == (acme, None)
    with pytest.raises(NotFoundError):
        api_keys.get_key(zeta, row.prefix)
    making.revoke(row)
    with pytest.raises(NotFoundError):
        api_keys.get_key(acme, row.prefix)
