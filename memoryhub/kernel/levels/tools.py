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
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.json_text import dumped
from memoryhub.kernel.text.strict_json import JsonRefusedError

PAGE_FAULT, PAGE_LIST = "page_fault", "page_list"
#: All that were ever ours, so that their calls are known again in old threads.
OWN = frozenset({PAGE_FAULT, PAGE_LIST, "search_pages"})
DEFAULT_LEVEL = ABSTRACT
#: The fewest tokens of a part: of any text they hold more than a word.
LEAST = 64
_MOST = 1_000_000_000

_ABOUT = "Fetch a page that the manifest lists into the context."
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
    function: dict[str, Any] = {"name": PAGE_FAULT, "description": _ABOUT}
    if strict:
        function["strict"] = True
    function["parameters"] = {
        "type": "object",
        "properties": {"page_id": _PAGE_ID, **properties},
        "required": ["page_id", *properties] if strict else ["page_id"],
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
}
CURRENT, CURRENT_STRICT = "tools/2", "tools/2-strict"


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
        """What the tool message says."""
        return f"This call can't be followed: {self.detail}."


def listed(form: str | None, own: Location | None, texts: Texts) -> str:
    """Ours, then the agent's own, as JSON text; empty without any.

    Raises KeyError for a text that is not there.
    """
    found = [DEFINITIONS[form][1:-1]] if form else []
    if own is not None:
        found.append(dumped(texts[own].content)[1:-1])
    return f"[{','.join(found)}]" if found else ""


def digest(form: str) -> str:
    """SHA-256 of the definitions' text."""
    return hashlib.sha256(DEFINITIONS[form].encode()).hexdigest()


def parse_call(call: Any) -> Call | Mistake:
    """A model's call, arguments an object or its JSON text.

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
    if name != PAGE_FAULT:
        name = name if isinstance(name, str) else ""
        detail = f"the tool is {PAGE_FAULT}"
        return Mistake(call_id=call_id, name=name, error="tool_unknown", detail=detail)
    try:
        return _call(call_id, function.get("arguments"))
    except _Wrong as wrong:
        return Mistake(
            call_id=call_id, name=name, error=wrong.word, detail=wrong.detail
        )


def tool_message(call_id: str, name: str, content: str) -> dict[str, str]:
    """The message that answers a call, to be sent back as it is."""
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
        known = "page_id, target_level, offset and limit"
        raise _Wrong("arguments", f"unknown field; there are {known}")
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


def _number(given: dict[str, Any], field: str, least: int, most: int) -> int | None:
    number = given.get(field)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool):
        raise _Wrong("arguments", f"{field}: expected an integer")
    if not least <= number <= most:
        raise _Wrong("arguments", f"{field}: expected {least} to {most}")
    return number


def _object(sent: Any) -> dict[str, Any]:
    if isinstance(sent, str):
        try:
            sent = strict_json.parse(sent.encode())
        except (JsonRefusedError, UnicodeEncodeError):
            raise _Wrong("arguments_json", "arguments: expected JSON text") from None
    if not isinstance(sent, dict):
        raise _Wrong("arguments", "arguments: expected an object")
    return sent
