"""Compaction of the OpenAPI document: shared parts, short schemas, none unused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

SchemaPart = dict[str, Any]

_SCHEMAS: Final = "#/components/schemas/"
_SCALARS: Final = frozenset({"boolean", "integer", "number", "string"})
#: Members that hold example values, not schemas, whatever the values contain.
_VALUES: Final = ("example", "examples")


class Shared:
    """Document parts of one kind that operations refer to, each stored once.

    Operations have about a thousand refusals and parameters, few of them distinct.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.named: dict[str, SchemaPart] = {}

    def refer(self, base: str, part: SchemaPart) -> dict[str, str]:
        """Store this part under a name like `base`; return a reference to it."""
        base, number = base.replace("-", ""), 1
        name = base
        while self.named.setdefault(name, part) != part:
            number += 1
            name = f"{base}_{number}"
        return {"$ref": f"#/components/{self._kind}/{name}"}


def shorten(part: Any) -> None:
    """Drop schema members that carry no information or that generators cannot take.

    Pydantic's titles and object defaults are dropped. A `title` goes only if it is
    text, since a property of that name is a schema. An object's own fields repeat its
    default.
    """
    for each in _iter_objects(part):
        if isinstance(each.get("title"), str):
            del each["title"]
        if "allOf" in each:
            (whole,) = each.pop("allOf")
            each |= {**whole, **each}
        if isinstance(each.get("default"), dict) and "$ref" in each:
            del each["default"]
        _join_null_type(each)


def _join_null_type(part: SchemaPart) -> None:
    """Merge `anyOf` of a scalar and null into one schema; leave enums and objects."""
    null = {"type": "null"}
    kinds = part.get("anyOf", [])
    if len(kinds) != 2 or null not in kinds:
        return
    (kind,) = (each for each in kinds if each != null)
    if kind.get("type") in _SCALARS and not kind.keys() & {"enum", "const"}:
        del part["anyOf"]
        part |= {**kind, **part, "type": [kind["type"], "null"]}


def shorten_parameter(given: SchemaPart) -> SchemaPart:
    """Merge the description of a parameter and of its schema; drop null, which no
    address has."""
    # A list of examples belongs to a schema; a parameter's examples are named.
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
        # False is the specification's default, too.
        given.pop("required", None)
    description = next(filter(None, described), None)
    return {**given, "schema": schema} | (
        {"description": description} if description else {}
    )


def prune(schemas: dict[str, SchemaPart], roots: Any) -> None:
    """Drop schemas that nothing refers to; query schemas are listed as parameters."""
    used, waiting = set[str](), [roots]
    while waiting:
        for each in _iter_objects(waiting.pop()):
            name = str(each.get("$ref", "")).removeprefix(_SCHEMAS)
            if name in schemas and name not in used:
                used.add(name)
                waiting.append(schemas[name])
    for name in schemas.keys() - used:
        del schemas[name]


def drop_list_examples(schemas: dict[str, SchemaPart]) -> None:
    """Drop the example of a list whose records have one: programs compose it."""
    for schema in schemas.values():
        properties = schema.get("properties", {})
        if properties.keys() == {"items", "next"}:
            record = str(properties["items"]["items"].get("$ref", ""))
            if "examples" in schemas.get(record.removeprefix(_SCHEMAS), {}):
                schema.pop("examples", None)


def name_enums(schemas: dict[str, SchemaPart], names: Mapping[str, object]) -> None:
    """Store each named enum once, with its first description; refer to it elsewhere."""
    by_values = {get_args(values): name for name, values in names.items()}
    fields = [
        field
        for schema in [*schemas.values()]
        for field in schema.get("properties", {}).values()
    ]
    for field in fields:
        if name := by_values.get(tuple(field.get("enum", ()))):
            own = {"type": field.pop("type"), "enum": field.pop("enum")}
            own["description"] = field["description"]
            shared = schemas.setdefault(name, own)
            field["$ref"] = _SCHEMAS + name
            if field["description"] == shared["description"]:
                del field["description"]


def _iter_objects(part: Any) -> Iterator[SchemaPart]:
    """Yield every object of a part, itself included, except example values."""
    if isinstance(part, list):
        for each in part:
            yield from _iter_objects(each)
    if isinstance(part, dict):
        yield part
        for name, each in part.items():
            if name not in _VALUES:
                yield from _iter_objects(each)
