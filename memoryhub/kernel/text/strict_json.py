"""Strict JSON: the only parser of JSON text that comes in, and two encoders.

Pure. A value returned by `parse` means the same in every parser and database: no
duplicate keys, no number that is not a 64-bit integer or a double, no text that is not
Unicode. Only content may have other numbers; their digits are kept as they came. See
decisions 39 and 57.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn

from memoryhub.errors import Refusal
from memoryhub.kernel.text import numbers
from memoryhub.kernel.text.numbers import Number

#: Location of a value: our own field names, else ordinals; never a client's key.
Loc = tuple[str | int, ...]

MIN_INTEGER, MAX_INTEGER = -(2**63) + 1, 2**63 - 1
#: Length of the smallest double written out in full; nothing exact needs a longer
#: number.
MAX_NUMBER_CHARS = 1_077

#: A whole string is one match, also when the text ends inside it. The possessive
#: quantifiers keep the scan linear whatever the text.
_TOKENS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]|,', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
#: An escape for a surrogate or for NUL. Longer ways to write a backslash match as well,
#: which costs time only.
_ODD_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """Limits of a JSON text; a text beyond them is refused, never cut."""

    max_bytes: int = 1_048_576
    #: The outermost array or object has depth 1.
    max_depth: int = 32
    #: Every value is a node, the outermost included; keys are not.
    max_nodes: int = 10_000
    max_key_bytes: int = 256
    #: Whether the text is content: numbers are kept, of up to `MAX_NUMBER_CHARS`.
    content: bool = False


DEFAULT = JsonLimits()
CONTENT = JsonLimits(content=True)

#: Encoders made once, as `json.dumps` would make a new one for each call.
_AS_SENT, _SORTED = (
    json.JSONEncoder(
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        sort_keys=sort_keys,
        default=spell,
    )
    for sort_keys, spell in ((False, numbers.mark_number), (True, numbers.mark_alike))
)


class JsonRefusedError(Refusal):
    """The JSON text cannot be stored; `code` gives the reason."""

    code: str  # type: ignore[misc]  # one class for all of the parser's codes

    def __init__(
        self, *, code: str, loc: Loc = (), offset: int | None = None, **limit: int
    ) -> None:
        super().__init__(**limit)
        self.code = code
        self.loc = loc
        #: Byte at which the text stops being JSON, if that is the reason.
        self.offset = offset
        self.args = (code,)


def parse(
    raw: bytes,
    limits: JsonLimits = DEFAULT,
    *,
    words: Collection[str] = (),
    contents: Collection[str] = (),
) -> Any:
    """Parse one JSON text in UTF-8; objects keep their key order.

    `words` are field names of ours that the `loc` of a refusal may contain. The values
    of the fields in `contents` are content. Raises JsonRefusedError. Cost: linear; a
    text that is too deep or has too many nodes is refused before any value is built.
    """
    if len(raw) > limits.max_bytes:
        raise JsonRefusedError(code="body_too_large", max_bytes=limits.max_bytes)
    text = _decode_utf8(raw)
    if _is_modest(text, limits):
        # The fast path returns only texts without any doubt; the slow path finds the
        # reason.
        with suppress(ValueError):
            return _MODEST.decode(text)
    _scan_limits(text, limits)
    return _ValueWalk(limits, words, contents).visit(_load_json(text), (), 0)


def parse_stored(text: bytes) -> Any:
    """Parse a text made by `dump_stored`, with all digits of its numbers."""
    return _KEPT.decode(text.decode())


def check(value: Any, limits: JsonLimits = DEFAULT) -> bytes:
    """Return the `dump_stored` text of a value that `parse` could have returned.

    For values that did not come as bytes of their own; `max_bytes` limits that text.
    Raises JsonRefusedError.
    """
    _ValueWalk(limits).visit(value, (), 0)
    text = dump_stored(value)
    if len(text) > limits.max_bytes:
        raise JsonRefusedError(code="body_too_large", max_bytes=limits.max_bytes)
    return text


def dump_canonical(value: Any) -> bytes:
    """Return the one text of a value for digests: UTF-8, keys sorted, no spaces.

    Equal numbers have one text, however they were written.
    """
    return numbers.restore_numbers(_SORTED.encode(value)).encode()


def dump_stored(value: Any) -> bytes:
    """Return the text in which content is stored: keys and digits as they came."""
    return numbers.restore_numbers(_AS_SENT.encode(value)).encode()


def _decode_utf8(raw: bytes) -> str:
    if not raw:
        raise JsonRefusedError(code="empty_body")
    if raw.startswith(_BYTE_ORDER_MARK) or _is_wide(raw):
        raise JsonRefusedError(code="encoding", offset=0)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise JsonRefusedError(code="encoding", offset=error.start) from None


def _is_wide(raw: bytes) -> bool:
    """Return whether the bytes look like UTF-16 or UTF-32, by NULs at both ends.

    JSON begins and ends with ASCII, so in these encodings NULs stand at both ends.
    """
    little = raw[1:2] == b"\0" and raw[-1] == 0
    big = raw[0] == 0 and raw[-2:-1] == b"\0"
    return little or big


def _scan_limits(text: str, limits: JsonLimits) -> None:
    """Refuse a text that is too deep or too long before the parser builds or recurses.

    A comma stands between two nodes and a bracket opens one, so both counts are lower
    bounds of the nodes; they also bound how long a hostile text keeps this loop.
    """
    depth = opened = commas = strings = 0
    for match in _TOKENS.finditer(text):
        mark = text[match.start()]
        if mark == '"':
            strings += 1
        elif mark == ",":
            commas += 1
        elif mark in "[{":
            depth += 1
            opened += 1
        else:
            depth -= 1
        if depth > limits.max_depth:
            raise JsonRefusedError(code="too_deep", max_depth=limits.max_depth)
        if depth < 0:
            raise _build_invalid(text, match.start())
        if max(opened, commas + 1, strings // 2) > limits.max_nodes:
            raise JsonRefusedError(code="too_many_nodes", max_nodes=limits.max_nodes)


def _load_json(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        # The error's message and attributes hold the text, which must go no further.
        raise _build_invalid(text, error.pos) from None


def _build_invalid(text: str, position: int) -> JsonRefusedError:
    offset = len(text[:position].encode())
    return JsonRefusedError(code="invalid_json", offset=offset)


def _build_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise JsonRefusedError(code="duplicate_key")
    return members


def _parse_integer(digits: str) -> Any:
    if len(digits) > MAX_NUMBER_CHARS:
        raise JsonRefusedError(code="number_too_long")
    return numbers.read_integer(digits)


def _parse_double(digits: str) -> Any:
    if len(digits) > MAX_NUMBER_CHARS:
        raise JsonRefusedError(code="number_too_long")
    return numbers.read_double(digits)


def _refuse_constant(_: str) -> NoReturn:
    raise JsonRefusedError(code="non_finite")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_members,
    parse_int=_parse_integer,
    parse_float=_parse_double,
    parse_constant=_refuse_constant,
)


_KEPT = json.JSONDecoder(
    parse_int=numbers.read_integer, parse_float=numbers.read_double
)

#: Most characters of a key that is at most `_MODEST_KEY_BYTES` long, and most digits of
#: a number that fits 64 bits.
_MODEST_KEY_CHARS, _MODEST_DIGITS = 64, 18
_MODEST_KEY_BYTES = 4 * _MODEST_KEY_CHARS


def _is_modest(text: str, limits: JsonLimits) -> bool:
    """Return whether a text is within all limits, keys and numbers aside.

    Most texts are, and are parsed in a third of the time. Marks inside strings are
    counted as well, so both counts are upper bounds.
    """
    opened = text.count("[") + text.count("{")
    return (
        opened <= limits.max_depth
        and opened + text.count(",") < limits.max_nodes
        and limits.max_key_bytes >= _MODEST_KEY_BYTES
        and not ("\\u" in text and _ODD_ESCAPE.search(text))
    )


def _build_modest_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    for key in members:
        if len(key) > _MODEST_KEY_CHARS:
            raise ValueError
    return members


def _parse_modest_integer(digits: str) -> int:
    if len(digits) > _MODEST_DIGITS or digits == "-0":
        raise ValueError
    return int(digits)


def _parse_modest_double(digits: str) -> float:
    if len(digits) > MAX_NUMBER_CHARS or repr(number := float(digits)) != digits:
        raise ValueError
    return number


def _refuse_modest_constant(_: str) -> NoReturn:
    raise ValueError


_MODEST = json.JSONDecoder(
    object_pairs_hook=_build_modest_members,
    parse_int=_parse_modest_integer,
    parse_float=_parse_modest_double,
    parse_constant=_refuse_modest_constant,
)


class _ValueWalk:
    """One visit of every value, for rules that need the parsed value."""

    def __init__(
        self,
        limits: JsonLimits,
        words: Collection[str] = (),
        contents: Collection[str] = (),
    ) -> None:
        self.limits = limits
        self.words = words
        self.contents = contents
        self.content = limits.content
        self.nodes = 0

    def visit(self, value: Any, loc: Loc, depth: int) -> Any:
        """Return the value; outside content, numbers become integers and doubles."""
        self.nodes += 1
        if self.nodes > self.limits.max_nodes:
            raise JsonRefusedError(
                code="too_many_nodes", max_nodes=self.limits.max_nodes
            )
        if isinstance(value, str):
            _check_text(value, loc)
        elif isinstance(value, dict):
            self._visit_members(value, loc, depth + 1)
        elif isinstance(value, list):
            self._require_depth(depth + 1)
            for index, item in enumerate(value):
                found = self.visit(item, (*loc, index), depth + 1)
                if found is not item:
                    value[index] = found
        elif isinstance(value, Number):
            return self._convert_number(value, loc)
        else:
            _check_scalar(value, loc, content=self.content)
        return value

    def _convert_number(self, number: Number, loc: Loc) -> Any:
        if self.content:
            return number
        double = number.to_float()
        if not isfinite(double):
            raise JsonRefusedError(code="non_finite", loc=loc)
        return 0 if number.digits == "-0" else double

    def _visit_members(self, members: dict[str, Any], loc: Loc, depth: int) -> None:
        self._require_depth(depth)
        for index, (key, item) in enumerate(members.items()):
            # The key itself may be refused, and refusals never echo a value.
            place = (*loc, key if key in self.words else index)
            if not isinstance(key, str):
                raise JsonRefusedError(code="invalid_json", loc=place)
            _check_text(key, place)
            if len(key.encode()) > self.limits.max_key_bytes:
                raise JsonRefusedError(
                    code="key_too_long",
                    loc=place,
                    max_key_bytes=self.limits.max_key_bytes,
                )
            outer, self.content = self.content, self.content or key in self.contents
            found = self.visit(item, place, depth)
            if found is not item:
                members[key] = found
            self.content = outer

    def _require_depth(self, depth: int) -> None:
        if depth > self.limits.max_depth:
            raise JsonRefusedError(code="too_deep", max_depth=self.limits.max_depth)


def _check_text(text: str, loc: Loc) -> None:
    if "\0" in text:
        raise JsonRefusedError(code="nul", loc=loc)
    if not text.isascii() and _SURROGATE.search(text):
        raise JsonRefusedError(code="surrogate", loc=loc)


def _check_scalar(value: Any, loc: Loc, *, content: bool) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, float):
        if not isfinite(value):
            raise JsonRefusedError(code="non_finite", loc=loc)
    elif not isinstance(value, int):
        raise JsonRefusedError(code="invalid_json", loc=loc)
    elif not content and not MIN_INTEGER <= value <= MAX_INTEGER:
        raise JsonRefusedError(code="integer_range", loc=loc)
