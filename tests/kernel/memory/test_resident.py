"""Working set of a checkpoint, and its restore."""

from __future__ import annotations

import pytest

from memoryhub.errors import PinBudgetError
from memoryhub.kernel.commands import AmendThread
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.kernel.memory.nouns import RESTORED
from memoryhub.kernel.paging.page_commands import (
    DeletePage,
    EvictPage,
    MapPage,
    PinPage,
    UnpinPage,
    WriteLevels,
)
from memoryhub.kernel.state.page_events import PageEvicted
from tests.kernel.paged import assert_bounded, rows_agree
from tests.kernel.remembered import put, restore, take
from tests.oracles.paging import (
    SMALL,
    Bench,
    build_levels,
    build_page,
    list_of_kind,
    make,
    rewrite,
)


def build_bench(*sizes: int) -> Bench:
    """Build a bench with pages p0, p1, … of these tokens, mapped, the first pinned."""
    bench = Bench(**SMALL, auto_pin_turns=0, auto_pin_claims=False)
    make(bench, *(build_page(f"p{n}", size) for n, size in enumerate(sizes)))
    bench.do(PinPage(page_id="p0"))
    return bench


def evict(bench: Bench, *page_ids: str) -> None:
    for page_id in page_ids:
        bench.do(EvictPage(page_id=page_id))


def restore_working_set(bench: Bench, target: int) -> CheckpointRestored:
    """Restore the working set alone and check its bounds."""
    (told,) = list_of_kind(restore(bench, target, ("frames",)), CheckpointRestored)
    assert_bounded(bench.state)
    rows_agree(bench)
    return told


def test_working_set_comes_back_when_it_is_asked_for() -> None:
    bench = build_bench(100, 100, 100)
    kept = take(bench)
    frames, pins = bench.paging.frames, bench.paging.pins
    bench.do(UnpinPage(page_id="p0"))
    evict(bench, "p0", "p1")
    bench.do(PinPage(page_id="p2"))
    told = restore_working_set(bench, kept)
    assert (told.left_out, told.refreshed) == ([], [])
    assert bench.mapped == ["p0", "p1", "p2"]
    assert {*bench.paging.pins} == {*pins} == {"p0"}
    assert bench.paging.used == 300
    for page_id, frame in frames.items():
        assert bench.frame(page_id)._replace(cause_seq=frame.cause_seq) == frame


def test_usual_parts_leave_the_working_set_alone() -> None:
    bench = build_bench(100, 100)
    kept = take(bench)
    put(bench, "k")
    evict(bench, "p1")
    paging = bench.paging
    restore(bench, kept, RESTORED)
    assert bench.paging == paging
    assert restore(bench, kept, RESTORED) == []


def test_working_set_comes_back_with_an_empty_tlb() -> None:
    bench = build_bench(100, 100)
    kept = take(bench)
    evict(bench, "p1")
    assert bench.paging.tlb.find("p1") is not None
    restore_working_set(bench, kept)
    assert len(bench.paging.tlb.held) == 0


def test_undo_brings_back_the_replaced_working_set() -> None:
    bench = build_bench(100, 100, 100)
    kept = take(bench)
    evict(bench, "p1", "p2")
    before, hot = bench.mapped, {*bench.paging.hot}
    told = restore_working_set(bench, kept)
    restore_working_set(bench, told.before)
    assert (bench.mapped, {*bench.paging.hot}) == (before, hot)


def test_restore_omits_deleted_pages() -> None:
    bench = build_bench(100, 100, 100)
    kept = take(bench)
    bench.do(DeletePage(page_id="p1"))
    evict(bench, "p2")
    told = restore_working_set(bench, kept)
    assert told.left_out == ["p1"]
    assert bench.mapped == ["p0", "p2"]


def test_restore_maps_the_current_version_of_a_changed_page() -> None:
    bench = build_bench(100, 100, 100)
    kept = take(bench)
    bench.do(rewrite("p1", 250))
    evict(bench, "p1", "p2")
    told = restore_working_set(bench, kept)
    assert [each.page_id for each in told.refreshed] == ["p1"]
    assert (bench.frame("p1").tokens, bench.paging.used) == (250, 450)


def test_restore_maps_a_changed_page_in_full() -> None:
    bench = build_bench(300, 100)
    bench.do(WriteLevels(made=build_levels("p1", 130, 110)))
    evict(bench, "p1")
    bench.do(MapPage(page_id="p1", level=1))
    kept = take(bench)
    evict(bench, "p1")
    restore_working_set(bench, kept)
    assert (bench.frame("p1").level, bench.frame("p1").tokens) == (1, 130)
    evict(bench, "p1")
    bench.do(rewrite("p1", 250))
    bench.do(WriteLevels(made=build_levels("p1", 130, 110, version=2)))
    restore_working_set(bench, kept)
    assert (bench.frame("p1").level, bench.frame("p1").tokens) == (0, 250)


def test_restored_frames_fit_the_current_budget() -> None:
    """Restored pages beyond the budget are evicted in the same command."""
    bench = build_bench(*[220] * 6)
    kept = take(bench)
    evict(bench, "p1", "p2", "p3", "p4", "p5")
    bench.do(AmendThread(config={"reserved_tokens": 1_200}))
    told = restore(bench, kept, ("frames",))
    left = list_of_kind(told, PageEvicted)
    assert {each.cause for each in left} == {"restore"}
    assert bench.paging.used <= 1_200
    assert "p0" in bench.mapped
    assert_bounded(bench.state)
    rows_agree(bench)


def test_pins_beyond_their_share_do_not_come_back() -> None:
    bench = build_bench(400, 100)
    kept = take(bench)
    bench.do(UnpinPage(page_id="p0"))
    evict(bench, "p0")
    bench.do(AmendThread(config={"pin_share": 0.1}))
    state = bench.state
    with pytest.raises(PinBudgetError):
        restore(bench, kept, ("frames",))
    assert bench.state is state


def test_any_process_folds_the_same_working_set() -> None:
    bench = build_bench(100, 100, 100)
    kept = take(bench)
    bench.do(rewrite("p1", 250))
    evict(bench, "p1", "p2")
    restore_working_set(bench, kept)
    assert bench.refolded() == bench.state
    bench.restart()
    assert bench.refolded() == bench.state
    restore_working_set(bench, bench.state.memory.automatic[0])


def test_restore_changes_nothing_if_the_working_set_is_the_same() -> None:
    bench = build_bench(100, 100)
    kept = take(bench)
    assert restore(bench, kept, ("frames",)) == []
