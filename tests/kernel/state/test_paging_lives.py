"""Long random lives of threads, beside the plain model at every step."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.kernel.state.test_paging import Threads
from tests.oracles.paging import build_prose

#: Acts in a thread with their weights: mostly messages, turns and faults.
LIFE: list[tuple[int, Callable[[Threads, random.Random], Any]]] = [
    (30, lambda it, dice: it.append(messages=_draw_messages(dice))),
    (12, lambda it, dice: it.begin_turn(messages=_draw_messages(dice), wanted=True)),
    (10, lambda it, dice: it.write_levels()),
    (
        25,
        lambda it, dice: it.fault(
            pick=dice.randrange(1_000),
            level=dice.randrange(4),
            reason=dice.choice(["resolve_reference", "user_requested_recall"]),
            wanted=True,
        ),
    ),
    (10, lambda it, dice: it.reference_pages(picks=[dice.randrange(1_000)])),
    (
        6,
        lambda it, dice: it.create_page(
            size=dice.choice([30, 80, 200]),
            kind=dice.choice(["claim", "summary", "artifact"]),
            importance=None,
            flags=(dice.random() < 0.8, True, False),
            pick=0,
        ),
    ),
    (4, lambda it, dice: it.map(pick=dice.randrange(1_000), level=0, wanted=True)),
    (3, lambda it, dice: it.rewrite_page(pick=dice.randrange(1_000), size=200)),
    (2, lambda it, dice: it.pin(pick=dice.randrange(1_000))),
    (2, lambda it, dice: it.unpin(pick=dice.randrange(1_000))),
    (2, lambda it, dice: it.evict(pick=dice.randrange(1_000))),
    (1, lambda it, dice: it.delete(pick=dice.randrange(1_000))),
    (1, lambda it, dice: it.restart()),
    (1, lambda it, dice: it.write_system_prompt(size=dice.choice([80, 500]))),
    (
        1,
        lambda it, dice: it.configure(
            budget=dice.choice([2_000, 2_400, 4_000]),
            l1_pages=dice.choice([3, 6]),
            tlb_entries=8,
            fork=dice.random() < 0.5,
        ),
    ),
]


def _draw_messages(dice: random.Random) -> list[tuple[int, str]]:
    sizes, roles = [5, 30, 80, 200, 500, 900], ["user", "user", "system"]
    return [
        (dice.choice(sizes), dice.choice(roles)) for _ in range(dice.choice([1, 1, 4]))
    ]


def live_steps(seed: int, *, steps: int) -> Threads:
    """Play a long life, which a search for a short one would not find."""
    dice, thread = random.Random(seed), Threads()
    thread.create(
        flags=(seed % 3 > 0, True, True),
        threshold="referenced",
        policy=dice.choice(["importance_lru", "lru", "sieve"]),
        tlb_entries=8,
        l1_pages=6,
        pin_share=dice.choice([0.3, 0.6]),
        auto_pin_turns=dice.choice([0, 1, 3]),
        max_faults_per_turn=20,
        max_fault_tokens_per_turn=4_000,
    )
    for step in range(steps):
        _, act = dice.choices(LIFE, [weight for weight, _ in LIFE])[0]
        act(thread, dice)
        thread.the_model_agrees()
        thread.the_invariants_hold()
        if step % 50 == 49:
            thread.any_process_folds_the_same()
    return thread


@pytest.mark.parametrize("seed", range(3))
def test_long_paging_lives_equal_the_model(seed: int) -> None:
    live_steps(seed, steps=150)


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(100, 140))
def test_longer_paging_lives_equal_the_model(seed: int) -> None:
    live_steps(seed, steps=600)


def test_prose_is_as_long_as_asked() -> None:
    """Otherwise the sizes of this file would mean nothing."""
    assert [len(build_prose(size)) for size in (5, 900)] == [16, 2_880]
