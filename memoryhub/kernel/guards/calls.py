"""Names and kinds of an agent's own tools, and the types of their results. Pure."""

from __future__ import annotations

import re
from typing import Any

from memoryhub.kernel.state.calls import CallKind, ValueType
from memoryhub.kernel.text import json_text, strict_json
from memoryhub.kernel.text.numbers import Number

#: Words that make a tool a discovery, wherever they stand in its name.
_DISCOVERY = (
    *("search", "list", "schema", "tools"),
    *("get_tool", "find_tool", "discover", "browse"),
)
_MATH = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "sqrt", "pow", "power", "log"),
        *("exp", "sin", "cos", "tan", "abs", "floor", "ceil", "round"),
    }
)
#: Tools that need numbers which were computed or typed before.
_DEPENDENT = frozenset(
    {
        *("normal_cdf", "normal_pdf", "normal_sf"),
        *("t_cdf", "t_sf", "t_test", "chi_cdf", "chi_sf", "chi_square"),
    }
)
#: A text that is wholly a number of JSON, of at most 64 characters.
_WRITTEN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_LONGEST = 64


def normalize_name(name: str) -> str:
    """Return the name after the last dot, in lower case."""
    return name.rpartition(".")[2].lower()


def classify_tool(name: str) -> CallKind:
    """Return the kind of a tool by its normalised name."""
    if any(word in name for word in _DISCOVERY):
        return "discovery"
    return "math" if name in _MATH else "execution"


def needs_computed_numbers(name: str) -> bool:
    """Return whether a tool, by its normalised name, needs numbers from before."""
    return name in _DEPENDENT


def build_call_key(name: str, arguments: Any) -> str:
    """Build the text whose keyed digest finds equal calls: tool, canonical JSON.

    The tool's whole name, since tools of two servers may share its last part.
    """
    return f"{name} {strict_json.dump_canonical(arguments).decode()}"


def read_result(result: Any) -> tuple[ValueType, Any]:
    """Return the type and value of a result; a text that is a number becomes one."""
    if isinstance(result, bool):
        return "boolean", result
    if isinstance(result, int | float | Number):
        return "number", result
    if isinstance(result, str):
        if len(result) <= _LONGEST and _WRITTEN.fullmatch(result.strip()):
            return "number", strict_json.parse_stored(result.strip().encode())
        return "string" if json_text.read(result) is None else "json", result
    if isinstance(result, list):
        return "list", result
    return "object" if isinstance(result, dict) else "json", result
