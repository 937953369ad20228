"""Erasing random records of random lives; all other records stay as they were."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from memoryhub.errors import Refusal, ThreadErasedError
from memoryhub.kernel import state_json
from memoryhub.kernel.commands import (
    AppendSlots,
    CloseThread,
    EraseRecords,
    EraseThread,
    ForkThread,
    RetireThread,
)
from memoryhub.kernel.memory import checkpoint_tree
from memoryhub.kernel.memory.keys import ChangeKeys, Expiry, RetimeKey
from memoryhub.kernel.memory.notes import NOTES
from memoryhub.kernel.memory.tasks import TASK, SetTask, UpdateTask
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    DeletePage,
    EvictPage,
    MapPage,
    PinPage,
    WriteLevels,
)
from memoryhub.kernel.state.erase_events import Range, RecordsErased, ThreadErased
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.paging import Frame
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents, Resident
from memoryhub.kernel.threads.threads import inherit_state
from tests.kernel.paged import thirds
from tests.kernel.remembered import delete, note, put, restore, setting, take
from tests.oracles.paging import (
    LOOSE,
    Bench,
    build_page,
    build_slot,
    list_places,
    make,
    rewrite,
)

ERASURE = UUID(int=77)
Place = tuple[UUID, int]


def erase(bench: Bench, *ranges: tuple[int, int], thread: UUID | None = None) -> Any:
    """Erase and return the one event that the command led to, or None."""
    home = thread or bench.state.id
    named = tuple((home, first, last) for first, last in ranges)
    events = bench.do(EraseRecords(erasure=ERASURE, reason="test", ranges=named))
    return events[0] if events else None


def contents_of(state: ThreadState) -> Iterator[Contents]:
    yield state.memory.contents
    yield from (each.contents for each in state.memory.list_live())


def residents_of(state: ThreadState) -> Iterator[Resident]:
    paging = state.paging
    yield Resident(paging.frames, paging.hot, paging.pins)
    yield from (each.resident for each in state.memory.list_live())


def leads_to(state: ThreadState) -> set[Place]:
    """Return the places of all records that the state refers to."""
    found = set()
    for contents in contents_of(state):
        clocks = [each.value for each in contents.keys.values()]
        clocks += [each.clock for each in NOTES.get(contents).lines]
        if task := TASK.get(contents):
            held = (task.description, task.data)
            clocks += [clock for clock in held if clock is not None]
        found |= {state.locate_event(clock) for clock in clocks}
    entries = [*state.paging.tlb.held.values()]
    for resident in residents_of(state):
        entries += [frame.entry for frame in resident.frames.values()]
        entries += [hot.entry for hot in resident.hot.values()]
    return found | {each[:2] for entry in entries for each in list_places(entry)}


# The remaining records, computed again


def kept_contents(state: ThreadState, it: Contents, gone: set[Place]) -> Any:
    def there(clock: int | None) -> bool:
        return clock is not None and state.locate_event(clock) not in gone

    keys = {name: e for name, e in it.keys.items() if there(e.value)}
    notes = [each for each in NOTES.get(it).lines if there(each.clock)]
    task = TASK.get(it)
    task = task and task._replace(
        description=task.description if there(task.description) else None,
        data=task.data if there(task.data) else None,
    )
    size = sum(each.bytes for each in keys.values())
    return keys, size, task, notes, sum(each.bytes for each in notes)


def plain_contents(it: Contents) -> Any:
    lines, size = NOTES.get(it)
    return dict(it.keys.items()), it.key_bytes, TASK.get(it), [*lines], size


def kept_entry(entry: PageEntry, gone: set[Place]) -> PageEntry | None:
    if entry.full.location[:2] in gone:
        return None
    levels: Any = tuple(
        None if each is None or each.location[:2] in gone else each
        for each in entry.levels
    )
    hint = None if entry.hint and entry.hint[:2] in gone else entry.hint
    return entry._replace(levels=levels, hint=hint)


def kept_pages(held: Any, gone: set[Place]) -> dict[str, Any]:
    kept = {}
    for name, each in held.items():
        entry = kept_entry(each.entry, gone)
        if entry is None:
            continue
        if isinstance(each, Frame) and entry.levels[each.level] is None:
            continue
        kept[name] = each._replace(entry=entry)
    return kept


def check(before: ThreadState, after: ThreadState, gone: set[Place]) -> None:
    assert not leads_to(after) & gone
    for old, new in zip(contents_of(before), contents_of(after), strict=True):
        assert plain_contents(new) == kept_contents(before, old, gone)
    for was, held in zip(residents_of(before), residents_of(after), strict=True):
        frames = kept_pages(was.frames, gone)
        assert dict(held.frames.items()) == frames
        assert dict(held.hot.items()) == kept_pages(was.hot, gone)
        assert {*held.pins} == {name for name in was.pins if name in frames}
    kept = {
        e.page_id: kept_entry(e, gone) for e in before.paging.tlb.list_oldest_first()
    }
    stay = {name: entry for name, entry in kept.items() if entry}
    assert [e.page_id for e in after.paging.tlb.list_oldest_first()] == [*stay]
    assert after.paging.tlb.held == stay
    assert after.paging.used == sum(f.tokens for f in after.paging.frames.values())
    _rest_is_the_same(before, after)


def _rest_is_the_same(before: ThreadState, after: ThreadState) -> None:
    same = after._replace(
        seq=before.seq, at=before.at, active_seq=before.active_seq,
        active_at=before.active_at, paging=before.paging, memory=before.memory,
    )  # fmt: skip
    assert same == before
    paging = ("frames", "used", "hot", "pins", "tlb", "history", "thrashing", "pages")
    moved = {name: getattr(after.paging, name) for name in paging}
    assert before.paging._replace(**moved) == after.paging
    memory = ("contents", "checkpoints", "weight")
    moved = {name: getattr(after.memory, name) for name in memory}
    assert before.memory._replace(**moved) == after.memory
    points = after.memory.checkpoints.values()
    assert after.memory.weight == sum(map(checkpoint_tree.compute_weight, points))


# Lives


def _any(bench: Bench, dice: random.Random) -> str:
    live = sorted(bench.rows.live)
    return dice.choice(live) if live else "nothing"


def _compress(bench: Bench, dice: random.Random) -> None:
    page_id = _any(bench, dice)
    if entry := bench.rows.live.get(page_id):
        levels = thirds(page_id, entry.version, entry.full.tokens)
        bench.do(WriteLevels(made=levels))


def _new_page(bench: Bench, dice: random.Random) -> None:
    of = (_any(bench, dice),) if bench.rows.live and dice.random() < 0.4 else None
    size, hinted = dice.choice([40, 120, 500]), dice.random() < 0.4
    name = f"p-{bench.state.seq}"
    make(
        bench,
        build_page(name, size, provenance=of, hinted=hinted, map=dice.random() < 0.7),
    )


def _set_task(bench: Bench, dice: random.Random) -> None:
    fields: Any = {"description": b'"d"'} if dice.random() < 0.6 else {"data": b"{}"}
    held = TASK.get_current(bench.state) and dice.random() < 0.5
    bench.do(UpdateTask(fields=fields) if held else SetTask(fields=fields))


def _return(bench: Bench, dice: random.Random) -> None:
    if points := bench.state.memory.list_live():
        restore(bench, dice.choice(points).clock)


ACTS: list[tuple[int, Callable[[Bench, random.Random], Any]]] = [
    (20, lambda b, d: b.do(AppendSlots(slots=(build_slot(d.choice([20, 90, 300])),)))),
    (14, _new_page),
    (8, _compress),
    (5, lambda b, d: b.do(rewrite(_any(b, d), d.choice([50, 200])))),
    (6, lambda b, d: b.do(MapPage(page_id=_any(b, d), level=d.choice([0, 1, 2])))),
    (4, lambda b, d: b.do(PinPage(page_id=_any(b, d)))),
    (3, lambda b, d: b.do(EvictPage(page_id=_any(b, d)))),
    (2, lambda b, d: b.do(DeletePage(page_id=_any(b, d)))),
    (6, lambda b, d: b.do(BeginTurn())),
    (14, lambda b, d: put(b, f"k-{d.randrange(8)}", "v" * d.randrange(30))),
    (3, lambda b, d: delete(b, f"k-{d.randrange(8)}")),
    (3, lambda b, d: b.do(RetimeKey(key=f"k-{d.randrange(8)}", expiry=Expiry()))),
    (8, lambda b, d: note(b, d.randrange(1, 30))),
    (6, _set_task),
    (6, lambda b, d: take(b, f"c-{b.state.seq}" if d.random() < 0.5 else None)),
    (3, _return),
]


def live_steps(bench: Bench, dice: random.Random, steps: int) -> None:
    weights = [weight for weight, _ in ACTS]
    for _, act in dice.choices(ACTS, weights, k=steps):
        try:
            act(bench, dice)
        except Refusal:
            continue


def some_ranges(bench: Bench, dice: random.Random) -> tuple[Range, ...]:
    journals = [(part.thread, part.up_to_seq) for part in bench.state.lineage]
    found = []
    for _ in range(dice.randrange(1, 6)):
        home, end = dice.choice([*journals, (bench.state.id, bench.state.seq)])
        first = dice.randrange(1, end + 1)
        found.append((home, first, min(end, first + dice.choice([0, 0, 3, 20]))))
    return tuple(found)


@pytest.mark.parametrize("seed", range(24))
def test_erasure_removes_from_state_only_the_erased_records(seed: int) -> None:
    dice = random.Random(seed)
    bench, erased = Bench(thread=10, max_notes=20, **LOOSE), set[Place]()
    live_steps(bench, dice, 60)
    for n in range(4):
        if n == 1 and seed % 2:
            bench = bench.fork(thread=11, **LOOSE)
        live_steps(bench, dice, 25)
        ranges = some_ranges(bench, dice)
        gone = {(home, seq) for home, a, b in ranges for seq in range(a, b + 1)}
        before, left = bench.state, dict(bench.rows.live)
        command = EraseRecords(erasure=ERASURE, reason="test", ranges=ranges)
        if events := bench.do(command):
            check(before, bench.state, gone)
            assert events[0].records == len(gone)
            lost = {name for name in left if name not in bench.rows.live}
            assert before.paging.pages - bench.state.paging.pages == len(lost)
        else:
            assert not gone & (leads_to(before) | bench.rows.payloads)
        assert not bench.do(command)
        erased |= gone
        live_steps(bench, dice, 15)
        assert not leads_to(bench.state) & erased
        assert leads_to(bench.state)
        assert state_json.to_json(bench.refolded()) == state_json.to_json(bench.state)
        kept = json.loads(json.dumps(state_json.to_json(bench.state)))
        assert state_json.to_json(state_json.from_json(kept)) == kept


def test_page_is_erased_with_its_current_text_not_with_an_older_one() -> None:
    bench = Bench(thread=10, **LOOSE)
    make(bench, build_page("a", 50), build_page("b", 50))
    (updated,) = bench.do(rewrite("a", 60))
    at = bench.state.seq
    event = erase(bench, (2, 2))
    assert event.pages == []
    assert "a" in bench.paging.frames
    event = erase(bench, (at, at))
    assert [each.page_id for each in event.pages] == ["a"]
    assert [*bench.paging.frames] == ["b"]
    assert bench.paging.pages == 1
    assert updated.version == 2


def test_frame_leaves_an_erased_level() -> None:
    bench = Bench(thread=10, **LOOSE)
    make(bench, build_page("a", 300), build_page("b", 300))
    for name in ("a", "b"):
        bench.do(WriteLevels(made=thirds(name, 1, 300)))
        bench.do(EvictPage(page_id=name))
        bench.do(MapPage(page_id=name, level=1))
    seqs = [
        each.seq for each in bench.log if each.event.event_type == "page.compressed"
    ]
    event = erase(bench, (seqs[0], seqs[0]))
    assert [each.page_id for each in event.pages] == ["a"]
    assert bench.mapped == ["b"]
    assert bench.rows.live["a"].levels[1:] == (None, None, None)
    bench.do(MapPage(page_id="a", level=1))
    assert bench.frame("a").level == 0


def test_copied_inherited_value_names_its_source() -> None:
    bench = Bench(thread=10)
    put(bench, "k", "value", seconds=60)
    child = bench.fork(thread=11)
    (copied,) = child.do(
        RetimeKey(key="k", expiry=Expiry(given=True), value=b'"value"')
    )
    assert (copied.source.thread, copied.source.seq) == (str(UUID(int=10)), 2)
    assert erase(child, (2, 2), thread=UUID(int=10)) is None
    assert erase(child, (2, 2)).records == 1
    assert "k" not in child.state.memory.contents.keys


def test_derived_page_names_the_seq_of_each_source_text() -> None:
    bench = Bench(thread=10, **LOOSE)
    make(bench, build_page("a", 50))
    bench.do(rewrite("a", 60))
    *_, made_of = make(bench, build_page("b", 50, provenance=("a",)))
    assert [each.seq for each in made_of.sources] == [3]
    # A new text of a page that is made of others is made of them too.
    *_, again = bench.do(rewrite("b", 70))
    assert [each.seq for each in again.sources] == [3]


def test_fork_drops_records_that_its_parent_erased_since() -> None:
    bench = Bench(thread=10, **LOOSE)
    put(bench, "k", "v")
    put(bench, "kept", "w")
    make(bench, build_page("a", 50), build_page("b", 50))
    then, rows = bench.state, dict(bench.rows.live)
    event = erase(bench, (2, 2), (4, 4))
    child = Bench.__new__(Bench)
    blank = ThreadState(id=UUID(int=11), project=UUID(int=2), subject=UUID(int=3))
    fresh = type(bench.rows)()
    fresh.live = rows
    child._begin(inherit_state(then, blank), fresh)
    _, let_go = child.do(
        ForkThread(
            parent=then, parent_chain="00", config=ThreadConfig(), erased=(event,)
        )
    )
    assert isinstance(let_go, RecordsErased)
    assert let_go.ranges == [(UUID(int=10), 2, 2), (UUID(int=10), 4, 4)]
    assert [*child.state.memory.contents.keys] == ["kept"]
    assert [*child.paging.frames] == ["b"]


def test_erased_thread_keeps_its_counts_and_takes_no_command() -> None:
    bench = Bench(thread=10, **LOOSE)
    bench.do(AppendSlots(slots=(build_slot(20), build_slot(30))))
    put(bench, "k")
    take(bench, "c")
    bench.do(CloseThread())
    bench.do(RetireThread(policy_days=1, idle_days=2))
    seq = bench.state.seq
    (event,) = bench.do(EraseThread(erasure=ERASURE, reason="retention"))
    assert event == ThreadErased(erasure=ERASURE, reason="retention", records=seq)
    after = bench.state
    assert (after.status, after.slot_count, after.token_count) == ("erased", 2, 50)
    assert not leads_to(after)
    assert not after.types
    assert after.paging.settings.usable == 3_600
    for command in (
        EraseThread(erasure=ERASURE, reason="test"),
        *_build_erasures(bench),
    ):
        assert bench.do(command) == []
    with pytest.raises(ThreadErasedError):
        bench.do(ChangeKeys(changes=(setting("k"),)))


def _build_erasures(bench: Bench) -> tuple[EraseRecords, ...]:
    ranges = ((bench.state.id, 1, 5),)
    return (EraseRecords(erasure=ERASURE, reason="test", ranges=ranges),)


def test_erasure_ranges_beyond_the_thread_are_ignored() -> None:
    bench = Bench(thread=10)
    put(bench, "k")
    assert erase(bench, (1, 9), thread=UUID(int=99)) is None
    event = erase(bench, (2, 900))
    assert event.ranges == [(UUID(int=10), 2, 2)]
