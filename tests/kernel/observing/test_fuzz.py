"""Observing under everything at once: 0 of 500 seeds fail, and planted bugs are found.

An oracle keeps what stands for each slot, by what the commands led to.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from memoryhub.errors import Refusal
from memoryhub.kernel import state_json
from memoryhub.kernel.commands import AmendThread, AppendSlots, EraseRecords
from memoryhub.kernel.decision import PageTable
from memoryhub.kernel.observing import formulas, observing
from memoryhub.kernel.observing.observing import (
    ActivateObservations,
    CreateObservation,
    CreateReflection,
    FailObserver,
    InstructObservers,
    PauseObserver,
    ResumeObserver,
)
from memoryhub.kernel.paging.page_commands import BeginTurn, NewObservation
from memoryhub.kernel.state.observing import Observation, Observing
from memoryhub.kernel.state.page_events import ObservedBody
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.state.state import ThreadState
from tests.kernel.paged import assert_bounded
from tests.oracles.observing import Standing
from tests.oracles.paging import BEGAN, Bench, build_slot

STEPS = 400
#: Of one thread; more make what it inherits too long to look through.
FORKS = 3


class Run(NamedTuple):
    """Observation that a worker was asked for and has not returned yet."""

    made: NewObservation
    epoch: int
    reflects: bool


class World:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        usable = self.chance.choice([2_000, 8_000, 30_000, 200_000, 1_000_000])
        self.size = max(20, usable // self.chance.choice([20, 60, 200]))
        bench = Bench(
            budget_tokens=usable + 1_000,
            reserved_tokens=1_000,
            observe=True,
            observe_keep_tokens=max(100, usable // self.chance.choice([4, 8])),
        )
        standing = Standing()
        self.threads: list[tuple[Bench, Standing, list[Run]]] = [(bench, standing, [])]

    def step(self) -> None:
        self.bench, self.standing, self.runs = self.chance.choice(self.threads)
        steps: dict[Callable[[], None], int] = {
            self.append: 30,
            self.begin_run: 20,
            self.finish: 20,
            self.take_turn: 12,
            self.activate: 3,
            self.reflect: 8,
            self.lose: 2,
            self.fail: 2,
            self.pause: 2,
            self.instruct: 2,
            self.restart: 2,
            self.fork: 1,
            self.erase: 2,
            self.amend: 2,
        }
        (chosen,) = self.chance.choices([*steps], weights=[*steps.values()])
        before = self.bench.state
        try:
            chosen()
        except Refusal:
            assert self.bench.state == before
        live = self.bench.rows.live
        self.standing.check(self.bench.state, before.observing, live)
        assert_bounded(self.bench.state)

    # Acts

    def append(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            index, groups = len(self.standing.by), self.standing.groups
            role = self.chance.choice(["user", "assistant", "assistant", "tool"])
            if role == "tool" and not (groups and groups[-1].stop == index):
                role = "assistant"
            new = build_slot(self.chance.randint(5, self.size), role)
            self.do(AppendSlots(slots=(new,)))

    def begin_run(self) -> None:
        state = self.bench.state
        seen, settings = state.observing, state.paging.settings
        begin, end = (seen.list_gaps() or [(seen.watermark, state.slot_count)])[0]
        most = formulas.compute_cap(settings, self.chance.choice([None, 3_000]))
        found = self.observed(begin, end, most)
        if begin < end and self.chance.random() < 0.2:
            # An agent observes whatever it likes.
            found = build_observation(
                begin, self.chance.randint(begin + 1, end), raw=10
            )
        if found is not None:
            self.runs.append(Run(found, seen.epoch, reflects=False))

    def finish(self) -> None:
        if not self.runs:
            return
        run = self.chance.choice(self.runs)
        if self.chance.random() < 0.7:
            # Else it comes once more.
            self.runs.remove(run)
        now = self.chance.random() < 0.5
        if run.reflects:
            self.do(CreateReflection(made=run.made, epoch=run.epoch, now=now))
        else:
            self.do(CreateObservation(made=run.made, epoch=run.epoch))

    def reflect(self) -> None:
        seen = self.bench.state.observing
        gap = next((a for a, _ in seen.list_gaps()), seen.watermark)
        whole = [each for each in seen.log if each.end <= gap]
        if whole:
            read = whole[: self.chance.randint(1, len(whole))]
            self.runs.append(Run(self.reflection(read), seen.epoch, reflects=True))

    def take_turn(self) -> None:
        pieces, state = list[NewObservation](), self.bench.state
        ahead = (state.observing.watermark, state.slot_count)
        most = formulas.compute_cap(state.paging.settings, None)
        for at, end in (*state.observing.list_gaps(), ahead):
            begin: int | None = at
            while begin is not None and begin < end and len(pieces) < 40:
                found = self.observed(begin, end, most)
                begin = found.observed.end if found else None
                pieces += [found] if found else []
        extracted = () if self.chance.random() < 0.2 else tuple(pieces)
        (began,) = [
            event
            for event in self.do(
                BeginTurn(observed=extracted, epoch=state.observing.epoch)
            )
            if event.event_type == "turn.began"
        ]
        missing = self.standing.missing(self.bench.state, self.bench.rows.live)
        assert began.over_budget or not missing

    def activate(self) -> None:
        self.do(ActivateObservations())

    def lose(self) -> None:
        self.runs.clear()

    def fail(self) -> None:
        seen = self.bench.state.observing
        command = FailObserver(
            role="observer",
            begin=seen.watermark,
            end=seen.watermark + 1,
            epoch=seen.epoch,
            failure="empty",
            retry_at=BEGAN,
        )
        self.do(command)

    def pause(self) -> None:
        paused = self.bench.state.observing.paused
        self.do(ResumeObserver() if paused else PauseObserver())
        assert self.bench.state.observing.paused is not paused

    def instruct(self) -> None:
        text = self.chance.choice([None, "", "Keep numbers."])
        self.do(InstructObservers(texts={"observer": text}))
        own = self.bench.state.observing.find_instructions("observer")
        assert (own is None) == (text is None)

    def restart(self) -> None:
        self.bench.restart()

    def fork(self) -> None:
        if len(self.threads) < FORKS:
            number = len(self.threads) + 10
            settings = self.bench.state.config
            config = {"budget_tokens": settings.budget_tokens, "reserved_tokens": 1_000}
            child = self.bench.fork(thread=number, observe=True, **config)
            # Runs begun in the parent belong to the parent.
            self.threads.append((child, self.standing.copy(), [*self.runs]))

    def amend(self) -> None:
        at = self.chance.choice([0.5, 0.9, 0.95])
        config = {
            "observe_at": at,
            "observe_keep_tokens": self.chance.choice([500, None]),
        }
        self.do(AmendThread(config=config))

    def erase(self) -> None:
        """Erase some slots, and with them all observations of them."""
        standing, state = self.standing, self.bench.state
        if not standing.by or self.chance.random() < 0.5:
            return
        first = self.chance.randrange(len(standing.by))
        hit = range(first, min(len(standing.by), first + self.chance.randint(1, 5)))
        wanted = {*hit}
        if self.chance.random() < 0.3:
            # A reflection alone.
            wanted = set()
            made = [name for name in standing.covers if name.startswith("ref-")]
            gone = standing.made_with({self.chance.choice(made)} if made else set())
        else:
            gone = standing.made_of(wanted)
        clocks = {standing.clocks[name] for name in gone}
        entries = self.bench.rows.live
        clocks |= {
            entries[f"slot-{n}"].created_seq for n in wanted if f"slot-{n}" in entries
        }
        if not clocks:
            return
        places = [state.locate_event(clock) for clock in sorted(clocks)]
        ranges = tuple((thread, seq, seq) for thread, seq in places)
        self.do(EraseRecords(erasure=UUID(int=9), reason="mistake", ranges=ranges))
        standing.lose(gone)

    # Sources and derivations

    def observed(self, begin: int, end: int, most: int) -> NewObservation | None:
        rows, spoken = self.bench.rows.live, list[tuple[int, str | None]]()
        for n in range(begin, end):
            entry = rows.get(f"slot-{n}")
            spoken.append((entry.full.tokens, entry.role) if entry else (0, None))
        whole = end == self.bench.state.slot_count
        to = formulas.choose_end(begin, spoken, most, all_of=whole)
        if not whole and to is None:
            to = end
        if to is None:
            return None
        raw = sum(tokens for tokens, _ in spoken[: to - begin])
        return build_observation(begin, to, raw=raw)

    def reflection(self, read: list[Observation]) -> NewObservation:
        names = [each.page_id for each in read]
        raw = sum(each.raw for each in read)
        # Now and then one that is not smaller, which is refused.
        tokens = sum(each.tokens for each in read) // self.chance.choice([1, 2, 2, 3])
        return build_observation(
            read[0].begin, read[-1].end, raw=raw, covers=names, tokens=max(1, tokens)
        )

    def do(self, command: Any) -> list[Any]:
        events = self.bench.do(command)
        began = self.bench.state.clock - self.bench.state.seq
        seq = self.bench.state.seq - len(events)
        for number, event in enumerate(events, 1):
            clock = began + seq + number
            self.standing.take(event, clock, self.bench.state, self.bench.rows.live)
        return events


def build_observation(
    begin: int,
    end: int,
    *,
    raw: int,
    covers: list[str] | None = None,
    tokens: int | None = None,
) -> NewObservation:
    tokens = tokens or max(1, min(raw // 5, 400))
    body = ObservedBody(
        begin=begin,
        end=end,
        raw=raw,
        shown=tokens,
        method="extractive",
        covers=covers,
    )
    return NewObservation(
        observed=body,
        payload=b'{"content":{"text":"."}}',
        tokens=tokens,
        cost=tokens,
        bytes=tokens * 4,
        sources=(Location(UUID(int=1), 1, 0),),
    )


def fuzz(seed: int, steps: int = STEPS) -> None:
    world = World(seed)
    for _ in range(steps):
        world.step()
    for bench, *_ in world.threads:
        # A snapshot has its settings from what it holds.
        assert state_json.to_json(bench.refolded()) == state_json.to_json(bench.state)
        assert bench.refolded().paging.settings == bench.paging.settings


@pytest.mark.parametrize("seed", range(8))
def test_observing_fuzz(seed: int) -> None:
    fuzz(seed)


@pytest.mark.nightly
@pytest.mark.timeout(3_000)
def test_observing_fuzz_of_500_seeds() -> None:
    fuzz_each(500)


def fuzz_each(seeds: int) -> None:
    for seed in range(seeds):
        fuzz(seed)


def twice(self: Observing, begin: int, slots: int) -> int | None:
    return slots if begin <= self.watermark else None


def lost(self: Observing) -> Observing:
    after = REPLACED(self)
    return after._replace(log=(after.log[0], *after.log[2:]))


def step_back(self: Observing, gone: Callable[[int], bool]) -> Observing:
    after = WITHOUT(self, gone)
    begins = [begin for begin, _ in after.list_gaps()]
    return after._replace(cursor=min([after.cursor, *begins]))


def is_always_open(state: ThreadState, end: int, pages: PageTable) -> bool:
    return True


def skipped(self: Observing, slots: int) -> list[tuple[int, int]]:
    return [(self.cursor, slots)]


REPLACED, WITHOUT = Observing.replace_reflected, Observing.remove_erased
#: Each bug by name, with the function that plants it.
BUGS: dict[str, tuple[Any, str, Any]] = {
    "a range observed twice": (Observing, "find_range_end", twice),
    "a chunk lost at reflection": (Observing, "replace_reflected", lost),
    "a cursor moved back": (Observing, "remove_erased", step_back),
    "an open group covered": (observing, "is_closed", is_always_open),
    "a gap skipped": (Observing, "list_uncovered", skipped),
}


@pytest.mark.parametrize("bug", BUGS)
def test_fuzz_finds(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[bug])
    with pytest.raises(AssertionError):
        fuzz_each(500)
