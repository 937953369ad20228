from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import BadCursorError
from memoryhub.kernel.state.events import LabelValue
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.export import imports
from memoryhub.queries.export.imports import ImportSource
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories, recordings

pytestmark = pytest.mark.django_db


def labelled(agent: Agent, name: str, source: str, reward: LabelValue = 1.0) -> None:
    labels: dict[str, LabelValue] = {"source": source, "reward": reward, "trial": 0}
    factories.make_thread(agent, name, labels=labels)


def get_only_source(project: Project) -> ImportSource:
    (source,) = imports.list_sources(project).items
    return source


def test_import_is_summed_up(acme: Project, tmp_path: Any) -> None:
    runs = [
        recordings.run(n, messages=2 * n, reward=n / 4, user_id=f"user-{n}")
        for n in range(1, 5)
    ]
    recordings.take(acme, recordings.array(tmp_path, *runs))
    source = get_only_source(acme)
    assert (source.name, source.runs) == ("desk", 4)
    assert (source.slots, source.turns) == (20, 10)
    assert source.rewards is not None
    found = source.rewards
    assert (found.count, found.mean, found.least, found.most) == (4, 0.625, 0.25, 1.0)
    assert (len(found.bars), sum(found.bars)) == (imports.BARS, 4)
    assert (found.bars[0], found.bars[-1]) == (1, 1)
    made = Thread.objects.order_by("created_at").values_list("created_at", flat=True)
    assert (source.first_at, source.last_at) == (made[0], made[3])


def test_chat_has_no_rewards(acme: Project, tmp_path: Any) -> None:
    path = recordings.write_lines(tmp_path, recordings.build_message("one"))
    recordings.take(acme, path)
    assert (get_only_source(acme).runs, get_only_source(acme).rewards) == (1, None)


def test_fork_is_not_counted_as_a_run(agent: Agent, acme: Project) -> None:
    labelled(agent, "t-1", "desk")
    thread = factories.get_thread(agent)
    operator_threads.fork(thread, actor="operator:x", name="t-2", seq=1)
    assert get_only_source(acme).runs == 1


@pytest.mark.no_replay
def test_erased_run_is_not_counted_among_imports(agent: Agent, acme: Project) -> None:
    labelled(agent, "t-1", "desk", 0.0)
    labelled(agent, "t-2", "desk", 1.0)
    Thread.objects.filter(name="t-1").update(status="erased")
    source = get_only_source(acme)
    assert source.rewards is not None
    assert (source.runs, source.rewards.mean) == (1, 1.0)


def test_rewards_that_are_no_numbers_are_left_out(agent: Agent, acme: Project) -> None:
    words: tuple[LabelValue, ...] = (True, "good", "NaN", "007", -2, 0.5)
    for n, reward in enumerate(words):
        labelled(agent, f"t-{n}", "desk", reward)
    found = get_only_source(acme).rewards
    assert found is not None
    assert (found.count, found.least, found.most) == (2, -2.0, 0.5)


def test_rewards_that_are_all_the_same_need_no_picture(
    agent: Agent, acme: Project
) -> None:
    labelled(agent, "t-1", "desk", 1)
    labelled(agent, "t-2", "desk", 1.0)
    found = get_only_source(acme).rewards
    assert found is not None
    assert (found.count, found.mean, found.bars) == (2, 1.0, ())


def test_largest_rewards_have_a_mean(agent: Agent, acme: Project) -> None:
    for n, reward in enumerate((-1.7e308, 1.7e308, 1.7e308)):
        labelled(agent, f"t-{n}", "desk", reward)
    found = get_only_source(acme).rewards
    assert found is not None
    assert found.mean == pytest.approx(1.7e308 / 3)
    assert found.bars == (1, *[0] * (imports.BARS - 2), 2)


def test_sources_come_by_name_in_batches(agent: Agent, acme: Project) -> None:
    for n, source in enumerate(("c", "a", "b", "a")):
        labelled(agent, f"t-{n}", source, n)
    first = imports.list_sources(acme, limit=2)
    assert [(each.name, each.runs) for each in first.items] == [("a", 2), ("b", 1)]
    rest = imports.list_sources(acme, after=first.next, limit=2)
    assert [each.name for each in rest.items] == ["c"]
    assert rest.next is None
    both = (*first.items, *rest.items)
    assert imports.list_sources(acme).items == both
    means = [each.rewards.mean for each in both if each.rewards]
    assert means == [2.0, 2.0, 0.0]


def test_list_of_distinct_rewards_is_limited(
    agent: Agent, acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "REWARDS", 2)
    for n in range(3):
        labelled(agent, f"t-{n}", "desk", n)
    source = get_only_source(acme)
    assert source.cut
    assert source.runs == 3
    assert source.rewards is not None
    assert source.rewards.count == 2


def test_import_list_shows_one_project_only(
    agent: Agent, acme: Project, stranger: Agent, zeta: Project
) -> None:
    for n in range(2):
        labelled(agent, f"t-{n}", f"s-{n}")
    labelled(stranger, "t-1", "s-0", 0)
    rewards = get_only_source(zeta).rewards
    assert rewards is not None
    assert (get_only_source(zeta).runs, rewards.mean) == (1, 0.0)
    theirs = imports.list_sources(acme, limit=1).next
    assert theirs is not None
    with pytest.raises(BadCursorError):
        imports.list_sources(zeta, after=theirs)


@pytest.mark.parametrize("size", [1, 30])
def test_list_of_imports_costs_two_queries(
    agent: Agent, acme: Project, size: int, django_assert_num_queries: Any
) -> None:
    for n in range(size):
        labelled(agent, f"t-{n}", f"s-{n % 10}", n)
    with django_assert_num_queries(2):
        assert sum(each.runs for each in imports.list_sources(acme).items) == size
