"""Fields that other products' clients send, and whom mem0's memories belong to.

Refusals name only fields that are served, never what a client sent.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from memoryhub.api.http.calls import HubRefusedError
from memoryhub.compat.memories import ENTITIES
from memoryhub.kernel.text import names

#: Characters of the filters in a query.
MOST_FILTERS: Final = 1_000
#: Receiver of a message by its role, which names the sender.
ROLES: Final = {"user": "assistant", "assistant": "user", "system": "assistant"}
#: Types of parts of a message that are no text, as mem0's clients send them.
_MEDIA: Final = {"image_url", "mdx_url", "pdf_url"}


def build_refusal(words: str) -> HubRefusedError:
    """Build the refusal of a field."""
    return HubRefusedError(400, f"value: {words}")


def require_fields(body: Any, served: AbstractSet[str]) -> dict[str, Any]:
    """Return the fields that are not null. Raises HubRefusedError for unknown ones."""
    if not isinstance(body, Mapping):
        raise build_refusal("the body must be an object")
    sent = {name: value for name, value in body.items() if value is not None}
    if not sent.keys() <= served:
        raise build_refusal(
            f"only these fields are served: {', '.join(sorted(served))}"
        )
    return sent


def get_field(
    body: Mapping[str, Any], name: str, kind: type | tuple[type, ...], default: Any
) -> Any:
    """Return a field of this type, or the default. Raises HubRefusedError."""
    value = body.get(name, default)
    # A truth is an integer to Python.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise build_refusal(f"{name} is missing, or of another type")
    return value


def parse_number(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a number of the query. Raises HubRefusedError unless it is 1 to 10^6."""
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:7]) <= 1_000_000):
        raise build_refusal(f"{name}: a number from 1")
    return int(text[:7])


def parse_entities(body: Mapping[str, Any], *, is_bound: bool) -> dict[str, str]:
    """Return the ids of person, agent and run in the fields and their filters.

    Only a key that is bound to a person needs none. Raises HubRefusedError.
    """
    found: dict[str, str] = {}
    _gather_entities({name: body[name] for name in ENTITIES if name in body}, found)
    _gather_entities(get_field(body, "filters", dict, {}), found)
    for name, value in found.items():
        # A person's id may be any text, the other two are names of the hub.
        if ENTITIES[name] is not None and not names.is_valid(value):
            raise build_refusal(
                f"{name}: at most 128 letters, digits and ._:@- after a letter or digit"
            )
    if not (found or is_bound):
        raise build_refusal(f"filters: name one of {', '.join(ENTITIES)}")
    return found


def parse_query_filters(text: str) -> Any:
    """Parse the filters of a query, which the client writes as Python does.

    Their length is bounded, since Python's parser is not made for what strangers send.
    """
    if len(text) > MOST_FILTERS:
        raise build_refusal(f"filters: at most {MOST_FILTERS} characters")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise build_refusal("filters: an object") from None


def parse_messages(sent: list[Any]) -> list[tuple[str, str]]:
    """Return role and text of each message that has a text. Raises HubRefusedError."""
    found = [each for each in map(_parse_message, sent) if each[1].strip()]
    if not found:
        raise build_refusal("messages: at least one, with a text that is not empty")
    return found


def _parse_message(message: Any) -> tuple[str, str]:
    """Return role and text of a message; pictures and files beside it are left out."""
    sent = require_fields(message, {"role", "content", "name"})
    role, content = sent.get("role"), sent.get("content")
    parts = content if isinstance(content, list) else [content]
    texts: list[Any] = [
        part.get("text")
        if isinstance(part, dict) and part.get("type") == "text"
        else part
        for part in parts
        if not (isinstance(part, dict) and part.get("type") in _MEDIA)
    ]
    if (
        role not in ROLES
        or not parts
        or not all(isinstance(each, str) for each in texts)
    ):
        roles = ", ".join(ROLES)
        raise build_refusal(f"messages: of {roles}, with a text or parts of text")
    return str(role), "\n".join(texts)


def _gather_entities(filters: Mapping[str, Any], found: dict[str, str]) -> None:
    """Add the ids in filters, which may be joined by AND, to those that were found."""
    for name, value in filters.items():
        if name == "AND" and isinstance(value, list):
            for each in value:
                if not isinstance(each, dict) or "AND" in each:
                    raise _build_filter_refusal()
                _gather_entities(each, found)
        elif (
            name not in ENTITIES
            or not isinstance(value, str)
            or value in ("", "*")
            or found.setdefault(name, value) != value
        ):
            raise _build_filter_refusal()


def _build_filter_refusal() -> HubRefusedError:
    return build_refusal(
        f"filters: only {', '.join(ENTITIES)}, each with one id, joined by AND"
    )
