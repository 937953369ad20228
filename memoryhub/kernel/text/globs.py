"""Globs over names of keys: `*`, `?`, `[abc]`, `[a-c]`, `[!a]`. Pure.

Anchored at both ends, case-sensitive. The text after a `*` is searched once, without
backtracking, so that no pattern can be made slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from memoryhub.errors import InvalidError

MAX_CHARS = 128
MAX_WILDCARDS = 8

_SIMPLE = f"at most {MAX_CHARS} characters, and {MAX_WILDCARDS} of `*`, `?` and `[]`"

_ANY = "."
_NONE = "(?!)"


def compile_glob(glob: str) -> Callable[[str], bool]:
    """Compile a glob to a test of names.

    Raises InvalidError `glob_too_complex`. A `[` that is never closed stands for
    itself.
    """
    if len(glob) > MAX_CHARS:
        raise InvalidError(code="glob_too_complex", loc="glob", allowed=_SIMPLE)
    if not set(glob) & {*"*?["}:
        return glob.__eq__
    signs = list(_iter_signs(glob))
    if sum(wild for wild, _ in signs) > MAX_WILDCARDS:
        raise InvalidError(code="glob_too_complex", loc="glob", allowed=_SIMPLE)
    pattern = re.compile(_build_pattern([text for _, text in signs]), re.DOTALL)
    return lambda name: pattern.fullmatch(name) is not None


def _iter_signs(glob: str) -> Iterator[tuple[bool, str]]:
    """Yield for each sign whether it is a wildcard, and its expression; "" for `*`."""
    place = 0
    while place < len(glob):
        sign, place = glob[place], place + 1
        end = glob.find("]", place + 2 if glob[place : place + 1] == "!" else place + 1)
        if sign == "[" and end >= 0:
            yield True, _build_set(glob[place:end])
            place = end + 1
        elif sign in "*?":
            yield True, "" if sign == "*" else _ANY
        else:
            yield False, re.escape(sign)


def _build_pattern(signs: list[str]) -> str:
    """Join signs to a pattern that keeps the first match between two `*`.

    Between two `*` the first match is as good as any.
    """
    parts = [""]
    for sign in signs:
        if sign:
            parts[-1] += sign
        else:
            parts.append("")
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    kept = "".join(f"(?>.*?{part})" for part in middle if part)
    return f"{first}{kept}.*{last}"


def _build_set(inside: str) -> str:
    """Build the expression of a set: characters and ranges, or with `!` all others."""
    negated, inside = inside.startswith("!"), inside.removeprefix("!")
    ranges, place = "", 0
    while place < len(inside):
        low = high = inside[place]
        if inside[place + 1 : place + 2] == "-" and place + 2 < len(inside):
            high, place = inside[place + 2], place + 2
        if low <= high:
            ranges += f"{re.escape(low)}-{re.escape(high)}"
        place += 1
    if not ranges:
        return _ANY if negated else _NONE
    return f"[{'^' if negated else ''}{ranges}]"
