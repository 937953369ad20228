"""A name is found by any part of it, at a cost that has a bound."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import name_search
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db


def list_names(project: Project, *words: str, restricted: bool = True) -> list[str]:
    found = name_search.list_threads(
        project, words, now=timezone.now(), limit=10, restricted=restricted
    )
    return [line.name for line in found]


@pytest.fixture
def threads(agent: Agent) -> None:
    for name in ("rebook-lisbon-storm", "refund-lisbon", "group-booking", "a.LISBON"):
        factories.make_thread(agent, name)


def test_thread_is_found_by_any_part_of_its_name(threads: None, acme: Project) -> None:
    assert list_names(acme, "book") == ["group-booking", "rebook-lisbon-storm"]
    assert list_names(acme, "LISbon") == [
        "a.LISBON",
        "refund-lisbon",
        "rebook-lisbon-storm",
    ]
    assert list_names(acme, "oslo") == []


def test_name_that_lacks_a_typed_word_is_not_found(
    threads: None, acme: Project
) -> None:
    assert list_names(acme, "lisbon", "storm") == ["rebook-lisbon-storm"]
    assert list_names(acme, "door", "book") == []


def test_thread_search_without_words_lists_the_newest_first(
    threads: None, acme: Project
) -> None:
    assert list_names(acme)[0] == "a.LISBON"


@pytest.mark.parametrize("word", ["%", "_", "\\"])
def test_pattern_characters_are_searched_literally(
    threads: None, acme: Project, word: str
) -> None:
    assert list_names(acme, word) == []


def test_name_search_is_limited_to_visible_threads_of_the_project(
    threads: None, acme: Project, zeta: Project, agent: Agent
) -> None:
    factories.make_thread(factories.make_agent(zeta), "zeta-lisbon")
    hidden = factories.make_thread(agent, "hidden-lisbon", user_id="ann")
    hidden.subject.state = "restricted"
    hidden.subject.save(update_fields=["state"])
    assert "zeta-lisbon" not in list_names(acme, "lisbon")
    assert "hidden-lisbon" in list_names(acme, "lisbon")
    assert "hidden-lisbon" not in list_names(acme, "lisbon", restricted=False)


def test_name_search_looks_at_the_newest_names_only(
    threads: None, acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_search, "LOOKED_AT", 2)
    Thread.objects.filter(name="refund-lisbon").update(
        listed_at=timezone.now() + timedelta(seconds=9)
    )
    assert list_names(acme, "lisbon") == ["refund-lisbon", "a.LISBON"]


def test_page_and_key_search_is_limited_to_the_thread(agent: Agent) -> None:
    for name in ("t-1", "t-2"):
        factories.make_thread(agent, name)
        factories.make_page(agent, f"lisbon-waiver-of-{name}", thread=name)
    memory_acts.set_key(agent, "refund.reference", "C-55012")
    memory_acts.set_key(agent, "seat", "12A")
    thread = factories.get_thread(agent)
    pages = name_search.list_pages(thread, ["waiver"], limit=5)
    assert [page.page_id for page in pages] == ["lisbon-waiver-of-t-1"]
    now = timezone.now()
    assert name_search.list_keys(thread, ["refund"], now=now, limit=5) == [
        "refund.reference"
    ]


@pytest.mark.parametrize("size", [1, 30])
def test_name_searches_cost_one_query_each(
    agent: Agent,
    acme: Project,
    size: int,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for n in range(size):
        factories.make_thread(agent, f"lisbon-{n}")
    thread, now = factories.get_thread(agent, "lisbon-0"), timezone.now()
    with django_assert_num_queries(3):
        name_search.list_threads(acme, ["lisbon"], now=now, limit=5)
        name_search.list_pages(thread, ["lisbon"], limit=5)
        name_search.list_keys(thread, ["lisbon"], now=now, limit=5)
