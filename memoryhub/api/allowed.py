"""Descriptions in words of the values a field takes, read from its JSON schema.

No function here sees a value that a client sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from memoryhub.kernel.knowledge.facts import LINE_PATTERN, LINES_PATTERN
from memoryhub.kernel.state.pages import BLOCK_PATTERN
from memoryhub.kernel.text import item_names, names
from memoryhub.services.forget.erasures import TICKET_PATTERN, TICKET_RULE

Schema = Mapping[str, Any]
Step = str | int

#: Patterns of the OpenAPI document, in words.
PATTERNS: Final[Mapping[str, str]] = {
    BLOCK_PATTERN: "names between slashes, of letters, digits and `._:@-`; 1 to 128 "
    "characters, and the last of several is no word of a route",
    names.NAME_PATTERN: "a name: letters, digits and `._:@-` after a letter or digit, "
    "at most 128 characters",
    r"^[A-Za-z0-9][A-Za-z0-9_:@-]*(\.[A-Za-z0-9_:@-]+)+$": "a type: names joined by "
    "dots, at least two",
    f"^{TICKET_PATTERN.pattern}$": TICKET_RULE,
    item_names.NAMESPACE_PATTERN: "labels joined with colons: letters, digits and "
    "`._@-` after a letter or digit",
    item_names.KEY_PATTERN: "letters, digits and `._@-` after a letter or digit",
    LINE_PATTERN: "more than blanks, no control characters",
    LINES_PATTERN: "more than blanks, no U+0000",
}
_FORMATS: Final = {
    "date-time": "a time by RFC 3339 with its offset, of the years 1970 to 2200",
    "uuid": "a UUID",
}
_KINDS: Final = {
    "string": "a text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
#: Rules that no schema states, by the error code of the refusal.
BY_CODE: Final[Mapping[str, str]] = {
    "reserved_name": "no name that begins with `mh.` or `_`: those are reserved",
    "reserved_key": "no key that begins with `mh.` or `_`: those are reserved",
    "reserved_id": "none of `system-prompt` and ids that begin with `slot-`, `obs-` or "
    "`ref-`: those are of other routes",
    "duplicate_parameter": "each parameter once",
    "integer_range": "integers of 64 bits, but inside content",
    "nul": "texts without U+0000",
    "surrogate": "Unicode texts, without half a surrogate pair",
    "key_too_long": "keys of at most 256 bytes",
    "too_deep": "at most 32 levels of objects and arrays",
    "too_many_nodes": "at most 10,000 values",
    "object_expected": "a JSON object",
    "expiry_in_past": "a time that is still to come",
}


def resolve_schema(schema: Schema, loc: Sequence[Step]) -> Schema:
    """Return the schema at `loc`, or of the deepest holder that has a schema."""
    here: Schema = schema
    for step in loc:
        if step == "[key]":
            # Pydantic's loc for a member name that the client chooses.
            return {"type": "string", "pattern": names.NAME_PATTERN}
        inner = (_find_inner(each, step) for each in _iter_choices(here, schema))
        # A step that no choice has names a union member or an unknown field: stay.
        here = next(filter(None, inner), here)
    return here


def list_members(schema: Schema, root: Schema) -> list[str]:
    """Return the names of the fields that an object of this schema may have."""
    found = (each.get("properties", {}) for each in _iter_choices(schema, root))
    return [name for properties in found for name in properties]


def describe_nearest_members(schema: Schema, root: Schema, *, near: str) -> str:
    """Name the likely member that `near` meant, else list all members."""
    listed = list_members(schema, root)
    meant = get_close_matches(near, listed, n=1)
    if meant:
        return f"no member of that name; nearest is `{meant[0]}`"
    return f"only {_render_options(listed)}" if listed else "nothing"


def describe_schema(schema: Schema, root: Schema) -> str:
    """Describe in words what the schema allows, with its own description if any."""
    texts = [_render_schema(each, root) for each in _iter_choices(schema, root)]
    text = " or ".join(dict.fromkeys(texts))
    about = schema.get("description") or next(
        (e["description"] for e in _iter_choices(schema, root) if "description" in e),
        "",
    )
    return f"{text} ({about.rstrip('.')})" if about else text


def _iter_choices(schema: Schema, root: Schema) -> Iterator[Schema]:
    if ref := schema.get("$ref"):
        yield from _iter_choices(root["$defs"][ref.rpartition("/")[2]], root)
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _iter_choices(each, root)
    else:
        yield schema


def _find_inner(schema: Schema, step: Step) -> Schema | None:
    if isinstance(step, int):
        items: Schema | None = schema.get("items")
        return items
    if step in schema.get("properties", {}):
        found: Schema = schema["properties"][step]
        return found
    (chosen,) = schema.get("patternProperties", {"": None}).values()
    more = chosen or schema.get("additionalProperties")
    return more if isinstance(more, Mapping) else None


def _render_schema(schema: Schema, root: Schema) -> str:
    if options := schema.get("enum"):
        return f"one of {_render_options(options)}"
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type")
    if kind == "string":
        return _render_text(schema)
    if kind == "array":
        return f"a list{_render_range(schema, 'minItems', 'maxItems')}" + _render_items(
            schema, root
        )
    if kind == "object":
        inner = list_members(schema, root)
        if inner:
            return f"an object with {_render_options(inner)}"
        size = _render_range(schema, "minProperties", "maxProperties")
        return f"an object{size} members" if size else "an object"
    return _KINDS.get(str(kind), "any JSON") + _render_range(
        schema, "minimum", "maximum"
    )


def _render_items(schema: Schema, root: Schema) -> str:
    items = schema.get("items")
    if not items or "properties" in items or "$ref" in items:
        return ""
    return f", each {describe_schema(items, root)}"


def _render_text(schema: Schema) -> str:
    size = _render_range(schema, "minLength", "maxLength")
    text = f"a text{size} characters" if size else "a text"
    if pattern := schema.get("pattern"):
        return f"{text}: {PATTERNS[pattern]}" if size else PATTERNS[pattern]
    return _FORMATS[form] if (form := schema.get("format")) else text


def _render_range(schema: Schema, low: str, high: str) -> str:
    least, most = schema.get(low), schema.get(high)
    if least is None and most is None:
        return ""
    if most is None:
        return f" of at least {least}"
    return f" of at most {most}" if least is None else f" from {least} to {most}"


def _render_options(options: Sequence[Any]) -> str:
    return ", ".join(f"`{each}`" for each in options)
