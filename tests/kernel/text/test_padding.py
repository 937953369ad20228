from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.text.padding import pad_size


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 20))
def test_padding_step_holds_its_size(size: int, more: int) -> None:
    held = pad_size(size)
    assert size <= held <= max(size + 63, size * 1.125, 64)
    assert pad_size(held) == held
    assert held <= pad_size(size + more)
    assert held % 64 == 0


def test_padding_of_small_sizes_is_as_specified() -> None:
    assert [pad_size(n) for n in (0, 1, 4, 5, 64, 65, 1_024, 1_025)] == (
        [64] * 5 + [128, 1_024, 1_152]
    )
