"""Nouns of working memory: every list knows what a noun declares."""

from __future__ import annotations

from memoryhub.kernel.memory.nouns import (
    LIMITS,
    RESTORABLE,
    SLICES,
    count_contents,
    measure_contents,
)
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.working_memory import Contents


def test_each_limit_is_a_setting_of_a_thread() -> None:
    assert LIMITS.keys() <= ThreadConfig.model_fields.keys()


def test_no_two_measures_have_one_name() -> None:
    names = [name for part in SLICES.values() for name in part.measures]
    assert len(names) == len({*names})


def test_empty_contents_have_zero_measures() -> None:
    assert not any(count_contents(Contents()).values())
    assert not any(measure_contents(Contents(), "stats").values())
    assert not any(measure_contents(Contents(), "timeline").values())


def test_each_slice_can_be_restored() -> None:
    assert SLICES.keys() <= {*RESTORABLE}
