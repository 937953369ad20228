"""Parts of the OpenAPI document, so small that all of them can be described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

SchemaPart = dict[str, Any]

_SCHEMAS: Final = "#/components/schemas/"
_SCALARS: Final = frozenset({"boolean", "integer", "number", "string"})
#: What a client sends or gets; no schemas, whatever their members are called.
_VALUES: Final = ("example", "examples")


class Shared:
    """Parts of a kind that operations refer to, each said once.

    Operations have a thousand refusals and parameters, of which few differ.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.named: dict[str, SchemaPart] = {}

    def refer(self, base: str, part: SchemaPart) -> dict[str, str]:
        """Answer a reference to this part, which is kept under a name like `base`."""
        base, number = base.replace("-", ""), 1
        name = base
        while self.named.setdefault(name, part) != part:
            number += 1
            name = f"{base}_{number}"
        return {"$ref": f"#/components/{self._kind}/{name}"}


def shorten(part: Any) -> None:
    """Drop what says nothing, or nothing that generators can take.

    What Pydantic makes of a field's name; only a title that is text is one, since a
    property of that name is a schema. And an object by default, which its own fields'
    defaults say as well.
    """
    for each in _walk(part):
        if isinstance(each.get("title"), str):
            del each["title"]
        if "allOf" in each:
            (whole,) = each.pop("allOf")
            each |= {**whole, **each}
        if isinstance(each.get("default"), dict) and "$ref" in each:
            del each["default"]
        _join_null(each)


def _join_null(part: SchemaPart) -> None:
    """A text or null in one schema; lists of words and whole objects stay apart."""
    null = {"type": "null"}
    kinds = part.get("anyOf", [])
    if len(kinds) != 2 or null not in kinds:
        return
    (kind,) = (each for each in kinds if each != null)
    if kind.get("type") in _SCALARS and not kind.keys() & {"enum", "const"}:
        del part["anyOf"]
        part |= {**kind, **part, "type": [kind["type"], "null"]}


def parameter(given: SchemaPart) -> SchemaPart:
    """Say once what Ninja says of it and of its schema; an address has no null."""
    # A list of examples is a schema's; a parameter's own would each have a name.
    given = {name: value for name, value in given.items() if name != "examples"}
    schema = dict(given["schema"])
    described = [given.get("description"), schema.pop("description", None)]
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema |= kinds[0]
        described.append(schema.pop("description", None))
    if isinstance(schema.get("type"), list):
        schema["type"] = schema["type"][0]
    if not given.get("required"):
        # As the specification has it, too.
        given.pop("required", None)
    description = next(filter(None, described), None)
    return {**given, "schema": schema} | (
        {"description": description} if description else {}
    )


def prune(schemas: dict[str, SchemaPart], roots: Any) -> None:
    """Drop the schemas that nothing refers to: queries are told by parameter."""
    used, waiting = set[str](), [roots]
    while waiting:
        for each in _walk(waiting.pop()):
            name = str(each.get("$ref", "")).removeprefix(_SCHEMAS)
            if name in schemas and name not in used:
                used.add(name)
                waiting.append(schemas[name])
    for name in schemas.keys() - used:
        del schemas[name]


def _walk(part: Any) -> Iterator[SchemaPart]:
    """Every object of it, itself included, but for those that are values."""
    if isinstance(part, list):
        for each in part:
            yield from _walk(each)
    if isinstance(part, dict):
        yield part
        for name, each in part.items():
            if name not in _VALUES:
                yield from _walk(each)
