"""The page table of forks: what they see of their ancestors, and what stays apart."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import PageErasedError
from memoryhub.journal.texts import open_texts
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    DeletePage,
    PinPage,
    ReferencePages,
    UnpinPage,
    UpdatePage,
    WriteLevels,
)
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, get_thread
from tests.oracles.page_acts import (
    act,
    find_page_entry,
    forget,
    levels_of,
    make_pages,
    new_page,
    new_text,
    table,
)
from tests.services.acts import fork, state_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def parent(agent: Agent) -> Thread:
    """Make a thread with a slot, pages of one and two versions, and levels of one."""
    append(agent, "t-1", "hello")
    make_pages(agent, new_page("a", "one", hint="first"), new_page("b", "two"))
    act(agent, new_text("b", "second text"))
    act(agent, WriteLevels(made=levels_of("a", {1: "o.", 2: "o"})))
    return get_thread(agent)


def test_fork_reads_its_pages_as_of_its_seq(agent: Agent, parent: Thread) -> None:
    """The fork has no row of inherited pages; its TLB holds the same entries."""
    child = fork(agent, "t-1", "child")
    inherited = {name: find_page_entry(parent, name) for name in ("a", "b", "slot-0")}
    act(agent, new_text("a", "later"))
    act(agent, DeletePage(page_id="b"))
    act(agent, UpdatePage(page_id="slot-0", payload=b"{}", importance=0.9))
    assert {name: find_page_entry(child, name) for name in inherited} == inherited
    held = state_of(child).paging.tlb.list_oldest_first()
    assert {each.page_id: each for each in held} == inherited
    assert not Page.objects.filter(thread=child).exists()


def test_fork_of_an_earlier_seq_knows_no_later_version(
    agent: Agent, parent: Thread
) -> None:
    child = fork(agent, "t-1", "child", seq=4)
    a, b = find_page_entry(child, "a"), find_page_entry(child, "b")
    assert a is not None
    assert b is not None
    assert (a.pick_level(3), b.version) == (0, 1)


def test_fork_changes_do_not_show_in_its_parent(agent: Agent, parent: Thread) -> None:
    names = "a", "b", "slot-0"
    before = {name: find_page_entry(parent, name) for name in names}
    child = fork(agent, "t-1", "child")
    act(agent, new_text("a", "of the child"), "child")
    act(agent, UpdatePage(page_id="slot-0", payload=b"{}", importance=0.9), "child")
    act(agent, WriteLevels(made=levels_of("b", {2: "b"}, version=2)), "child")
    assert {name: find_page_entry(parent, name) for name in names} == before
    child = get_thread(agent, "child")
    held = {
        each.page_id: each for each in state_of(child).paging.tlb.list_oldest_first()
    }
    assert {name: find_page_entry(child, name) for name in names} == held
    assert held["a"].full.location.thread == child.id
    assert held["b"].full.location.thread == parent.id


def test_changed_importance_keeps_inherited_levels(
    agent: Agent, parent: Thread
) -> None:
    """The fork then has a row of the page, and none of its levels."""
    child = fork(agent, "t-1", "child")
    act(agent, UpdatePage(page_id="a", payload=b"{}", importance=0.9), "child")
    held = state_of(get_thread(agent, "child")).paging.tlb.find("a")
    assert held is not None
    assert held.pick_level(3) == 2
    assert find_page_entry(get_thread(agent, "child"), "a") == held
    assert not PageLevel.objects.filter(thread=child).exists()
    act(agent, WriteLevels(made=levels_of("a", {3: "o"})), "child")
    after = find_page_entry(get_thread(agent, "child"), "a")
    assert after is not None
    assert [after.require_level(level).location.thread for level in (1, 2, 3)] == [
        parent.id,
        parent.id,
        child.id,
    ]


def test_deleting_in_a_fork_only_hides(agent: Agent, parent: Thread) -> None:
    child = fork(agent, "t-1", "child")
    act(agent, new_text("b", "of the child"), "child")
    seq = act(agent, DeletePage(page_id="b"), "child").seq
    assert find_page_entry(get_thread(agent, "child"), "b") is None
    assert table(get_thread(agent, "child")).is_deleted("b")
    assert find_page_entry(parent, "b") is not None
    gone = Event.objects.filter(erased_by__isnull=False)
    assert [*gone.values_list("thread", "erased_by")] == [(child.id, seq)]
    with pytest.raises(PageErasedError):
        make_pages(agent, new_page("b"), thread="child")


def test_text_that_the_parent_deletes_is_gone_in_its_forks(
    agent: Agent, parent: Thread
) -> None:
    """The forks' page table still names the page: only its text was erased."""
    child = fork(agent, "t-1", "child")
    found = find_page_entry(child, "b")
    assert found is not None
    places = [found.full.location]
    assert [*open_texts(child, places)] == places
    act(agent, DeletePage(page_id="b"))
    assert find_page_entry(child, "b") == found
    assert open_texts(child, places) == {}


def test_forks_of_forks_read_each_ancestor_as_of_its_fork(
    agent: Agent, parent: Thread
) -> None:
    fork(agent, "t-1", "child")
    act(agent, new_text("a", "of the child"), "child")
    grandchild = fork(agent, "child", "grandchild")
    found = find_page_entry(grandchild, "a")
    act(agent, new_text("a", "later"), "child")
    act(agent, new_text("a", "latest"))
    assert found is not None
    assert found.version == 2
    assert found.full.location.thread == get_thread(agent, "child").id
    assert find_page_entry(grandchild, "a") == found


@pytest.mark.parametrize("size", [2, 40])
def test_miss_in_a_fork_costs_the_same_at_any_size(agent: Agent, size: int) -> None:
    append(agent, "t-1", *map(str, range(size)))
    make_pages(agent, *(new_page(f"p-{n}") for n in range(size)))
    fork(agent, "t-1", "child")
    forget(agent, "child")
    with CaptureQueriesContext(connection) as captured:
        act(agent, PinPage(page_id="p-1"), "child")
    # Beside what any write asks: its row, the ancestor's events about the page, whether
    # it ended there, its levels.
    assert len(captured) == 7 + 4
    act(agent, UnpinPage(page_id="p-1"), "child")


@pytest.mark.parametrize("name", ["nobody", "slot-7", "slot-00", "slot-x"])
def test_unknown_page_is_no_page_in_a_fork_either(
    agent: Agent, parent: Thread, name: str
) -> None:
    child = fork(agent, "t-1", "child")
    assert find_page_entry(child, name) is None
    assert not table(child).is_deleted(name)


def test_page_of_a_fork_may_come_of_pages_it_inherits(
    agent: Agent, parent: Thread
) -> None:
    fork(agent, "t-1", "child")
    forget(agent, "child")
    before = parent.tlb_hits
    made = new_page("sum", type="summary", provenance=("a", "slot-0"))
    act(agent, CreatePages(pages=(made,)), "child")
    act(agent, ReferencePages(page_ids=("a", "sum")), "child")
    tlb = state_of(get_thread(agent, "child")).paging.tlb
    assert (tlb.misses, tlb.hits) == (1, before + 1)
