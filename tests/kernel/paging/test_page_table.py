"""Pages made, changed and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import (
    DerivedPageError,
    NameTakenError,
    PageErasedError,
    PageUnknownError,
    Refusal,
    ThreadClosedError,
    UnknownPageError,
)
from memoryhub.kernel import replay
from memoryhub.kernel.commands import AppendSlots, CloseThread
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    CreatePages,
    DeletePage,
    EvictPage,
    FaultPage,
    FlushTlb,
    InvalidateTlb,
    MapPage,
    PinPage,
    ReferencePages,
    UnpinPage,
    UpdatePage,
    WriteLevels,
)
from memoryhub.kernel.state.page_events import PageCreated, PageMapped, PageUpdated
from tests.oracles.paging import (
    BARE,
    Bench,
    build_levels,
    build_page,
    build_slot,
    make,
    rewrite,
)


def put(bench: Bench, page_id: str, tokens: int, **fields: Any) -> list[Any]:
    new = build_page(page_id, tokens, **fields)
    return bench.do(CreatePages(pages=(new,), replace=True))


@pytest.mark.parametrize("tlb_entries", [0, 1, 512])
def test_page_id_is_given_once(tlb_entries: int) -> None:
    bench = Bench(**BARE, tlb_entries=tlb_entries)
    make(bench, build_page("a"))
    for replace in (False, True):
        for twice in ("a", "b"):
            pages = (build_page(twice), build_page(twice))
            with pytest.raises(NameTakenError):
                bench.do(CreatePages(pages=pages, replace=replace))
    bench.do(DeletePage(page_id="a"))
    with pytest.raises(PageErasedError):
        make(bench, build_page("a"))
    assert bench.paging.pages == 0


@pytest.mark.parametrize("tlb_entries", [0, 1, 512])
def test_provenance_names_pages_that_are_there(tlb_entries: int) -> None:
    """Pages of the same batch, which have no row yet, are accepted too."""
    bench = Bench(**BARE, tlb_entries=tlb_entries, l1_pages=1)
    make(bench, build_page("a", map=False), build_page("b", map=False))
    made_of = build_page("d", provenance=("a", "c"))
    (_, event) = make(bench, build_page("c", map=False), made_of)
    assert event.derived_from == ["a", "c"]
    bench.do(DeletePage(page_id="a"))
    for source in ("a", "e", "nothing"):
        with pytest.raises(UnknownPageError):
            make(bench, build_page("e", provenance=(source,)))


@pytest.mark.parametrize(
    ("kind", "sent", "importance"),
    [
        ("artifact", None, 0.5),
        ("summary", None, 0.9),
        ("claim", None, 0.5),
        ("summary", 0.0, 0.0),
    ],
)
def test_importance_has_a_default_by_type(
    kind: str, sent: float | None, importance: float
) -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", type=kind, importance=sent))
    assert bench.frame("a").entry.importance == importance


@pytest.mark.parametrize(
    ("role", "kind", "importance"),
    [
        ("user", "transcript", 0.6),
        ("assistant", "transcript", 0.5),
        ("system", "transcript", 0.5),
        ("tool", "artifact", 0.4),
        ("other", "transcript", 0.5),
    ],
)
def test_slot_is_a_page(role: str, kind: str, importance: float) -> None:
    bench = Bench(**BARE)
    bench.do(AppendSlots(slots=(build_slot(10, role),)))
    entry = bench.frame("slot-0").entry
    assert (entry.type, entry.importance) == (kind, importance)


def test_pages_of_slots_are_rated_but_not_rewritten() -> None:
    bench = Bench(**BARE)
    bench.do(AppendSlots(slots=(build_slot(10),)))
    bench.do(UpdatePage(page_id="slot-0", payload=b"{}", importance=1.0))
    assert bench.frame("slot-0").entry.importance == 1.0
    assert bench.frame("slot-0").entry.version == 1
    refused: list[Any] = [rewrite("slot-0", 20), DeletePage(page_id="slot-0")]
    for command in refused:
        with pytest.raises(DerivedPageError):
            bench.do(command)


def test_new_version_is_at_full_and_has_no_other_level() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    bench.do(MapPage(page_id="a", level=1, made=build_levels("a", 40)))
    at = bench.frame("a").mapped_seq
    bench.do(rewrite("a", 90))
    frame = bench.frame("a")
    assert (frame.level, frame.tokens, frame.mapped_seq) == (0, 90, at)
    assert frame.entry.levels[1:] == (None, None, None)
    # Those of the version before come too late.
    assert bench.do(WriteLevels(made=build_levels("a", 40))) == []


def test_changed_importance_or_hint_keeps_version_and_levels() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    bench.do(MapPage(page_id="a", level=1, made=build_levels("a", 40)))
    bench.do(UpdatePage(page_id="a", payload=b'{"hint":"h"}', hinted=True))
    frame = bench.frame("a")
    assert (frame.level, frame.entry.version) == (1, 1)
    assert frame.entry.hint is not None
    assert frame.entry.hint.seq == bench.state.seq


def test_levels_are_written_once() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    assert len(bench.do(WriteLevels(made=build_levels("a", 40)))) == 1
    assert bench.do(WriteLevels(made=build_levels("a", 40))) == []
    assert bench.do(WriteLevels(made=build_levels("nothing", 40))) == []
    # A producer of another level adds to what is there.
    summary = build_levels("a", None, 20, producer="llm:some")
    assert len(bench.do(WriteLevels(made=summary))) == 1
    assert bench.frame("a").entry.levels[1:3] == bench.rows.live["a"].levels[1:3]


def test_page_that_is_put_again_is_mapped_again() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    bench.do(EvictPage(page_id="a"))
    events = put(bench, "a", 200, map=False)
    assert [*map(type, events)] == [PageUpdated]
    events = put(bench, "a", 150)
    assert [*map(type, events)] == [PageUpdated, PageMapped]
    assert bench.frame("a").tokens == 150
    assert [*map(type, put(bench, "b", 10))] == [PageCreated]


def test_page_that_outgrows_the_working_set_leaves_it_first() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100), build_page("b", 100))
    bench.watch = lambda state: assert_fits(bench)
    bench.do(rewrite("a", 2_000))
    assert bench.mapped == ["b"]
    assert bench.hot("a").entry == bench.rows.live["a"]
    bench.do(rewrite("b", 600))
    assert bench.mapped == ["b"]


def assert_fits(bench: Bench) -> None:
    assert bench.paging.used <= bench.paging.settings.usable


def test_deleted_page_is_nowhere_and_never_comes_back() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100))
    bench.do(PinPage(page_id="a"))
    bench.do(UnpinPage(page_id="a"))
    bench.do(EvictPage(page_id="a"))
    bench.do(FaultPage(page_id="a"))
    bench.do(PinPage(page_id="a"))
    bench.do(DeletePage(page_id="a"))
    paging = bench.paging
    assert (paging.used, paging.pages) == (0, 0)
    for names in (paging.frames, paging.hot, paging.pins, paging.history):
        assert "a" not in names
    assert "a" not in paging.thrashing
    for command in (MapPage(page_id="a"), PinPage(page_id="a")):
        with pytest.raises(PageErasedError):
            bench.do(command)
    with pytest.raises(PageUnknownError):
        bench.do(MapPage(page_id="nothing"))


AGENTS: list[Any] = [
    AppendSlots(slots=(build_slot(10),)),
    CreatePages(pages=(build_page("new"),)),
    rewrite("a", 10),
    DeletePage(page_id="a"),
    MapPage(page_id="b"),
    EvictPage(page_id="a"),
    PinPage(page_id="a"),
    UnpinPage(page_id="a"),
    ReferencePages(page_ids=("a",)),
    FaultPage(page_id="b"),
    BeginTurn(),
    InvalidateTlb(page_id="a"),
    FlushTlb(),
]


@pytest.mark.parametrize("command", AGENTS, ids=lambda each: type(each).__name__)
def test_closed_thread_takes_nothing_from_agents(command: Any) -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a"), build_page("b", map=False))
    bench.do(CloseThread())
    with pytest.raises(ThreadClosedError):
        bench.do(command)
    # Levels that a worker made for the page are kept all the same.
    assert bench.do(WriteLevels(made=build_levels("a", 40)))


@pytest.mark.parametrize("command", AGENTS, ids=lambda each: type(each).__name__)
def test_deciding_leaves_the_state_unchanged(command: Any) -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a"), build_page("b", map=False))
    before = bench.state
    first = replay.decide(bench.state, command, bench.rows, at=bench.at)
    assert replay.decide(bench.state, command, bench.rows, at=bench.at) == first
    assert bench.state is before


def test_refused_batch_makes_no_page() -> None:
    bench = Bench(**BARE)
    before = bench.state
    with pytest.raises(Refusal):
        make(
            bench,
            build_page("a", 600),
            build_page("b", 600),
            build_page("c", provenance=("nothing",)),
        )
    assert bench.state is before
