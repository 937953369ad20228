"""Bindings `$v1`, `$v2` …: results of calls under names, for later arguments. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from memoryhub.errors import ValueTooLargeError
from memoryhub.kernel.guards.literals import EXACT, Numeric, find_number
from memoryhub.kernel.state.calls import ValueType
from memoryhub.kernel.text.json_text import dump_json

#: Greatest distance at which a number is found to be a bound value.
NEAR = 1e-4
#: Most bytes that the references of one call may bring in.
MOST_BYTES = 1_048_576
#: Most characters of a text that is shown, and most parts of a list or object.
SHOWN_CHARS, SHOWN_PARTS = 50, 3
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w{0,63})\}|([A-Za-z_]\w{0,63}))", re.ASCII)
_ID = re.compile(r"v[1-9][0-9]{0,8}")


@dataclass(slots=True, kw_only=True)
class Binding:
    """A value under a name: a call's result, or a number that a model named."""

    #: `v1`, or the name that the model gave.
    id: str
    value: Any
    value_type: ValueType
    #: Clock of the call; None for a number that a model named.
    clock: int | None = None
    aliases: list[str] = field(default_factory=list)


class Bindings:
    """All bindings of an exchange, by name and by value."""

    def __init__(
        self, results: Iterable[Binding], named: Iterable[tuple[str, Numeric]] = ()
    ) -> None:
        self.items = [*results]
        self._by_name = {each.id: each for each in self.items}
        self._index_numbers()
        for name, number in dict(named).items():
            if not is_binding_id(name):
                self._bind_name(name, number)
        self._index_numbers()

    def __bool__(self) -> bool:
        return bool(self.items)

    def find(self, name: str) -> Binding | None:
        """Return the binding of an id or alias."""
        return self._by_name.get(name)

    def find_by_value(self, number: Numeric, within: float = NEAR) -> Binding | None:
        """Return the first binding whose value is at most `within` away."""
        if abs(number) >= EXACT:
            within = 0
        at = bisect_left(self._numbers, (number - within, -1))
        found = []
        for value, place in self._numbers[at:]:
            if value > number + within:
                break
            found.append(place)
        return self.items[min(found)] if found else None

    def _bind_name(self, name: str, number: Numeric) -> None:
        found = self.find_by_value(number)
        if found is None:
            found = Binding(id=name, value=number, value_type="number")
            self.items.append(found)
        else:
            found.aliases.append(name)
        self._by_name[name] = found

    def _index_numbers(self) -> None:
        numbers = [(find_number(e.value), n) for n, e in enumerate(self.items)]
        self._numbers = sorted(
            (value, place)
            for value, place in numbers
            if value is not None and self.items[place].value_type == "number"
        )


@dataclass(slots=True, kw_only=True)
class Resolution:
    """Arguments with references replaced by values."""

    arguments: Any
    #: Bindings in use, and ids that nothing is bound to.
    used: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    bytes: int = 0


def is_binding_id(name: str) -> bool:
    """Return whether a name has the form of ids: v1, v2 …"""
    return _ID.fullmatch(name) is not None


def list_references(arguments: Any) -> list[str]:
    """List the names after `$` in the texts of the arguments, each once."""
    texts = (text for text in _iter_texts(arguments) if "$" in text)
    names = (one or other for text in texts for one, other in _REFERENCE.findall(text))
    return [*dict.fromkeys(names)]


def is_reference(text: str, bindings: Bindings) -> bool:
    """Return whether a text is nothing but a reference to a binding."""
    match = _REFERENCE.fullmatch(text)
    return match is not None and bindings.find(match[1] or match[2]) is not None


def resolve(arguments: Any, bindings: Bindings) -> Resolution:
    """Replace references. A text that is only a reference becomes the value.

    A longer text gets the value's text in place of the reference. Raises
    ValueTooLargeError when the values take more than 1 MiB.
    """
    found = Resolution(arguments=None)
    found.arguments = _resolve_value(arguments, bindings, found)
    return found


def _resolve_value(value: Any, bindings: Bindings, found: Resolution) -> Any:
    if isinstance(value, Mapping):
        return {n: _resolve_value(e, bindings, found) for n, e in value.items()}
    if isinstance(value, list):
        return [_resolve_value(each, bindings, found) for each in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole is not None:
        bound = _look_up(whole, bindings, found)
        if bound is None:
            return value
        _add_size(found, _render_text(bound.value))
        return bound.value

    def replace(match: re.Match[str]) -> str:
        bound = _look_up(match, bindings, found)
        text = match[0] if bound is None else _render_text(bound.value)
        _add_size(found, text)
        return text

    return _REFERENCE.sub(replace, value)


def _look_up(
    match: re.Match[str], bindings: Bindings, found: Resolution
) -> Binding | None:
    name = match[1] or match[2]
    bound = bindings.find(name)
    if bound is not None and bound.id not in found.used:
        found.used.append(bound.id)
    elif bound is None and is_binding_id(name) and name not in found.unknown:
        found.unknown.append(name)
    return bound


def _add_size(found: Resolution, text: str) -> None:
    found.bytes += len(text)
    if found.bytes > MOST_BYTES:
        raise ValueTooLargeError(max_bytes=MOST_BYTES)


def _render_text(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value)


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _iter_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iter_texts(each)


def render_shown(value: Any) -> str:
    """Render a value for people, cut to 50 characters or 3 parts."""
    if isinstance(value, str):
        return value if len(value) <= SHOWN_CHARS else f"{value[:SHOWN_CHARS]}…"
    if isinstance(value, list | Mapping) and len(value) > SHOWN_PARTS:
        return f"{len(value):,} {'items' if isinstance(value, list) else 'members'}"
    number = find_number(value)
    if number and not isinstance(value, str) and not 1e-4 <= abs(number) <= 1e4:
        return f"{number:.6e}"
    text = dump_json(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
