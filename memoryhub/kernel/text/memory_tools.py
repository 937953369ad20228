"""Tools by which a model keeps what it learns, where its thread allows that. Pure."""

from __future__ import annotations

from typing import Any

from memoryhub.kernel.text.json_text import dumped

NOTE_ADD, KEY_SET, KEY_GET, BLOCK_EDIT = "note_add", "key_set", "key_get", "block_edit"


def _string(about: str) -> dict[str, str]:
    return {"type": "string", "description": about}


def _tool(name: str, about: str, required: str, **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }
    function = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": function}


_KEY = _string("Name of the key.")
_VALUE = {"description": "Any JSON value."}
#: JSON text by version; a text never changes, since recorded contexts hold it.
DEFINITIONS: dict[str, str] = {
    "memory/1": dumped(
        [
            _tool(
                NOTE_ADD, "Keep a line for later.", "text", text=_string("The line.")
            ),
            _tool(
                KEY_SET,
                "Keep a value under a name.",
                "key value",
                key=_KEY,
                value=_VALUE,
            ),
            _tool(KEY_GET, "Read the value of a name.", "key", key=_KEY),
            _tool(
                BLOCK_EDIT,
                "Change a block: put `new` where `old` stands, or append `new`.",
                "block new",
                block=_string("Name of the block."),
                old=_string("Text that stands there once; without it, append."),
                new=_string("The new text."),
            ),
        ]
    )
}
CURRENT = "memory/1"
#: By name, each field with its type; those that may be absent end in `?`.
FIELDS: dict[str, dict[str, type]] = {
    NOTE_ADD: {"text": str},
    KEY_SET: {"key": str, "value": object},
    KEY_GET: {"key": str},
    BLOCK_EDIT: {"block": str, "old?": str, "new": str},
}


def checked(name: str, given: dict[str, Any]) -> str | None:
    """Return what is wrong with a call's arguments, as a sentence; None if nothing."""
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
