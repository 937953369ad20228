from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.text.padding import padded


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 20))
def test_steps_hold_what_they_stand_for(size: int, more: int) -> None:
    held = padded(size)
    assert size <= held <= max(size + 63, size * 1.125, 64)
    assert padded(held) == held
    assert held <= padded(size + more)
    assert held % 64 == 0


def test_the_first_steps() -> None:
    assert [padded(n) for n in (0, 1, 4, 5, 64, 65, 1_024, 1_025)] == (
        [64] * 5 + [128, 1_024, 1_152]
    )
