"""Tools: what a model may call to page, and its calls as they come.

Pure. Nothing a model writes raises: a call is understood or it is a mistake with a
word, ready to be handed back.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from memoryhub.kernel.levels.contexts import Texts
from memoryhub.kernel.state.pages import ABSTRACT, FULL, REFERENCE, Location
from memoryhub.kernel.text import memory_tools, strict_json
from memoryhub.kernel.text.json_text import dumped
from memoryhub.kernel.text.strict_json import JsonRefusedError

PAGE_FAULT, PAGE_LIST, PAGE_SEARCH = "page_fault", "page_list", "page_search"
#: All that were ever ours, so that their calls are known again in old threads.
OWN = frozenset({PAGE_FAULT, PAGE_LIST, "search_pages"})
#: What no tool of an agent's own may be called. A search and its answer stand in the
#: conversation as calls of other tools do: it fetches nothing.
RESERVED = OWN | {PAGE_SEARCH}
DEFAULT_LEVEL = ABSTRACT
#: Hits of a search that a model may ask for, and those that it gets unasked.
MOST_HITS, HITS = 10, 5
#: The fewest tokens of a part: of any text they hold more than a word.
LEAST = 64
_MOST = 1_000_000_000

_ABOUT = "Fetch a page that the manifest lists into the context."
_ABOUT_SEARCH = "Find pages of this conversation by words that stand in them."
_PAGE_ID = {"type": "string", "description": "Id of the page."}
_LEVEL = {
    "type": "integer",
    "minimum": FULL,
    "maximum": REFERENCE,
    "default": DEFAULT_LEVEL,
    "description": "0 full, 1 excerpt, 2 summary, 3 one line.",
}
#: Strict schemas know neither bounds nor defaults, and require every field.
_STRICT_LEVEL = {
    "type": ["integer", "null"],
    "enum": [0, 1, 2, 3, None],
    "description": "0 full, 1 excerpt, 2 summary, 3 one line; null is 2.",
}


_OFFSET = "Read level 0 in parts: tokens to skip, such as the last next_offset."
_LIMIT = "Tokens of the part; without it as many as fit."
_RANGE = {
    "offset": {"type": "integer", "minimum": 0, "description": _OFFSET},
    "limit": {"type": "integer", "minimum": LEAST, "description": _LIMIT},
}
_STRICT_RANGE = {
    "offset": {"type": ["integer", "null"], "description": _OFFSET},
    "limit": {"type": ["integer", "null"], "description": _LIMIT},
}


def _function(properties: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    named = {"page_id": _PAGE_ID, **properties}
    return _tool(PAGE_FAULT, _ABOUT, named, strict=strict)


def _search(*, strict: bool) -> dict[str, Any]:
    bounds = {"minimum": 1, "maximum": MOST_HITS, "default": HITS}
    kind = {"type": ["integer", "null"]} if strict else {"type": "integer", **bounds}
    limit = {**kind, "description": f"Results; at most {MOST_HITS}."}
    query = {"type": "string", "description": 'Words, or "a phrase" in quotes.'}
    named = {"query": query, "limit": limit}
    return _tool(PAGE_SEARCH, _ABOUT_SEARCH, named, strict=strict)


def _tool(
    name: str, about: str, properties: dict[str, Any], *, strict: bool
) -> dict[str, Any]:
    """A tool, of which a strict form requires every field, another the first."""
    function: dict[str, Any] = {"name": name, "description": about}
    if strict:
        function["strict"] = True
    function["parameters"] = {
        "type": "object",
        "properties": properties,
        "required": [*properties] if strict else [*properties][:1],
        "additionalProperties": False,
    }
    return {"type": "function", "function": function}


_OLD, _OLD_STRICT = {"target_level": _LEVEL}, {"target_level": _STRICT_LEVEL}


#: JSON text by version and form; a text never changes, since recorded contexts hold it.
DEFINITIONS: dict[str, str] = {
    "tools/1": dumped([_function(_OLD, strict=False)]),
    "tools/1-strict": dumped([_function(_OLD_STRICT, strict=True)]),
    "tools/2": dumped([_function(_OLD | _RANGE, strict=False)]),
    "tools/2-strict": dumped([_function(_OLD_STRICT | _STRICT_RANGE, strict=True)]),
    "tools/3": dumped([_function(_OLD | _RANGE, strict=False), _search(strict=False)]),
    "tools/3-strict": dumped(
        [_function(_OLD_STRICT | _STRICT_RANGE, strict=True), _search(strict=True)]
    ),
}
CURRENT, CURRENT_STRICT = "tools/3", "tools/3-strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of page_fault. The id is the model's: it may name no page."""

    call_id: str
    name: str
    page_id: str
    level: int
    #: A part of level 0 instead, in tokens; a limit of None is as many as fit.
    offset: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCall:
    """A call of page_search. The query is the model's, as long as it pleases."""

    call_id: str
    query: str
    limit: int
    name: str = PAGE_SEARCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A call that cannot be followed."""

    call_id: str
    name: str
    #: A closed word: call, tool_unknown, arguments_json, arguments.
    error: str
    #: Our own words; nothing of what the model wrote.
    detail: str

    @property
    def sentence(self) -> str:
        """Return the text of the tool message."""
        return f"This call can't be followed: {self.detail}."


def listed(form: str | None, own: Location | None, texts: Texts) -> str:
    """Return our tools, then the agent's own, as JSON text; empty without any.

    Raises KeyError for a text that is not there.
    """
    found = [defined(part)[1:-1] for part in form.split("+")] if form else []
    if own is not None:
        found.append(dumped(texts[own].content)[1:-1])
    return f"[{','.join(found)}]" if found else ""


def digest(form: str) -> str:
    """Return the SHA-256 of the definitions' text."""
    texts = ",".join(defined(part)[1:-1] for part in form.split("+"))
    return hashlib.sha256(f"[{texts}]".encode()).hexdigest()


def with_memory(form: str) -> str:
    """Return the form of these tools and of those by which a model keeps things."""
    return f"{form}+{memory_tools.CURRENT}"


def defined(version: str) -> str:
    """Return the definitions of a version as JSON text."""
    return DEFINITIONS.get(version) or memory_tools.DEFINITIONS[version]


def parse_call(call: Any) -> Call | SearchCall | Mistake:
    """Parse a model's call, its arguments an object or the JSON text of one.

    Members that providers add beside id, type and function are let by.
    """
    if not isinstance(call, dict):
        return Mistake(call_id="", name="", error="call", detail="expected an object")
    call_id, function = call.get("id"), call.get("function")
    call_id = call_id if isinstance(call_id, str) else ""
    if call.get("type", "function") != "function" or not isinstance(function, dict):
        return Mistake(
            call_id=call_id, name="", error="call", detail="expected a function call"
        )
    name = function.get("name")
    if name not in (PAGE_FAULT, PAGE_SEARCH):
        name = name if isinstance(name, str) else ""
        detail = f"the tools are {PAGE_FAULT} and {PAGE_SEARCH}"
        return Mistake(call_id=call_id, name=name, error="tool_unknown", detail=detail)
    try:
        parse = _call if name == PAGE_FAULT else _search_call
        return parse(call_id, function.get("arguments"))
    except _Wrong as wrong:
        return Mistake(
            call_id=call_id, name=name, error=wrong.word, detail=wrong.detail
        )


def tool_message(call_id: str, name: str, content: str) -> dict[str, str]:
    """Return the message that answers a call, to be sent back as it is."""
    return {
        "role": "tool",
        "tool_call_id": call_id,
        "name": name,
        "content": content,
    }


class _Wrong(Exception):
    def __init__(self, word: str, detail: str) -> None:
        super().__init__(word)
        self.word = word
        self.detail = detail


def _call(call_id: str, sent: Any) -> Call:
    given = _object(sent)
    if given.keys() - {"page_id", "target_level", "offset", "limit"}:
        fields = "page_id, target_level, offset and limit"
        raise _Wrong("arguments", f"unknown field; there are {fields}")
    page_id = given.get("page_id")
    if not isinstance(page_id, str):
        raise _Wrong("arguments", "page_id: expected a string")
    level = _number(given, "target_level", FULL, REFERENCE)
    offset = _number(given, "offset", 0, _MOST)
    limit = _number(given, "limit", LEAST, _MOST)
    if (offset, limit) == (None, None):
        level = DEFAULT_LEVEL if level is None else level
    elif level:
        raise _Wrong("arguments", "offset and limit are of target_level 0")
    else:
        level, offset = FULL, offset or 0
    return Call(
        call_id=call_id,
        name=PAGE_FAULT,
        page_id=page_id,
        level=level,
        offset=offset,
        limit=limit,
    )


def _search_call(call_id: str, sent: Any) -> SearchCall:
    given = _object(sent)
    if given.keys() - {"query", "limit"}:
        raise _Wrong("arguments", "unknown field; there are query and limit")
    query = given.get("query")
    if not isinstance(query, str) or not query.strip():
        raise _Wrong("arguments", "query: expected words")
    limit = _number(given, "limit", 1, MOST_HITS)
    return SearchCall(
        call_id=call_id, query=query, limit=HITS if limit is None else limit
    )


def _number(given: dict[str, Any], field: str, least: int, most: int) -> int | None:
    number = given.get(field)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool):
        raise _Wrong("arguments", f"{field}: expected an integer")
    if not least <= number <= most:
        raise _Wrong("arguments", f"{field}: expected {least} to {most}")
    return number


def memory_call(call: Any) -> tuple[str, str, dict[str, Any] | str] | None:
    """Return id, name and arguments of a call of a memory tool; None of any other.

    Arguments that are no object are a sentence that says so.
    """
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or name not in memory_tools.FIELDS:
        return None
    assert isinstance(call, dict)
    assert isinstance(function, dict)
    call_id = call.get("id")
    call_id = call_id if isinstance(call_id, str) else ""
    try:
        given = _object(function.get("arguments"))
    except _Wrong as wrong:
        return call_id, name, f"This call can't be followed: {wrong.detail}."
    return call_id, name, memory_tools.checked(name, given) or given


def _object(sent: Any) -> dict[str, Any]:
    if isinstance(sent, str):
        try:
            sent = strict_json.parse(sent.encode())
        except (JsonRefusedError, UnicodeEncodeError):
            raise _Wrong("arguments_json", "arguments: expected JSON text") from None
    if not isinstance(sent, dict):
        raise _Wrong("arguments", "arguments: expected an object")
    return sent
