"""Numbers, booleans and digits in every field of every body: a forget leaves none.

Bodies and their fields are read from the OpenAPI document, so a new one is tried too.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from copy import deepcopy
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections

from memoryhub.api import api as agent_api
from memoryhub.api.http import auth, limits
from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from tests.api.client import Client, run
from tests.cast import factories
from tests.cast.forgetting import forget, get_subject, make_person, plan
from tests.matrix.people import PEOPLE
from tests.matrix.routes import OPERATIONS, ROWS

pytestmark = pytest.mark.django_db(transaction=True)

#: Of each planted number, which has 12 digits: no other begins so.
STEM = "4915771"
FIRST = int(STEM) * 10**5
SCHEMAS = agent_api.get_openapi_schema()["components"]["schemas"]
WRITES = [
    label
    for label, (_, body, of_thread) in ROWS.items()
    if of_thread and isinstance(body, dict) and not label.startswith("get ")
]


def resolve_schemas(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas a value may have: references followed, choices apart."""
    if "$ref" in schema:
        return resolve_schemas(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    return (
        [each for one in choices for each in resolve_schemas(one)]
        if choices
        else [schema]
    )


def iter_places(schema: dict[str, Any], depth: int = 0) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to each field of a body, through lists and objects."""
    for one in resolve_schemas(schema):
        for name, inner in one.get("properties", {}).items():
            yield (name,)
            if depth < 4:
                yield from ((name, *rest) for rest in iter_places(inner, depth + 1))
        if "items" in one:
            yield from ((0, *rest) for rest in iter_places(one["items"], depth + 1))
        if one.get("type") == "object" and one.get("additionalProperties", True):
            # Any names are taken.
            yield ("planted",)


#: It appends messages, so what it says of names stays for as long as they do.
REMEMBERING = "post /api/v1/subjects/{subject}/episodes"
#: Operations that write about people, or read with a body.
WITH_BODIES = {
    **{
        label: (row.target, row.body)
        for label, row in PEOPLE.items()
        if row.body is not None and label != REMEMBERING
    },
    "post /api/v1/threads:search": ("/threads:search", {}),
}


def body_of(label: str) -> dict[str, Any]:
    content = OPERATIONS[label]["requestBody"]["content"]
    schema: dict[str, Any] = content["application/json"]["schema"]
    return schema


def with_value(body: Any, way: tuple[Any, ...], value: Any) -> Any:
    """Return the body with a value at the end of a way."""
    head, *rest = way
    if isinstance(head, int):
        first = body[0] if isinstance(body, list) and body else {}
        return [with_value(first, tuple(rest), value)] if rest else [value]
    held = dict(body) if isinstance(body, dict) else {}
    held[head] = with_value(held.get(head), tuple(rest), value) if rest else value
    return held


def variants(
    label: str, body: object, numbers: Iterator[int]
) -> Iterator[dict[str, Any]]:
    for way in dict.fromkeys(iter_places(body_of(label))):
        number = next(numbers)
        deep = {"n": [number, number + 0.5, str(number), True]}
        for value in (number, number + 0.5, str(number), True, deep):
            yield with_value(deepcopy(body), way, value)


def find_planted_cells() -> dict[str, list[str]]:
    """Return the cells of both databases that hold a planted number, by column."""
    found: dict[str, list[str]] = {}
    for model in apps.get_models():
        alias = "keys" if model._meta.db_table in tables("keys") else "default"
        if model._meta.db_table not in tables(alias):
            continue
        with connections[alias].cursor() as cursor:
            table = connections[alias].ops.quote_name(model._meta.db_table)
            cursor.execute(f"SELECT * FROM {table}")  # our tables
            names = [each[0] for each in cursor.description]
            for row in cursor.fetchall():
                for name, cell in zip(names, row, strict=True):
                    if tells(cell):
                        found.setdefault(f"{table}.{name}", []).append(repr(cell)[:200])
    return found


def tables(alias: str) -> set[str]:
    return set(connections[alias].introspection.table_names())


def tells(cell: object) -> bool:
    if isinstance(cell, bool) or cell is None:
        return False
    if isinstance(cell, int | float):
        return FIRST <= abs(cell) < FIRST + 10**5
    if isinstance(cell, bytes | memoryview):
        data = bytes(cell)
        return STEM.encode() in data or any(head in data for head in HEADS)
    return STEM in str(cell)


#: The first bytes that all of them share, as an integer and as a float.
HEADS = {
    struct.pack(">q", FIRST)[:6],
    struct.pack(">d", float(FIRST))[:5],
    struct.pack("<d", float(FIRST))[3:],
}


def make(agent: Agent, client: Client, name: str) -> None:
    """Make a thread on which each operation can do something."""
    factories.make_thread(agent, name, user_id="ann", auto_pin_turns=0)
    factories.make_page(agent, "note", thread=name)
    factories.append(agent, name, "hello")
    for target, body in (
        ("/turns", {}),
        ("/checkpoints", {"name": "here"}),
        ("/task", None),
    ):
        method = "PUT" if body is None else "POST"
        run(client.send(method, f"/threads/{name}{target}", body or {}))
    run(client.send("PUT", f"/threads/{name}/keys/seat", {"value": "12A"}))


def test_planted_number_is_found_by_the_scanner(agent: Agent) -> None:
    """This controls the scanner: the number is a label, and nothing is erased yet."""
    factories.make_thread(agent, "t-1", labels={"phone": FIRST + 7})
    found = find_planted_cells()
    assert {name.replace('"', "") for name in found} == {
        "memoryhub_event.body",
        "memoryhub_thread.labels",
        "memoryhub_threadlabel.value",
    }


@pytest.mark.slow
@pytest.mark.promise("P13", load="a number in every field of every body")
def test_no_planted_number_is_left(agent: Agent, acme: Project) -> None:
    numbers, taken = count(FIRST), dict.fromkeys(WRITES, 0)
    client = Client(key=factories.make_key(acme)[1])
    for at, label in enumerate(WRITES):
        name = f"t-{at}"
        make(agent, client, name)
        target, method = ROWS[label][0].format(t=name), label.partition(" ")[0].upper()
        for body in variants(label, ROWS[label][1], numbers):
            answer = run(client.send(method, target, body))
            assert answer.status < 500, (label, body)
            taken[label] += answer.status < 300
            limits.account = limits.UsageAccount()
    # Each was let in somewhere, as far as it takes anything.
    assert sum(taken.values()) > 100, taken
    before = find_planted_cells()
    assert before
    forget(get_subject(agent, "ann"))
    assert find_planted_cells() == {}
    assert next(numbers) < FIRST + 10**5


@pytest.mark.slow
@pytest.mark.promise("P13", load="a number in every field of every body about people")
def test_no_number_that_is_said_of_people_is_kept(agent: Agent, acme: Project) -> None:
    """Numbers are not kept while people are known: ids are digests, tickets short."""
    numbers, taken = count(FIRST), dict.fromkeys(WITH_BODIES, 0)
    ann, erasure = make_person(agent, "ann"), plan(make_person(agent, "eve"))
    for label, (path, example) in WITH_BODIES.items():
        target = path.format(s=ann.id, e=erasure.id)
        body = json.loads(json.dumps(example).replace("{u}", "ann"))
        scope = min(auth.get_admitting_scopes(OPERATIONS[label]["x-scope"]))
        client = Client(key=factories.make_key(acme, scopes=[scope])[1])
        for each in variants(label, body, numbers):
            answer = run(client.send("POST", target, each))
            assert answer.status < 500, (label, each)
            taken[label] += answer.status < 300
            limits.account = limits.UsageAccount()
    assert sum(taken.values()) > 10, taken
    assert find_planted_cells() == {}


@pytest.mark.slow
@pytest.mark.promise("P13", load="a number in every field of an exchange")
def test_no_number_of_an_exchange_is_left(agent: Agent, acme: Project) -> None:
    ann = make_person(agent, "ann")
    target, body = PEOPLE[REMEMBERING].target.format(s=ann.id), PEOPLE[REMEMBERING].body
    client = Client(key=factories.make_key(acme)[1])
    for each in variants(REMEMBERING, body, count(FIRST)):
        answer = run(client.send("POST", target, each))
        assert answer.status < 500, each
        limits.account = limits.UsageAccount()
    assert find_planted_cells()
    forget(get_subject(agent, "ann"))
    assert find_planted_cells() == {}


NUMBER = FIRST + 99
MESSAGE = {"role": "user", "content": str(NUMBER), "name": str(NUMBER), "x": NUMBER}
FILES = {
    "runs.json": [
        {
            "task_id": NUMBER,
            "trial": NUMBER,
            "reward": NUMBER + 0.5,
            "info": {"n": NUMBER, str(NUMBER): True},
            "traj": [MESSAGE],
        }
    ],
    "chat.jsonl": {**MESSAGE, "thread": str(NUMBER), "at": "2024-05-15T15:00:00Z"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_no_number_of_a_file_is_left(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = tmp_path / name
    file.write_text(f"{json.dumps(FILES[name])}\n")
    monkeypatch.setattr("sys.stdin", StringIO("ann\n"))
    call_command("import", str(file), project="acme", user_id="-", verbosity=0)
    assert find_planted_cells()
    forget(get_subject(agent, "ann"))
    assert find_planted_cells() == {}
