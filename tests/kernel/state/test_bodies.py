"""Event bodies: fields in the clear hold only what their types declare."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, get_args, get_origin
from uuid import UUID

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.state import bodies
from memoryhub.kernel.state.bodies import Body, ClientChosen, ServerMade
from memoryhub.kernel.state.context_bodies import SectionBody
from memoryhub.kernel.state.events import (
    ThreadConfig,
)
from memoryhub.kernel.text.names import NameMark

_MARKS = (ServerMade, ClientChosen, NameMark)
_BARE = (bool, int, float, str, datetime, Any)


def iter_undeclared_types(kind: Any, metadata: Any = ()) -> Iterator[Any]:
    """Yield types of the field that take any text and do not declare its contents."""
    parts = get_args(kind)
    if any(isinstance(each, _MARKS) for each in (*metadata, *parts)):
        return
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for info in kind.model_fields.values():
            yield from iter_undeclared_types(info.annotation, info.metadata)
    elif kind in _BARE:
        yield kind
    elif get_origin(kind) is not Literal:
        assert parts or kind in (UUID, type(None)), kind
        for part in parts:
            yield from iter_undeclared_types(part)


@pytest.mark.parametrize("name", TYPES)
def test_event_field_declares_its_contents(name: str) -> None:
    fields = TYPES[name].model_fields.items()
    wrong = {
        f: [*iter_undeclared_types(info.annotation, info.metadata)]
        for f, info in fields
    }
    assert not any(wrong.values()), wrong


def test_event_field_without_a_declaration_is_reported() -> None:
    class Inner(Body):
        phone: int | None = None

    class Outer(Body):
        inner: list[Inner]
        words: list[str]

    fields = Outer.model_fields
    assert [*iter_undeclared_types(fields["inner"].annotation)] == [int]
    assert [*iter_undeclared_types(fields["words"].annotation)] == [str]


@pytest.mark.parametrize(
    "field", ["max_slots", "max_keys", "budget_tokens", "default_ttl_seconds"]
)
def test_chosen_number_is_too_short_for_a_telephone(field: str) -> None:
    with pytest.raises(ValidationError):
        ThreadConfig.model_validate({field: 491_577_123_456})


def test_many_bytes_must_be_whole_mib() -> None:
    assert bodies.check_whole_mib(9_999_999) == 9_999_999
    assert bodies.check_whole_mib(64 * 2**20) == 64 * 2**20
    with pytest.raises(ValueError, match="whole MiB"):
        bodies.check_whole_mib(64 * 2**20 + 1)


@pytest.mark.parametrize("kind", [*TYPES.values(), SectionBody])
def test_sizes_are_rounded_to_steps(kind: type[Body]) -> None:
    for name, field in kind.model_fields.items():
        if name == "bytes":
            size: Any = Annotated[field.annotation, None, *field.metadata]
            assert TypeAdapter[int](size).validate_python(33) == 64
