"""Prices of models, and the costs that follow from tokens that threads count."""

from __future__ import annotations

import pytest
from django.db.models import Sum

from memoryhub.kernel.commands import AmendThread
from memoryhub.model_settings import Price
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import exchanges, prices, turns
from memoryhub.queries.turns.prices import EstimatedCost
from memoryhub.services import rebuild
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.paged import do, make_paged

pytestmark = pytest.mark.django_db

SMALL = Price(price=2.0, cached=0.5, answers=8.0)
LARGE = Price(price=20.0, cached=5.0)


@pytest.fixture
def paged(agent: Agent, acme: Project) -> Thread:
    models = [("small", SMALL), ("large", LARGE)]
    projects.set_prices(acme, currency=" EUR ", models=models)
    return make_paged(agent, rounds=10)


def get_thread_cost(thread: Thread) -> EstimatedCost:
    cost = prices.compute_thread_cost(prices.get_table(thread.project), thread)
    assert cost is not None
    return cost


def test_thread_tokens_are_the_sums_of_its_turns(paged: Thread) -> None:
    lines = turns.list_turns(paged).items
    packed = [line.packed for line in lines if line.packed]
    answers = exchanges.count_answer_tokens(lines)
    assert paged.request_tokens == sum(each.tokens for each in packed) > 0
    assert paged.prefix_tokens == sum(each.prefix_tokens or 0 for each in packed) > 0
    messages = Slot.objects.filter(thread=paged, role="assistant")
    assert messages.aggregate(all=Sum("tokens"))["all"] == paged.answer_tokens
    assert sum(answers.values()) == paged.answer_tokens > 0
    assert sorted(answers) == [*range(1, 11)]
    last = exchanges.count_answer_tokens([line for line in lines if line.n in (2, 3)])
    assert last == {n: answers[n] for n in (2, 3)}
    counted = [getattr(paged, name) for name in ("request_tokens", "answer_tokens")]
    rebuild.rebuild(paged)
    paged.refresh_from_db()
    assert [paged.request_tokens, paged.answer_tokens] == counted


def test_cost_takes_the_default_or_the_labelled_model(
    agent: Agent, acme: Project, paged: Thread
) -> None:
    cost = get_thread_cost(paged)
    fresh = paged.request_tokens - paged.prefix_tokens
    expected = fresh * 2 + paged.prefix_tokens * 0.5 + paged.answer_tokens * 8
    assert cost.amount == pytest.approx(expected / 1e6, abs=1e-6)
    assert (cost.currency, cost.model, cost.assumed) == ("EUR", "small", True)
    assert prices.get_subject_cost(prices.get_table(acme), paged.subject) == cost
    do(agent, "paged", AmendThread(labels={"model": "large"}))
    labelled = get_thread_cost(factories.get_thread(agent, "paged"))
    assert (labelled.model, labelled.assumed) == ("large", False)
    assert labelled.amount > cost.amount
    assert prices.get_subject_cost(prices.get_table(acme), paged.subject) == labelled


def test_prices_of_the_server_hold_where_a_project_sets_none(
    acme: Project, settings: object
) -> None:
    assert prices.get_table(acme).compute_cost(1, 0, 0) is None
    settings.PRICES = {"z": LARGE, "a": SMALL}  # type: ignore[attr-defined]  # a fixture
    table = prices.get_table(acme)
    assert (table.own, [*table.models]) == (False, ["a", "z"])
    same = prices.PriceTable(currency="", models={"a": Price(price=3.0)}, own=True)
    cost = same.compute_cost(1_000_000, 500_000, 0)
    assert cost is not None
    assert cost.amount == 3.0
    projects.set_prices(acme, currency="", models=[("b", LARGE)])
    acme.refresh_from_db()
    assert [*prices.get_table(acme).models] == ["b"]
    projects.set_prices(acme, currency="", models=[])
    assert not prices.get_table(acme).own
