"""Tools: what a model may call to page, and its calls as they come.

Pure. Nothing a model writes raises: a call is understood or it is a mistake with a
word, ready to be handed back.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from memoryhub.kernel import strict_json
from memoryhub.kernel.json_text import dumped
from memoryhub.kernel.pages import ABSTRACT, FULL, REFERENCE
from memoryhub.kernel.strict_json import JsonRefusedError

PAGE_FAULT = "page_fault"
#: All that were ever ours, so that their calls are known again in old threads.
OWN = frozenset({PAGE_FAULT, "search_pages"})
DEFAULT_LEVEL = ABSTRACT

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


def _function(level: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": PAGE_FAULT, "description": _ABOUT}
    if strict:
        function["strict"] = True
    function["parameters"] = {
        "type": "object",
        "properties": {"page_id": _PAGE_ID, "target_level": level},
        "required": ["page_id", "target_level"] if strict else ["page_id"],
        "additionalProperties": False,
    }
    return {"type": "function", "function": function}


#: JSON text by version and form; a text never changes, since recorded contexts hold it.
DEFINITIONS: dict[str, str] = {
    "tools/1": dumped([_function(_LEVEL, strict=False)]),
    "tools/1-strict": dumped([_function(_STRICT_LEVEL, strict=True)]),
}
CURRENT, CURRENT_STRICT = "tools/1", "tools/1-strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of page_fault. The id is the model's: it may name no page."""

    call_id: str
    name: str
    page_id: str
    level: int


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
    def content(self) -> dict[str, str]:
        """What the tool message says."""
        return {"error": self.error, "detail": self.detail}


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
        page_id, level = _arguments(function.get("arguments"))
    except _Wrong as wrong:
        return Mistake(
            call_id=call_id, name=name, error=wrong.word, detail=wrong.detail
        )
    return Call(call_id=call_id, name=name, page_id=page_id, level=level)


def tool_message(call_id: str, name: str, content: Any) -> dict[str, str]:
    """The message that answers a call, to be sent back as it is."""
    return {
        "role": "tool",
        "tool_call_id": call_id,
        "name": name,
        "content": dumped(content),
    }


class _Wrong(Exception):
    def __init__(self, word: str, detail: str) -> None:
        super().__init__(word)
        self.word = word
        self.detail = detail


def _arguments(sent: Any) -> tuple[str, int]:
    given = _object(sent)
    if given.keys() - {"page_id", "target_level"}:
        raise _Wrong("arguments", "unknown field; there are page_id and target_level")
    page_id, level = given.get("page_id"), given.get("target_level")
    if not isinstance(page_id, str):
        raise _Wrong("arguments", "page_id: expected a string")
    if level is None:
        return page_id, DEFAULT_LEVEL
    if not isinstance(level, int) or isinstance(level, bool):
        raise _Wrong("arguments", "target_level: expected an integer")
    if not FULL <= level <= REFERENCE:
        raise _Wrong("arguments", "target_level: expected 0 to 3")
    return page_id, level


def _object(sent: Any) -> dict[str, Any]:
    if isinstance(sent, str):
        try:
            sent = strict_json.parse(sent.encode())
        except (JsonRefusedError, UnicodeEncodeError):
            raise _Wrong("arguments_json", "arguments: expected JSON text") from None
    if not isinstance(sent, dict):
        raise _Wrong("arguments", "arguments: expected an object")
    return sent
