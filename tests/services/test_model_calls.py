"""Sums of the costs of model calls."""

from __future__ import annotations

import pytest

from memoryhub.services.model_calls import add_costs


@pytest.mark.parametrize(
    ("before", "more", "both"),
    [(None, None, None), (None, 0.1, 0.1), (0.1, 0.2, 0.3), (0.1, None, 0.1)],
)
def test_model_costs_add_up_as_far_as_known(
    before: float | None, more: float | None, both: float | None
) -> None:
    assert add_costs(before, more) == both
