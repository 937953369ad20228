"""Wrong fields of requests: the answer names the field and its allowed values.

Each operation is tried with each field of body, query and path left out, of a wrong
type, out of bounds or vocabulary, and with an unknown field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest

from memoryhub.api import allowed
from memoryhub.api.application import api as agent_api
from memoryhub.api.http import auth, limits
from memoryhub.models.projects import Project
from tests.api.client import Client
from tests.cast import factories

pytestmark = pytest.mark.django_db
#: Text that is sent, and that no answer repeats.
CANARY = "canary-7Q"
Loc = tuple[str | int, ...]
#: Values of wrong types; the first that fits no type of the schema is sent.
OTHERS: dict[str, Any] = {
    "string": CANARY,
    "integer": 7,
    "number": 7.5,
    "boolean": True,
    "array": [CANARY],
    "object": {CANARY: 1},
}


#: Alternative fields: a body has one of each group.
ONE_OF = ({"ttl_seconds", "expires_at"}, {"seq", "turn", "checkpoint"})


class Sent(NamedTuple):
    """A body or a query with one error, and the place of the error."""

    what: str
    loc: Loc
    body: Any
    #: Text that the answer must contain.
    says: list[str]


def _operations() -> dict[str, Any]:
    found = {}
    for prefix, router in agent_api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                if operation.include_in_schema:
                    # The document has no converters of steps.
                    plain = re.sub(r"\{\w+:", "{", f"{prefix}{path}")
                    found[f"{operation.methods[0]} {plain}"] = operation
    return found


OPERATIONS = _operations()


def _inputs(operation: Any, source: str) -> list[Any]:
    return [each for each in operation.inputs if each.source == source]


def _kinds(schema: Any, root: Any) -> list[Any]:
    found = list(allowed._iter_choices(schema, root))
    if {each.get("type") for each in found} >= {"integer", "string"}:
        # A checkpoint takes any text as a name, which may not exist.
        return []
    return found


def _wrong_type(choices: list[Any]) -> Any:
    kinds = {each.get("type") for each in choices}
    kinds |= {"integer"} if "number" in kinds else set()
    texts = any("enum" in each or "const" in each for each in choices)
    if not choices or (None in kinds and not texts):
        return None
    return next(v for kind, v in OTHERS.items() if kind not in kinds | {"string"})


def _beyond(choice: Any) -> Iterator[tuple[Any, str]]:
    """List refused values of the right type, with the words of the answer."""
    for name, step in (("minimum", -1), ("maximum", 1)):
        # Integers beyond 64 bits have another code.
        if name in choice and abs(choice[name]) < 2**63 - 1:
            yield choice[name] + step, f"{choice[name]}"
    if "enum" in choice:
        yield CANARY, f"`{choice['enum'][-1]}`"
    elif "const" in choice:
        yield CANARY, f"`{choice['const']}`"
    elif choice.get("format") == "date-time":
        yield CANARY, "RFC 3339"
    elif "pattern" in choice:
        # A text may begin with a blank, but not consist of one.
        takes = re.search(choice["pattern"], f" {CANARY}")
        yield " " if takes else f" {CANARY}", allowed.PATTERNS[choice["pattern"]]


def _iter_fields(
    schema: Any, root: Any, body: Any, loc: Loc = ()
) -> Iterator[tuple[Loc, Any, Any]]:
    """List each object in a valid body: its place and its schema."""
    for choice in _kinds(schema, root):
        if "properties" in choice and isinstance(body, dict):
            yield loc, choice, body
            for name, inner in choice["properties"].items():
                if name in body:
                    yield from _iter_fields(inner, root, body[name], (*loc, name))
        if "items" in choice and isinstance(body, list) and body:
            yield from _iter_fields(choice["items"], root, body[0], (*loc, 0))


def _change_value(body: Any, loc: Loc, value: Any) -> Any:
    made = deepcopy(body)
    here = made
    for step in loc[:-1]:
        here = here[step]
    if value is ...:
        del here[loc[-1]]
    else:
        for others in ONE_OF:
            for other in others - {loc[-1]} if loc[-1] in others else ():
                here.pop(other, None)
        here[loc[-1]] = value
    return made


def _wrong_bodies(root: Any, right: Any) -> Iterator[Sent]:
    for loc, schema, held in _iter_fields(root, root, right):
        names = [f"`{name}`" for name in schema["properties"]]
        if not schema.get("additionalProperties"):
            place = (*loc, len(held))
            extra = _change_value(right, (*loc, CANARY), 1)
            yield Sent("extra", place, extra, names)
            for meant in schema["properties"]:
                near = _change_value(right, (*loc, f"{meant}z"), 1)
                yield Sent("misspelt", place, near, ["not known: ", f"`{meant}`"])
        for name in schema.get("required", ()):
            missing = _change_value(right, (*loc, name), ...)
            yield Sent("missing", (*loc, name), missing, ["is missing: "])
        for name, field in schema["properties"].items():
            place = (*loc, name)
            choices = _kinds(field, root)
            wrong = _wrong_type(choices)
            if wrong is not None:
                yield Sent(
                    "type", place, _change_value(right, place, wrong), ["takes "]
                )
            for choice in choices:
                for value, says in _beyond(choice):
                    yield Sent(
                        "bounds", place, _change_value(right, place, value), [says]
                    )
                if (most := choice.get("maxItems")) and held.get(name):
                    more = _change_value(right, place, [held[name][0]] * (most + 1))
                    yield Sent("bounds", place, more, [f"{most}"])


def _wrong_queries(root: Any) -> Iterator[Sent]:
    right = dict.fromkeys(root.get("required", ()), "x")
    names = [f"`{name}`" for name in root["properties"]]
    yield Sent("extra", ("query", len(right)), {**right, CANARY: 1}, names)
    for name in right:
        rest = {n: v for n, v in right.items() if n != name}
        yield Sent("missing", ("query", name), rest, ["is missing: "])
    for name, field in root["properties"].items():
        for choice in _kinds(field, root):
            wrong = list(_beyond(choice))
            if choice.get("type") == "integer":
                wrong.append(("1.5", "an integer"))
            for value, says in wrong:
                sent = {**right, name: value}
                yield Sent("bounds", ("query", name), sent, [says])


def _target(operation: Any, path: str, **wrong: str) -> str:
    for each in _inputs(operation, "path"):
        value = {"uuid": "01939d5e-6c0f-7000-8000-000000000000"}.get(
            each.schema.get("format", ""), "1"
        )
        marks = (f"{{{kind}{each.name}}}" for kind in ("", "int:", "uuid:", "index:"))
        for mark in marks:
            path = path.replace(mark, quote(wrong.get(each.name, value), safe=""))
    return path


@pytest.fixture
def client(request: pytest.FixtureRequest, acme: Project) -> Client:
    """Return a client that may call the operation."""
    needs = OPERATIONS[request.node.callspec.params["label"]].needs
    scopes = [auth.READ if needs in (auth.LOOK, auth.ANY) else needs]
    return Client(key=factories.make_key(acme, scopes=scopes)[1])


async def _require(client: Client, method: str, target: str, sent: Sent) -> None:
    limits.account = limits.UsageAccount()
    answer = await client.send(method, target, sent.body)
    shown = (sent, answer.body)
    assert answer.status in (422, 413), shown
    assert tuple(answer.json["errors"][0]["loc"]) == sent.loc, shown
    place = f"`{'.'.join(map(str, sent.loc))}` "
    assert place in answer.json["detail"], shown
    for words in sent.says:
        assert words in answer.json["detail"], shown
    assert CANARY not in answer.body.decode(), shown


def _titled(operation: Any) -> bool:
    return any("title" in body.schema for body in _inputs(operation, "body"))


@pytest.mark.parametrize(
    # A tool call has one of four shapes; wrong calls get a normal answer.
    "label",
    [n for n, o in OPERATIONS.items() if _titled(o)],
)
async def test_wrong_body_field_is_told_its_allowed_values(
    client: Client, label: str
) -> None:
    method, path = label.split()
    operation = OPERATIONS[label]
    (body,) = _inputs(operation, "body")
    (right,) = body.schema["examples"]
    target = _target(operation, path)
    for sent in _wrong_bodies(body.schema, right):
        await _require(client, method, target, sent)
    whole = Sent("whole", ("body",), [], ["a JSON object"])
    await _require(client, method, target, whole)


@pytest.mark.parametrize(
    "label", [n for n, o in OPERATIONS.items() if _inputs(o, "query")]
)
async def test_wrong_query_field_is_told_its_allowed_values(
    client: Client, label: str
) -> None:
    method, path = label.split()
    operation = OPERATIONS[label]
    (query,) = _inputs(operation, "query")
    for sent in _wrong_queries(query.schema):
        target = f"{_target(operation, path)}?{urlencode(sent.body)}"
        await _require(client, method, target, sent._replace(body=None))


@pytest.mark.parametrize(
    "label",
    [
        name
        for name, operation in OPERATIONS.items()
        if any("pattern" in each.schema for each in _inputs(operation, "path"))
    ],
)
async def test_wrong_path_parameter_is_told_its_allowed_values(
    client: Client, label: str
) -> None:
    method, path = label.split()
    operation = OPERATIONS[label]
    body: Any = {} if method in ("POST", "PUT", "PATCH") else None
    for each in _inputs(operation, "path"):
        if pattern := each.schema.get("pattern"):
            target = _target(operation, path, **{each.name: f"-{CANARY}"})
            says = [allowed.PATTERNS[pattern]]
            await _require(
                client, method, target, Sent("path", ("path", each.name), body, says)
            )
