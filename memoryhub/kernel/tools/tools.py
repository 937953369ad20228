"""Tools: the calls by which a model may fetch pages, and the parsing of its calls.

Pure. No text of a model raises an error: a call is parsed, or becomes a mistake with a
word, ready to be sent back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memoryhub.kernel.context.contexts import Texts
from memoryhub.kernel.messages import message, reading
from memoryhub.kernel.state.pages import (
    ABSTRACT,
    FULL,
    MODALITIES,
    REFERENCE,
    Location,
    Modality,
)
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.json_text import dump_json
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.kernel.tools import memory_tools

PAGE_FAULT, PAGE_LIST, PAGE_SEARCH = "page_fault", "page_list", "page_search"
#: Names of all tools ever ours, so that their calls are recognised in old threads.
OWN = frozenset({PAGE_FAULT, PAGE_LIST, "search_pages"})
#: Names that an agent's own tool may not have. A search and its answer stand in the
#: conversation like calls of other tools: a search fetches nothing.
RESERVED = OWN | {PAGE_SEARCH}
DEFAULT_LEVEL = ABSTRACT
#: Most hits of a search that a model may ask for, and the default.
MOST_HITS, HITS = 10, 5
#: Fewest tokens of a part, enough for more than one word of any text.
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


def _build_fault_tool(properties: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    named = {"page_id": _PAGE_ID, **properties}
    return _build_tool(PAGE_FAULT, _ABOUT, named, strict=strict)


def _build_search_tool(
    properties: dict[str, Any] | None = None, *, strict: bool
) -> dict[str, Any]:
    bounds = {"minimum": 1, "maximum": MOST_HITS, "default": HITS}
    kind = {"type": ["integer", "null"]} if strict else {"type": "integer", **bounds}
    limit = {**kind, "description": f"Results; at most {MOST_HITS}."}
    query = {"type": "string", "description": 'Words, or "a phrase" in quotes.'}
    named = {"query": query, **(properties or {}), "limit": limit}
    return _build_tool(PAGE_SEARCH, _ABOUT_SEARCH, named, strict=strict)


def _build_tool(
    name: str, about: str, properties: dict[str, Any], *, strict: bool
) -> dict[str, Any]:
    """Build a tool definition; strict forms require every field, others the first."""
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


_ABOUT_MODALITY = "Kind of content; without it any."
_MODALITY = {
    "modality": {
        "type": "string",
        "enum": [*MODALITIES],
        "description": _ABOUT_MODALITY,
    }
}
_STRICT_MODALITY = {
    "modality": {
        "type": ["string", "null"],
        "enum": [*MODALITIES, None],
        "description": _ABOUT_MODALITY,
    }
}
_OLD, _OLD_STRICT = {"target_level": _LEVEL}, {"target_level": _STRICT_LEVEL}


#: JSON text by version and form; a text never changes, since recorded contexts hold it.
DEFINITIONS: dict[str, str] = {
    "tools/1": dump_json([_build_fault_tool(_OLD, strict=False)]),
    "tools/1-strict": dump_json([_build_fault_tool(_OLD_STRICT, strict=True)]),
    "tools/2": dump_json([_build_fault_tool(_OLD | _RANGE, strict=False)]),
    "tools/2-strict": dump_json(
        [_build_fault_tool(_OLD_STRICT | _STRICT_RANGE, strict=True)]
    ),
    "tools/3": dump_json(
        [
            _build_fault_tool(_OLD | _RANGE, strict=False),
            _build_search_tool(strict=False),
        ]
    ),
    "tools/3-strict": dump_json(
        [
            _build_fault_tool(_OLD_STRICT | _STRICT_RANGE, strict=True),
            _build_search_tool(strict=True),
        ]
    ),
    "tools/4": dump_json(
        [
            _build_fault_tool(_OLD | _RANGE, strict=False),
            _build_search_tool(_MODALITY, strict=False),
        ]
    ),
    "tools/4-strict": dump_json(
        [
            _build_fault_tool(_OLD_STRICT | _STRICT_RANGE, strict=True),
            _build_search_tool(_STRICT_MODALITY, strict=True),
        ]
    ),
}
CURRENT, CURRENT_STRICT = "tools/4", "tools/4-strict"
#: Forms for threads whose model does not search.
WITHOUT_SEARCH, WITHOUT_SEARCH_STRICT = "tools/2", "tools/2-strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCall:
    """A call of page_fault. The id is the model's: it may name no page."""

    call_id: str
    page_id: str
    level: int
    #: A part of level 0, in tokens; a limit of None is as many as fit.
    offset: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCall:
    """A call of page_search. The query is the model's, of any length."""

    query: str
    limit: int
    modality: Modality | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A call that cannot be followed."""

    #: A closed word: call, tool_unknown, arguments_json, arguments.
    error: str
    #: Explanation in our words, without any text of the model.
    detail: str

    @property
    def sentence(self) -> Failure:
        """Return the sentence that the model gets as the answer."""
        return Failure(f"This call can't be followed: {self.detail}.")


class Failure(str):
    """Answer to a model's call that could not be followed."""

    __slots__ = ()


def render_tools(form: str | None, own: Location | None, texts: Texts) -> str:
    """Render our tools, then the agent's own, as JSON text; empty without any.

    Raise KeyError if `texts` lacks the agent's own tools.
    """
    found = [get_definitions(part)[1:-1] for part in form.split("+")] if form else []
    if own is not None:
        found.append(dump_json(texts[own].content)[1:-1])
    return f"[{','.join(found)}]" if found else ""


def digest(form: str) -> str:
    """Return the SHA-256 of the definitions' text."""
    texts = ",".join(get_definitions(part)[1:-1] for part in form.split("+"))
    return hashlib.sha256(f"[{texts}]".encode()).hexdigest()


def add_memory_tools(form: str) -> str:
    """Return the form of these tools and of the memory tools."""
    return f"{form}+{memory_tools.CURRENT}"


def get_definitions(version: str) -> str:
    """Return the definitions of a version as JSON text."""
    return DEFINITIONS.get(version) or memory_tools.DEFINITIONS[version]


def parse_call(sent: Any) -> FaultCall | SearchCall | Mistake:
    """Parse a model's call in any shape, its arguments an object or its JSON text.

    Members that providers add are ignored.
    """
    call = _find_call(sent)
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
    """Build the message that answers a call, in its shape, to be sent back as it is.

    A Failure is marked as an error if the shape has a field for errors.
    """
    call, given = _find_call(sent), sent if isinstance(sent, dict) else {}
    kind, sent_id = given.get("type"), given.get("id")
    if call is None:
        call = message.Call(id=sent_id if isinstance(sent_id, str) else None)
    write = _ANSWERS.get(kind) if isinstance(kind, str) else None
    if kind is None and isinstance(given.get("functionCall"), dict):
        write = _build_function_response
    return (write or _build_tool_message)(call.id or "", call.name or "", content)


def _find_call(sent: Any) -> message.Call | None:
    """Find the only call sent, alone or in its message; None for none or several."""
    calls = reading.read([sent]).calls
    return calls[0] if len(calls) == 1 else None


def _build_tool_message(call_id: str, name: str, content: str) -> dict[str, Any]:
    """Build a result for chat completions."""
    return {
        "role": "tool",
        "tool_call_id": call_id,
        "name": name,
        "content": content,
    }


def _build_output(call_id: str, name: str, content: str) -> dict[str, Any]:
    """Build a result for Responses."""
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def _build_custom_output(call_id: str, name: str, content: str) -> dict[str, Any]:
    return {**_build_output(call_id, name, content), "type": "custom_tool_call_output"}


def _build_tool_result(call_id: str, name: str, content: str) -> dict[str, Any]:
    """Build a result for Anthropic's Messages, where results are in a user message."""
    result = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    failed = {"is_error": True} if isinstance(content, Failure) else {}
    return {"role": "user", "content": [{**result, **failed}]}


def _build_function_response(call_id: str, name: str, content: str) -> dict[str, Any]:
    """Build a result for Gemini, whose older models give calls no id."""
    outcome = "error" if isinstance(content, Failure) else "output"
    sent_id = {"id": call_id} if call_id else {}
    response = {**sent_id, "name": name, "response": {outcome: content}}
    return {"role": "user", "parts": [{"functionResponse": response}]}


#: Builders by the type of the call; a call of any other type gets chat completions'.
_ANSWERS: dict[str, Callable[[str, str, str], dict[str, Any]]] = {
    "function": _build_tool_message,
    "function_call": _build_output,
    "custom_tool_call": _build_custom_output,
    "tool_use": _build_tool_result,
}


class _Wrong(Exception):
    def __init__(self, word: str, detail: str) -> None:
        super().__init__(word)
        self.word = word
        self.detail = detail


def _parse_fault_call(call: message.Call) -> FaultCall:
    given = _parse_object(call.arguments)
    if given.keys() - {"page_id", "target_level", "offset", "limit"}:
        fields = "page_id, target_level, offset and limit"
        raise _Wrong("arguments", f"unknown field; there are {fields}")
    page_id = given.get("page_id")
    if not isinstance(page_id, str):
        raise _Wrong("arguments", "page_id: expected a string")
    level = _require_number(given, "target_level", FULL, REFERENCE)
    offset = _require_number(given, "offset", 0, _MOST)
    limit = _require_number(given, "limit", LEAST, _MOST)
    if (offset, limit) == (None, None):
        level = DEFAULT_LEVEL if level is None else level
    elif level:
        raise _Wrong("arguments", "offset and limit are of target_level 0")
    else:
        level, offset = FULL, offset or 0
    return FaultCall(
        call_id=call.id or "",
        page_id=page_id,
        level=level,
        offset=offset,
        limit=limit,
    )


def _parse_search_call(call: message.Call) -> SearchCall:
    given = _parse_object(call.arguments)
    if given.keys() - {"query", "modality", "limit"}:
        fields = "query, modality and limit"
        raise _Wrong("arguments", f"unknown field; there are {fields}")
    query = given.get("query")
    if not isinstance(query, str) or not query.strip():
        raise _Wrong("arguments", "query: expected words")
    limit = _require_number(given, "limit", 1, MOST_HITS)
    modality = given.get("modality")
    if modality is not None and modality not in MODALITIES:
        raise _Wrong("arguments", f"modality: expected {', '.join(MODALITIES)}")
    return SearchCall(
        query=query, limit=HITS if limit is None else limit, modality=modality
    )


_PARSED: dict[str, Callable[[message.Call], FaultCall | SearchCall]] = {
    PAGE_FAULT: _parse_fault_call,
    PAGE_SEARCH: _parse_search_call,
}


def _require_number(
    given: dict[str, Any], field: str, least: int, most: int
) -> int | None:
    number = given.get(field)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool):
        raise _Wrong("arguments", f"{field}: expected an integer")
    if not least <= number <= most:
        raise _Wrong("arguments", f"{field}: expected {least} to {most}")
    return number


def parse_memory_call(sent: Any) -> tuple[str, dict[str, Any] | Failure] | None:
    """Parse a call of a memory tool into name and arguments; None for any other call.

    Arguments that can't be followed become a Failure with the reason.
    """
    call = _find_call(sent)
    if call is None or call.name not in memory_tools.FIELDS:
        return None
    try:
        given = _parse_object(call.arguments)
    except _Wrong as wrong:
        return call.name, Mistake(error=wrong.word, detail=wrong.detail).sentence
    wrong_field = memory_tools.find_mistake(call.name, given)
    return call.name, Failure(wrong_field) if wrong_field else given


def _parse_object(arguments: str) -> dict[str, Any]:
    try:
        # Some models send no arguments for a tool that needs none.
        sent = strict_json.parse(arguments.encode() or b"{}")
    except (JsonRefusedError, UnicodeEncodeError):
        raise _Wrong("arguments_json", "arguments: expected JSON text") from None
    if not isinstance(sent, dict):
        raise _Wrong("arguments", "arguments: expected an object")
    return sent
