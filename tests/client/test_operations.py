"""Requests of the client compared with the OpenAPI document, both ways."""

from __future__ import annotations

import inspect
import json
import pkgutil
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, TypedDict, Union

import pytest

import memoryhub_client
from memoryhub.api import api as agent_api
from memoryhub_client import slots, turns
from memoryhub_client.requests import Request, build_path

DOCUMENT: dict[str, Any] = json.loads(json.dumps(agent_api.get_openapi_schema()))
COMPONENTS = DOCUMENT["components"]
PREFIX = "/api/v1"

#: Documented parameters that the client never sends, with the reason:
UNSENT = {
    "Last-Event-ID",  # `after` has the same effect, and stays in the request
}

Make = Callable[..., Request]
#: Modules that are no noun: the requests themselves, and what builds on nouns.
ADAPTERS = (
    "adk",
    "requests",
    "langgraph",
    "memory_files",
    "anthropic_memory",
    "steps",
    "pydantic_history",
    "kept_items",
)


def makers() -> Iterator[tuple[str, Make]]:
    """Return the functions that make requests: the public functions of the nouns."""
    for module in pkgutil.iter_modules(memoryhub_client.__path__):
        if module.name.startswith(ADAPTERS):
            continue
        noun = import_module(f"memoryhub_client.{module.name}")
        for name, made in inspect.getmembers(noun, inspect.isfunction):
            own = made.__module__ == noun.__name__ and not name.startswith("_")
            returned = typing.get_type_hints(made).get("return")
            returned = typing.get_origin(returned) or returned
            if own and inspect.isclass(returned) and issubclass(returned, Request):
                yield f"{module.name}.{name}", made


MAKERS = dict(makers())
#: Operations whose answers have a type, apart from messages.
ANSWERED = [turns.begin, slots.append]


# Full values of each type


def build_full_value(hint: Any) -> Any:
    """Build a value with every field of the type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (str, Any):
        return "x"
    if hint in (int, float, bool):
        return hint(1)
    if origin in (Union, UnionType):
        return build_full_value(
            next(each for each in arguments if each is not NoneType)
        )
    if origin is Literal:
        return arguments[0]
    if origin is NotRequired:
        return build_full_value(arguments[0])
    if origin in (Sequence, list):
        return [build_full_value(arguments[0])]
    if origin in (Mapping, dict):
        return {"x": build_full_value(arguments[1])}
    assert typing.is_typeddict(hint), hint
    return {
        name: build_full_value(each)
        for name, each in typing.get_type_hints(hint).items()
    }


def build_arguments(make: Make, *, least: bool = False) -> dict[str, Any]:
    """Build all arguments of a function by name, or with `least` the required ones."""
    found: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(make).items():
        if name == "return":
            continue
        kind = inspect.signature(make).parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            (fields,) = typing.get_args(hint)
            kept = fields.__required_keys__ if least else fields.__annotations__
            found |= {name: build_full_value(fields)[name] for name in kept}
        else:
            found[name] = build_full_value(hint)
    return found


# The operation of the document


def operation(make: Make) -> tuple[str, Request, dict[str, Any]]:
    """Return the request with all arguments, and its one operation."""
    arguments = build_arguments(make)
    request = make(**arguments)
    found = [
        (path, methods[request.method.lower()])
        for path, methods in DOCUMENT["paths"].items()
        if request.method.lower() in methods
        and request.path == fill_path(path, methods[request.method.lower()])
    ]
    (label, documented) = found[0] if len(found) == 1 else pytest.fail(request.path)
    return f"{request.method} {label}", request, documented


def fill_path(path: str, documented: dict[str, Any]) -> str:
    places = {
        each["name"]: build_full_value(
            int if each["schema"].get("type") == "integer" else str
        )
        for each in parameters(documented)
        if each["in"] == "path"
    }
    return path.removeprefix(PREFIX).format_map(_Integers(places))


class _Integers(dict[str, Any]):
    """Schema view that picks integers: a checkpoint is a seq or a name."""

    def __getitem__(self, name: str) -> Any:
        return 1 if name == "checkpoint" else super().__getitem__(name)


def parameters(documented: dict[str, Any]) -> list[dict[str, Any]]:
    return [resolve_reference(each) for each in documented.get("parameters", [])]


def resolve_reference(part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        part = COMPONENTS[kind][name]
    return part


@pytest.mark.parametrize("name", MAKERS)
def test_request_is_an_operation_of_the_openapi_document(name: str) -> None:
    """With all arguments, parameters, headers and fields are those of the document."""
    _, request, documented = operation(MAKERS[name])
    declared = {
        place: {each["name"] for each in parameters(documented) if each["in"] == place}
        for place in ("query", "header")
    }
    labels = {"label." if each == "label.x" else each for each in request.query}
    assert labels == declared["query"]
    assert set(request.headers) == declared["header"] - UNSENT
    if "requestBody" not in documented:
        assert request.body is None
        return
    check_fields(request.body, documented["requestBody"]["content"]["application/json"])


@pytest.mark.parametrize("make", ANSWERED, ids=lambda make: make.__name__)
def test_typed_answer_has_the_fields_of_the_openapi_document(make: Make) -> None:
    _, _, documented = operation(make)
    (answer,) = typing.get_args(typing.get_type_hints(make)["return"])
    (content,) = (
        resolve_reference(each)["content"]["application/json"]
        for status, each in documented["responses"].items()
        if status.startswith("2")
    )
    check_fields(build_full_value(answer), content)


def check_fields(value: Any, part: dict[str, Any]) -> None:
    """Check that a value has exactly the fields of a schema, nested ones included."""
    schema = resolve_reference(part.get("schema", part))
    choices = [resolve_reference(each) for each in schema.get("anyOf", [schema])]
    if isinstance(value, list):
        (listed,) = (each for each in choices if each.get("type") == "array")
        check_fields(value[0], listed["items"])
    for each in choices:
        if isinstance(value, dict) and "properties" in each and value != {"x": "x"}:
            assert set(value) == set(each["properties"])
            for name, inner in value.items():
                check_fields(inner, each["properties"][name])
    words = [word for each in choices for word in each.get("enum", [])]
    assert not words or value in words


@pytest.mark.parametrize("name", MAKERS)
def test_closed_lists_equal_those_of_the_openapi_document(name: str) -> None:
    """Each closed list of the client has every word of the document's list."""
    _, _, documented = operation(MAKERS[name])
    lists = enums(documented)
    for field, hint in hints(MAKERS[name]):
        words = set(literals(hint))
        if words and field.rstrip("_") in lists:
            assert words in lists[field.rstrip("_")], field


def hints(make: Make) -> Iterator[tuple[str, Any]]:
    for name, hint in typing.get_type_hints(make).items():
        for inner in filter(typing.is_typeddict, typing.get_args(hint)):
            yield from typing.get_type_hints(inner).items()
        yield name, hint


def literals(hint: Any) -> Iterator[Any]:
    if typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
    for each in typing.get_args(hint):
        if typing.get_origin(hint) is not Literal:
            yield from literals(each)


def enums(documented: dict[str, Any]) -> dict[str, list[set[Any]]]:
    fields = {each["name"]: each["schema"] for each in parameters(documented)}
    if body := documented.get("requestBody"):
        schema = resolve_reference(body["content"]["application/json"]["schema"])
        fields |= schema.get("properties", {})
    found = {}
    for name, field in fields.items():
        one = field.get("items", field)
        parts = [resolve_reference(each) for each in one.get("anyOf", [one])]
        lists = [set(part["enum"]) for part in parts if "enum" in part]
        if lists and lists[0] != {"true", "false"}:
            found[name] = lists
    return found


def test_every_operation_can_be_sent_by_the_client() -> None:
    sent = [operation(make)[0] for make in MAKERS.values()]
    documented = {
        f"{method.upper()} {path}"
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
    }
    assert set(sent) == documented
    assert len(sent) == len(documented)


@pytest.mark.parametrize("name", MAKERS)
def test_client_functions_require_all_required_parameters(name: str) -> None:
    """The fewest arguments that the types allow include everything required."""
    _, _, documented = operation(MAKERS[name])
    needed = {
        each["name"]
        for each in parameters(documented)
        if each.get("required") and each["in"] != "path"
    }
    if body := documented.get("requestBody"):
        schema = resolve_reference(body["content"]["application/json"]["schema"])
        needed |= set(schema.get("required", []))
    least = MAKERS[name](**build_arguments(MAKERS[name], least=True))
    assert needed <= {*least.query, *(least.body or {})}


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_name_in_a_request_cannot_change_its_path(name: str) -> None:
    with pytest.raises(ValueError, match="dots"):
        build_path("threads", name)
    assert build_path("threads", "a/b?c") == "/threads/a%2Fb%3Fc"


class Typed(TypedDict, total=False):
    a: int


@pytest.mark.parametrize(
    "value", [{"a": 1, "c": 1}, {"b": 1}, {}], ids=["more", "other", "less"]
)
def test_differing_schema_is_seen(value: dict[str, int]) -> None:
    """Serve as the control of the tests above."""
    schema = {"properties": {"a": {"type": "integer"}}, "type": "object"}
    check_fields(build_full_value(Typed), schema)
    with pytest.raises(AssertionError):
        check_fields(value, schema)
