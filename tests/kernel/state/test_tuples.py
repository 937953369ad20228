"""Tuples of the state are copied as the library copies them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.state.tuples import add_quick_replace


class Plain(NamedTuple):
    one: int
    two: int = 2
    three: str = ""


class _Quick(NamedTuple):
    one: int
    two: int = 2
    three: str = ""


Quick: Any = add_quick_replace(_Quick)
NAMES = st.sampled_from([*Plain._fields, "four"])


@given(changes=st.dictionaries(NAMES, st.integers()))
def test_quick_replace_returns_what_the_library_does(changes: dict[str, Any]) -> None:
    if "four" in changes:
        with pytest.raises(ValueError, match="four"):
            Quick(1)._replace(**changes)
        return
    quick = Quick(1)._replace(**changes)
    assert type(quick) is _Quick
    assert tuple(quick) == tuple(Plain(1)._replace(**changes))
