"""Tools by which a model stores what it learns, if its thread allows them. Pure."""

from __future__ import annotations

from typing import Any

from memoryhub.kernel.text.json_text import dump_json

NOTE_ADD, KEY_SET, KEY_GET, BLOCK_EDIT = "note_add", "key_set", "key_get", "block_edit"


def _build_string(about: str) -> dict[str, str]:
    return {"type": "string", "description": about}


def _build_tool(
    name: str, about: str, required: str, **properties: Any
) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }
    function = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": function}


_KEY = _build_string("Name of the key.")
_VALUE = {"description": "Any JSON value."}


def _build_definitions(about_edit: str) -> str:
    """Build the text of a version, whose tools differ in what is said of an edit."""
    return dump_json(
        [
            _build_tool(
                NOTE_ADD,
                "Keep a line for later.",
                "text",
                text=_build_string("The line."),
            ),
            _build_tool(
                KEY_SET,
                "Keep a value under a name.",
                "key value",
                key=_KEY,
                value=_VALUE,
            ),
            _build_tool(KEY_GET, "Read the value of a name.", "key", key=_KEY),
            _build_tool(
                BLOCK_EDIT,
                about_edit,
                "block new",
                block=_build_string("Name of the block."),
                old=_build_string("Text that stands there once; without it, append."),
                new=_build_string("The new text."),
            ),
        ]
    )


#: JSON text by version; a text never changes, since recorded contexts hold it.
DEFINITIONS: dict[str, str] = {
    "memory/1": _build_definitions(
        "Change a block: put `new` where `old` stands, or append `new`."
    ),
    "memory/2": _build_definitions(
        "Change a block: put `new` where `old` stands, or append `new`. "
        "Appending under an unused name makes a block."
    ),
}
CURRENT = "memory/2"
#: Fields by tool name, each with its type; a name that ends in `?` is optional.
FIELDS: dict[str, dict[str, type]] = {
    NOTE_ADD: {"text": str},
    KEY_SET: {"key": str, "value": object},
    KEY_GET: {"key": str},
    BLOCK_EDIT: {"block": str, "old?": str, "new": str},
}


def find_mistake(name: str, given: dict[str, Any]) -> str | None:
    """Return an error sentence about a call's arguments; None if they are valid."""
    fields = FIELDS[name]
    names = {field.rstrip("?") for field in fields}
    if given.keys() - names:
        return f"Unknown argument; there are {', '.join(sorted(names))}."
    for field, kind in fields.items():
        value = given.get(field.rstrip("?"))
        if field.endswith("?") and value is None:
            continue
        if field not in given and not field.endswith("?"):
            return f"The argument {field} is missing."
        if not isinstance(value, kind):
            return f"The argument {field.rstrip('?')} is a text."
    return None
