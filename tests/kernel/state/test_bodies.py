"""Event bodies: what stands in the clear is what its type says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, get_args, get_origin
from uuid import UUID

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.state import bodies
from memoryhub.kernel.state.bodies import Body, Chosen, Ours
from memoryhub.kernel.state.context_bodies import SectionBody
from memoryhub.kernel.state.events import (
    Limits,
)
from memoryhub.kernel.text.names import NameMark

_MARKS = (Ours, Chosen, NameMark)
_BARE = (bool, int, float, str, datetime, Any)


def unmarked(kind: Any, metadata: Any = ()) -> Iterator[Any]:
    """Types of the field that anybody could fill, and nothing says who does."""
    parts = get_args(kind)
    if any(isinstance(each, _MARKS) for each in (*metadata, *parts)):
        return
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for info in kind.model_fields.values():
            yield from unmarked(info.annotation, info.metadata)
    elif kind in _BARE:
        yield kind
    elif get_origin(kind) is not Literal:
        assert parts or kind in (UUID, type(None)), kind
        for part in parts:
            yield from unmarked(part)


@pytest.mark.parametrize("name", TYPES)
def test_each_field_says_what_may_stand_there(name: str) -> None:
    fields = TYPES[name].model_fields.items()
    wrong = {f: [*unmarked(info.annotation, info.metadata)] for f, info in fields}
    assert not any(wrong.values()), wrong


def test_a_field_that_says_nothing_is_found() -> None:
    class Inner(Body):
        phone: int | None = None

    class Outer(Body):
        inner: list[Inner]
        words: list[str]

    fields = Outer.model_fields
    assert [*unmarked(fields["inner"].annotation)] == [int]
    assert [*unmarked(fields["words"].annotation)] == [str]


@pytest.mark.parametrize(
    "field", ["max_slots", "max_keys", "budget_tokens", "default_ttl_seconds"]
)
def test_a_chosen_number_is_too_short_for_a_telephone(field: str) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate({field: 491_577_123_456})


def test_many_bytes_are_whole_mib() -> None:
    assert bodies.whole_mib(9_999_999) == 9_999_999
    assert bodies.whole_mib(64 * 2**20) == 64 * 2**20
    with pytest.raises(ValueError, match="whole MiB"):
        bodies.whole_mib(64 * 2**20 + 1)


@pytest.mark.parametrize("kind", [*TYPES.values(), SectionBody])
def test_sizes_are_those_of_steps(kind: type[Body]) -> None:
    for name, field in kind.model_fields.items():
        if name == "bytes":
            size: Any = Annotated[field.annotation, None, *field.metadata]
            assert TypeAdapter[int](size).validate_python(33) == 64
