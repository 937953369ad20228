"""Compaction of the OpenAPI document: shared parts, short schemas, none unused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

import orjson

SchemaPart = dict[str, Any]

_SCHEMAS: Final = "#/components/schemas/"
_SCALARS: Final = frozenset({"boolean", "integer", "number", "string"})
#: Members that hold example values, not schemas, whatever the values contain.
_VALUES: Final = ("example", "examples")
#: Share of an example's bytes from which its records' examples stand for it.
_LARGELY: Final = 0.45


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


def share_examples(schemas: dict[str, SchemaPart]) -> None:
    """Replace examples that largely consist of records by examples of these records.

    A record of many answers then has one example, of which programs compose those of
    the answers.
    """
    waiting = [*schemas]
    while waiting:
        schema = schemas[waiting.pop(0)]
        (example,) = schema.get("examples", [None])
        records = [*_iter_records(schema, example)]
        size = _measure([record for _, record in records])
        if not records or size < _LARGELY * _measure(example):
            continue
        del schema["examples"]
        for name, record in records:
            schemas[name].setdefault("examples", [record])
            waiting.append(name)


def _iter_records(schema: SchemaPart, example: Any) -> Iterator[tuple[str, SchemaPart]]:
    """Yield the objects that an example's fields hold, with the names of schemas."""
    for field, value in example.items() if isinstance(example, dict) else ():
        name = _find_record(schema.get("properties", {}).get(field, {}))
        for each in value if isinstance(value, list) else [value]:
            if name and isinstance(each, dict):
                yield name, each


def _find_record(part: SchemaPart) -> str:
    """Return the name of the schema of a field, of its items or its one choice."""
    choices = [each for each in part.get("anyOf", ()) if "null" not in each.values()]
    (part,) = choices if len(choices) == 1 else [part]
    reference = part.get("items", part).get("$ref", "")
    return str(reference).removeprefix(_SCHEMAS)


def _measure(value: Any) -> int:
    return len(orjson.dumps(value))


def name_fields(schemas: dict[str, SchemaPart], names: Mapping[str, str]) -> None:
    """Store each named field, as its `<schema>.<field>` has it, once.

    Alike fields of its name refer to it.
    """
    for name, holder in names.items():
        schema, _, field = holder.partition(".")
        shared = schemas[schema]["properties"][field]
        for each in schemas.values():
            if each.get("properties", {}).get(field) == shared:
                each["properties"][field] = {"$ref": _SCHEMAS + name}
        schemas[name] = shared


def name_schema(schema: SchemaPart, name: str, part: Any) -> None:
    """Refer to a named schema wherever a part has exactly its members, if not more."""
    for each in _iter_objects(part):
        if schema.items() <= each.items():
            for member in schema:
                del each[member]
            each["$ref"] = _SCHEMAS + name


def write_out_rare_parts(document: SchemaPart, kinds: Sequence[str]) -> None:
    """Write out shared parts of these kinds that take no more bytes so.

    A reference to a part that stays leads to the part itself: generators follow one.
    """
    components = document["components"]
    references = [each for each in _iter_objects(document["paths"]) if "$ref" in each]
    uses = Counter(each["$ref"] for each in references)
    rare = dict[str, SchemaPart]()
    for kind in kinds:
        shared = components[kind]
        for name, part in [*shared.items()]:
            reference = f"#/components/{kind}/{name}"
            base = shared.get(part.get("$ref", "").rpartition("/")[2], {})
            whole = {**base, **part}
            whole.pop("$ref", None)
            count = uses[reference]
            kept = count * _measure({"$ref": reference}) + _measure({name: whole})
            if 0 < count * _measure(part) <= kept:
                rare[reference] = shared.pop(name)
            else:
                shared[name] = whole
    for each in references:
        if part := rare.get(each["$ref"], {}):
            del each["$ref"]
            each.update(part)


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
