"""What the client can send, held against the OpenAPI document, both ways."""

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
from memoryhub_client.requests import Request, at

DOCUMENT: dict[str, Any] = json.loads(json.dumps(agent_api.get_openapi_schema()))
COMPONENTS = DOCUMENT["components"]
PREFIX = "/api/v1"

#: Documented, and sent by nothing of the client's, because:
UNSENT = {
    "Last-Event-ID",  # `after` says the same, and it stays in the request
}

Make = Callable[..., Request]


def makers() -> Iterator[tuple[str, Make]]:
    """What makes requests: the public functions of the nouns."""
    for module in pkgutil.iter_modules(memoryhub_client.__path__):
        if module.name == "requests":
            continue
        noun = import_module(f"memoryhub_client.{module.name}")
        for name, made in inspect.getmembers(noun, inspect.isfunction):
            own = made.__module__ == noun.__name__ and not name.startswith("_")
            returned = typing.get_type_hints(made).get("return")
            returned = typing.get_origin(returned) or returned
            if own and inspect.isclass(returned) and issubclass(returned, Request):
                yield f"{module.name}.{name}", made


MAKERS = dict(makers())
#: Those whose answers have a type of their own, other than a message.
ANSWERED = [turns.begin, slots.append]


# A value of each type, with all that may be in it


def full(hint: Any) -> Any:
    """A value with every field that the type knows."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (str, Any):
        return "x"
    if hint in (int, float, bool):
        return hint(1)
    if origin in (Union, UnionType):
        return full(next(each for each in arguments if each is not NoneType))
    if origin is Literal:
        return arguments[0]
    if origin is NotRequired:
        return full(arguments[0])
    if origin in (Sequence, list):
        return [full(arguments[0])]
    if origin in (Mapping, dict):
        return {"x": full(arguments[1])}
    assert typing.is_typeddict(hint), hint
    return {name: full(each) for name, each in typing.get_type_hints(hint).items()}


def given(make: Make, *, least: bool = False) -> dict[str, Any]:
    """All arguments that it takes, by name, or the `least` that it must have."""
    found: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(make).items():
        if name == "return":
            continue
        kind = inspect.signature(make).parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            (fields,) = typing.get_args(hint)
            kept = fields.__required_keys__ if least else fields.__annotations__
            found |= {name: full(fields)[name] for name in kept}
        else:
            found[name] = full(hint)
    return found


# The operation of the document


def operation(make: Make) -> tuple[str, Request, dict[str, Any]]:
    """What is sent when everything is given, and the one operation that it is."""
    arguments = given(make)
    request = make(**arguments)
    found = [
        (path, methods[request.method.lower()])
        for path, methods in DOCUMENT["paths"].items()
        if request.method.lower() in methods
        and request.path == filled(path, methods[request.method.lower()])
    ]
    (label, documented) = found[0] if len(found) == 1 else pytest.fail(request.path)
    return f"{request.method} {label}", request, documented


def filled(path: str, documented: dict[str, Any]) -> str:
    places = {
        each["name"]: full(int if each["schema"].get("type") == "integer" else str)
        for each in parameters(documented)
        if each["in"] == "path"
    }
    return path.removeprefix(PREFIX).format_map(_Integers(places))


class _Integers(dict[str, Any]):
    """A checkpoint is a seq or a name; the client's first kind is a seq."""

    def __getitem__(self, name: str) -> Any:
        return 1 if name == "checkpoint" else super().__getitem__(name)


def parameters(documented: dict[str, Any]) -> list[dict[str, Any]]:
    return [resolved(each) for each in documented.get("parameters", [])]


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        part = COMPONENTS[kind][name]
    return part


@pytest.mark.parametrize("name", MAKERS)
def test_a_request_is_an_operation_of_the_document(name: str) -> None:
    """With all that may be given: the same parameters, headers and fields, no other."""
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
    fits(request.body, documented["requestBody"]["content"]["application/json"])


@pytest.mark.parametrize("make", ANSWERED, ids=lambda make: make.__name__)
def test_typed_answer_has_the_fields_of_the_document(make: Make) -> None:
    _, _, documented = operation(make)
    (answer,) = typing.get_args(typing.get_type_hints(make)["return"])
    (content,) = (
        resolved(each)["content"]["application/json"]
        for status, each in documented["responses"].items()
        if status.startswith("2")
    )
    fits(full(answer), content)


def fits(value: Any, part: dict[str, Any]) -> None:
    """Whether it has exactly the fields of a schema, and those inside, too."""
    schema = resolved(part.get("schema", part))
    choices = [resolved(each) for each in schema.get("anyOf", [schema])]
    if isinstance(value, list):
        (listed,) = (each for each in choices if each.get("type") == "array")
        fits(value[0], listed["items"])
    for each in choices:
        if isinstance(value, dict) and "properties" in each and value != {"x": "x"}:
            assert set(value) == set(each["properties"])
            for name, inner in value.items():
                fits(inner, each["properties"][name])
    words = [word for each in choices for word in each.get("enum", [])]
    assert not words or value in words


@pytest.mark.parametrize("name", MAKERS)
def test_words_are_those_of_the_document(name: str) -> None:
    """A closed list of the client's has each word of the document's."""
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
        schema = resolved(body["content"]["application/json"]["schema"])
        fields |= schema.get("properties", {})
    found = {}
    for name, field in fields.items():
        one = field.get("items", field)
        parts = [resolved(each) for each in one.get("anyOf", [one])]
        lists = [set(part["enum"]) for part in parts if "enum" in part]
        if lists and lists[0] != {"true", "false"}:
            found[name] = lists
    return found


def test_every_operation_can_be_sent() -> None:
    sent = [operation(make)[0] for make in MAKERS.values()]
    documented = {
        f"{method.upper()} {path}"
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
    }
    assert set(sent) == documented
    assert len(sent) == len(documented)


@pytest.mark.parametrize("name", MAKERS)
def test_what_must_be_given_is_asked_for(name: str) -> None:
    """With the least that the types let by, everything required is sent."""
    _, _, documented = operation(MAKERS[name])
    needed = {
        each["name"]
        for each in parameters(documented)
        if each.get("required") and each["in"] != "path"
    }
    if body := documented.get("requestBody"):
        schema = resolved(body["content"]["application/json"]["schema"])
        needed |= set(schema.get("required", []))
    least = MAKERS[name](**given(MAKERS[name], least=True))
    assert needed <= {*least.query, *(least.body or {})}


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_can_not_change_the_path(name: str) -> None:
    with pytest.raises(ValueError, match="dots"):
        at("threads", name)
    assert at("threads", "a/b?c") == "/threads/a%2Fb%3Fc"


class Typed(TypedDict, total=False):
    a: int


@pytest.mark.parametrize(
    "value", [{"a": 1, "c": 1}, {"b": 1}, {}], ids=["more", "other", "less"]
)
def test_another_shape_is_seen(value: dict[str, int]) -> None:
    """The control of the tests above."""
    schema = {"properties": {"a": {"type": "integer"}}, "type": "object"}
    fits(full(Typed), schema)
    with pytest.raises(AssertionError):
        fits(value, schema)
