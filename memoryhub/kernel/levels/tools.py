"""Tools: what a model may call to page, and its calls as they come.

Pure. Nothing a model writes raises: a call is understood or it is a mistake with a
word, ready to be handed back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memoryhub.kernel.levels.contexts import Texts
from memoryhub.kernel.messages import message, reading
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
    page_id: str
    level: int
    #: A part of level 0 instead, in tokens; a limit of None is as many as fit.
    offset: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCall:
    """A call of page_search. The query is the model's, as long as it pleases."""

    query: str
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A call that cannot be followed."""

    #: A closed word: call, tool_unknown, arguments_json, arguments.
    error: str
    #: Our own words; nothing of what the model wrote.
    detail: str

    @property
    def sentence(self) -> Failure:
        """Return what the model is told."""
        return Failure(f"This call can't be followed: {self.detail}.")


class Failure(str):
    """What a model is told of a call that was not followed."""

    __slots__ = ()


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


def parse_call(sent: Any) -> Call | SearchCall | Mistake:
    """Parse a model's call in any shape, its arguments an object or its JSON text.

    Members that providers add are let by.
    """
    call = _called(sent)
    if call is None:
        return Mistake(error="call", detail="expected a function call")
    parse = _PARSED.get(call.name or "")
    if parse is None:
        detail = f"the tools are {PAGE_FAULT} and {PAGE_SEARCH}"
        return Mistake(error="tool_unknown", detail=detail)
    try:
        return parse(call)
    except _Wrong as wrong:
        return Mistake(error=wrong.word, detail=wrong.detail)


def answer(sent: Any, content: str) -> dict[str, Any]:
    """Return the message that answers a call, in its shape, to be sent back as it is.

    A Failure says so where the shape has a place for it.
    """
    call, given = _called(sent), sent if isinstance(sent, dict) else {}
    kind, sent_id = given.get("type"), given.get("id")
    if call is None:
        call = message.Call(id=sent_id if isinstance(sent_id, str) else None)
    write = _ANSWERS.get(kind) if isinstance(kind, str) else None
    return (write or _tool_message)(call.id or "", call.name or "", content)


def _called(sent: Any) -> message.Call | None:
    """The call that was sent, alone or in its message; None of none or several."""
    calls = reading.read([sent]).calls
    return calls[0] if len(calls) == 1 else None


def _tool_message(call_id: str, name: str, content: str) -> dict[str, Any]:
    """Of chat completions."""
    return {
        "role": "tool",
        "tool_call_id": call_id,
        "name": name,
        "content": content,
    }


def _output(call_id: str, name: str, content: str) -> dict[str, Any]:
    """Of Responses."""
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def _custom_output(call_id: str, name: str, content: str) -> dict[str, Any]:
    return {**_output(call_id, name, content), "type": "custom_tool_call_output"}


def _results(call_id: str, name: str, content: str) -> dict[str, Any]:
    """Of Anthropic's Messages, where tools speak in the user's."""
    result = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    failed = {"is_error": True} if isinstance(content, Failure) else {}
    return {"role": "user", "content": [{**result, **failed}]}


#: By the type of what was sent; a call of any other gets the first shape's.
_ANSWERS: dict[str, Callable[[str, str, str], dict[str, Any]]] = {
    "function": _tool_message,
    "function_call": _output,
    "custom_tool_call": _custom_output,
    "tool_use": _results,
}


class _Wrong(Exception):
    def __init__(self, word: str, detail: str) -> None:
        super().__init__(word)
        self.word = word
        self.detail = detail


def _call(call: message.Call) -> Call:
    given = _object(call.arguments)
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
        call_id=call.id or "",
        page_id=page_id,
        level=level,
        offset=offset,
        limit=limit,
    )


def _search_call(call: message.Call) -> SearchCall:
    given = _object(call.arguments)
    if given.keys() - {"query", "limit"}:
        raise _Wrong("arguments", "unknown field; there are query and limit")
    query = given.get("query")
    if not isinstance(query, str) or not query.strip():
        raise _Wrong("arguments", "query: expected words")
    limit = _number(given, "limit", 1, MOST_HITS)
    return SearchCall(query=query, limit=HITS if limit is None else limit)


_PARSED: dict[str, Callable[[message.Call], Call | SearchCall]] = {
    PAGE_FAULT: _call,
    PAGE_SEARCH: _search_call,
}


def _number(given: dict[str, Any], field: str, least: int, most: int) -> int | None:
    number = given.get(field)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool):
        raise _Wrong("arguments", f"{field}: expected an integer")
    if not least <= number <= most:
        raise _Wrong("arguments", f"{field}: expected {least} to {most}")
    return number


def memory_call(sent: Any) -> tuple[str, dict[str, Any] | Failure] | None:
    """Return name and arguments of a call of a memory tool; None of any other.

    Arguments that can't be followed are a Failure that says so.
    """
    call = _called(sent)
    if call is None or call.name not in memory_tools.FIELDS:
        return None
    try:
        given = _object(call.arguments)
    except _Wrong as wrong:
        return call.name, Mistake(error=wrong.word, detail=wrong.detail).sentence
    wrong_field = memory_tools.checked(call.name, given)
    return call.name, Failure(wrong_field) if wrong_field else given


def _object(arguments: str) -> dict[str, Any]:
    try:
        # Of a tool that needs none some models send none.
        sent = strict_json.parse(arguments.encode() or b"{}")
    except (JsonRefusedError, UnicodeEncodeError):
        raise _Wrong("arguments_json", "arguments: expected JSON text") from None
    if not isinstance(sent, dict):
        raise _Wrong("arguments", "arguments: expected an object")
    return sent
