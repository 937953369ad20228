"""The nouns of working memory: what one declares is known where it counts."""

from __future__ import annotations

from memoryhub.kernel.memory.nouns import LIMITS, RESTORABLE, SLICES, counts, measured
from memoryhub.kernel.state.events import Limits
from memoryhub.kernel.state.working_memory import Contents


def test_each_limit_is_a_setting_of_a_thread() -> None:
    assert LIMITS.keys() <= Limits.model_fields.keys()


def test_no_two_measures_have_one_name() -> None:
    names = [name for part in SLICES.values() for name in part.measures]
    assert len(names) == len({*names})


def test_nothing_is_reported_of_empty_contents_but_zeros() -> None:
    assert not any(counts(Contents()).values())
    assert not any(measured(Contents(), "stats").values())
    assert not any(measured(Contents(), "timeline").values())


def test_each_slice_can_be_restored() -> None:
    assert SLICES.keys() <= {*RESTORABLE}
