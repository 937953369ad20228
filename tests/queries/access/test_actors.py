"""Names of the actors of events, including actors deleted since."""

from __future__ import annotations

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from memoryhub.models.access.operators import Membership
from memoryhub.models.projects import Project
from memoryhub.queries.access.actors import ActorNames
from memoryhub.services.access import api_keys, operators
from memoryhub.services.people import subjects
from tests.cast import factories

pytestmark = pytest.mark.django_db


def test_key_is_called_by_its_name_once_it_is_revoked_as_well(acme: Project) -> None:
    row, _ = api_keys.create(acme, name="desk-agent")
    api_keys.revoke(row)
    assert ActorNames(acme.id).get(f"agent:{row.prefix}") == "desk-agent"


def test_key_of_somebody_who_is_gone_is_called_by_its_name(acme: Project) -> None:
    ann = subjects.find_or_create(acme.id, "ann")
    row, _ = api_keys.create(acme, name="anns-agent", subject=ann)
    assert ActorNames(acme.id).get(f"agent:{row.prefix}") == "anns-agent"


def test_operator_who_left_is_called_by_name(acme: Project) -> None:
    operators.set_role(acme, operators.ensure_default(), Membership.Role.OWNER)
    olga = operators.add("olga")
    operators.set_role(acme, olga, Membership.Role.EDITOR)
    operators.set_role(acme, olga, None)
    assert ActorNames(acme.id).get(f"operator:{olga.id}") == "olga"


@pytest.mark.parametrize("actor", ["agent:12345678", "command", "operator:x", ""])
def test_unknown_actor_has_an_empty_name(acme: Project, actor: str) -> None:
    assert ActorNames(acme.id).get(actor) == ""


def test_key_without_a_name_gets_none(acme: Project) -> None:
    agent = factories.make_agent(acme)
    assert ActorNames(acme.id).get(agent.actor) == ""


def test_keys_of_another_project_have_no_names_here(
    acme: Project, zeta: Project
) -> None:
    row, _ = api_keys.create(zeta, name="theirs")
    assert ActorNames(acme.id).get(f"agent:{row.prefix}") == ""


@pytest.mark.parametrize("keys", [1, 20])
def test_page_of_actors_costs_one_query(
    acme: Project, keys: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    made = [api_keys.create(acme, name=f"agent-{n}")[0] for n in range(keys)]
    names = ActorNames(acme.id)
    with django_assert_num_queries(1):
        found = [names.get(f"agent:{row.prefix}") for row in made]
    assert found == [f"agent-{n}" for n in range(keys)]
