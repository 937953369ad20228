from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from memoryhub import journal
from memoryhub.journal import Address, Order
from memoryhub.kernel.commands import RetireThread
from memoryhub.models import Subject, Thread
from memoryhub.services.access.api_keys import Agent
from tests.api.client import Answer, Client
from tests.api.remembering import (
    T,
    get,
    if_match,
    items,
    names,
    note,
    put,
    restore,
    still,
    take,
)
from tests.cast import factories

pytestmark = pytest.mark.django_db

AGENTS = Path(__file__).parents[3] / "docs" / "agents.md"
RESERVED = ("_x", "mh.x", "_", "mh.")


async def test_all_of_it_at_one_instant_in_one_call(api: Client) -> None:
    with still() as clock:
        await put(api, "b", None, ttl_seconds=60)
        await put(api, "a", {"x": 1})
        await put(api, "brief", 1, ttl_seconds=5)
        for n in range(3):
            await note(api, str(n))
        await api.put(f"{T}/task", {"status": "running"})
        for n in range(12):
            await take(api, f"c-{n}")
        clock.shift(10)
        found = (await api.get(f"{T}/working-memory?notes=2")).json
        assert found.keys() == {
            *("thread", "thread_id", "seq", "task", "keys", "notes"),
            *("checkpoints", "stats"),
        }
        assert (found["thread"], found["seq"]) == ("t-1", 20)
        assert found["task"] == (await api.get(f"{T}/task")).json
        assert found["keys"] == await items(api, "/keys", "?values=true")
        assert [each["key"] for each in found["keys"]] == ["a", "b"]
        assert found["notes"] == (await items(api, "/notes"))[-2:]
        assert found["checkpoints"] == (await items(api, "/checkpoints"))[-10:]
        stats = (await api.get(f"{T}/stats")).json
        assert found["stats"] == {name: stats[name] for name in found["stats"]}
        assert found["stats"] == {
            "keys": 2,
            "key_bytes": 128,
            "expiring": 1,
            "next_expiry_at": "2030-03-01T12:01:00+00:00",
            "default_ttl_seconds": None,
            "notes": 3,
            "note_bytes": 192,
            "has_task": True,
            "checkpoints": 12,
            "automatic": 0,
        }
        few = (await api.get(f"{T}/working-memory?keys=1&notes=0")).json
        assert [each["key"] for each in few["keys"]] == ["a"]
        assert (few["notes"], few["stats"]) == ([], found["stats"])
        then = (await api.get(f"{T}/working-memory?at_seq=4")).json
        assert [each["key"] for each in then["keys"]] == ["a", "b", "brief"]
        assert (then["task"], then["notes"], then["checkpoints"]) == (None, [], [])


async def test_of_an_empty_thread_there_is_nothing_to_tell(api: Client) -> None:
    made = (await api.put(T, {"scope": {"session": "s"}})).json
    found = (await api.get(f"{T}/working-memory")).json
    assert (found["task"], found["keys"], found["notes"]) == (None, [], [])
    stats = (await api.get(f"{T}/stats")).json
    assert stats["scope"] == made["scope"]
    assert stats["created_at"] == made["created_at"]
    assert (stats["keys"], stats["next_expiry_at"]) == (0, None)
    assert (await api.get(f"{T}/stats?at_seq=1")).json["scope"] == made["scope"]


@pytest.mark.usefixtures("believed")
@pytest.mark.parametrize(
    "path",
    [
        *("keys/k", "keys", "keys?values=true&sort=expiry", "task", "notes"),
        *("checkpoints", "checkpoints/1", "checkpoints:compare?a=4"),
        *("working-memory", "stats"),
    ],
)
async def test_a_read_costs_the_same_whatever_there_is(api: Client, path: str) -> None:
    """As many statements for two hundred things as for two."""
    for key in ("k", "l"):
        await put(api, key)
    assert await take(api) == 4
    await note(api)
    await api.put(f"{T}/task", {"data": {}})
    counts = []
    for size in (1, 150):
        batch = [{"op": "set", "key": f"k{n}", "value": n} for n in range(size)]
        await api.post(f"{T}/keys:batch", {"items": batch})
        await api.post(f"{T}/notes:batch", {"items": [{"text": "x"}] * size})
        await api.get(f"{T}/{path}")
        with CaptureQueriesContext(connections["default"]) as asked:
            await api.get(f"{T}/{path}")
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 12


async def test_what_the_page_for_agents_shows_works(api: Client) -> None:
    """Its lines as they stand, one after the other."""
    for call in ast.walk(ast.parse(_shown('send("PUT", HUB, "/keys'))):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "send":
            method, path, *body = map(ast.literal_eval, [call.args[0], *call.args[2:]])
            answer = await api.send(method, f"{T}{path}", *body)
            assert answer.status < 300, answer.body
    found = (await api.get(f"{T}/working-memory")).json
    assert found["task"]["current_step"] == 0
    assert [each["key"] for each in found["keys"]] == ["offer"]


def _shown(beginning: str) -> str:
    """The block of the page's code that begins so."""
    blocks = AGENTS.read_text("utf-8").split("```python\n")
    return next(b for b in blocks if b.startswith(beginning)).partition("```")[0]


# Names that are kept


@pytest.mark.parametrize("name", RESERVED)
async def test_reserved_names_guarded_everywhere(api: Client, name: str) -> None:
    """Reads, HEAD, writes, batches and globs: what is ours is out of reach."""
    await api.put(f"{T}/task", {"status": "running"})
    head = (await api.get(T)).json["seq"]
    path = f"{T}/keys/{name}"
    sent = {"op": "set", "key": name, "value": 1}
    answers = [
        await api.get(path),
        await api.get(f"{path}?at_seq=1"),
        await api.put(path, {"value": 1}),
        await api.patch(path, {"ttl_seconds": 1}),
        await api.send("DELETE", path),
        await api.post(f"{T}/keys:batch", {"items": [sent]}),
        await api.post(f"{T}/keys:batch", {"items": [{"op": "delete", "key": name}]}),
        await api.get(f"{T}/keys?glob={name}"),
        await api.get(f"{T}/keys?glob={name}*"),
    ]
    for answer in answers:
        assert (answer.status, answer.code) == (422, "reserved_key")
        (where,) = answer.json["errors"]
        assert where["code"] == "reserved_key"
    asked = await api.send("HEAD", path)
    assert (asked.status, asked.body) == (422, b"")
    # A set of characters may hold the sign, and finds nothing of ours.
    for glob in ("[_m]*", "?*", "*"):
        assert await names(api, f"?glob={glob}") == []
    assert (await api.get(T)).json["seq"] == head


async def test_names_that_only_look_alike_are_free(api: Client) -> None:
    for key in ("mh", "mhx", "a_x", "a.mh.x", "MH.x", "x" * 128):
        assert (await put(api, key)).status == 201
    assert len(await names(api)) == 6


async def test_clear_leaves_the_rest(api: Client) -> None:
    """Task, notes and checkpoints are equal; the count is that of visible keys."""
    await api.put(f"{T}/task", {"description": "x", "data": {"a": 1}})
    for n in range(3):
        await put(api, f"k{n}", n)
        await note(api, str(n))
        await take(api, f"c-{n}")

    async def rest() -> list[Any]:
        return [
            (await api.get(f"{T}/task")).json,
            await items(api, "/notes"),
            await items(api, "/checkpoints"),
        ]

    before = await rest()
    assert (await api.post(f"{T}/keys:clear", {})).json["cleared"] == 3
    assert await rest() == before
    assert await names(api) == []
    assert (await api.post(f"{T}/notes:clear", {})).json["cleared"] == 3
    assert [(await rest())[n] for n in (0, 2)] == [before[0], before[2]]
    await restore(api, "c-1")
    assert await names(api) == ["k0", "k1"]
    assert [n["text"] for n in (await rest())[1]] == ["0", "1"]


# Whose it is, and whether it takes anything


READS = (
    *("/keys/k", "/keys", "/task", "/notes", "/checkpoints", "/checkpoints/1"),
    *("/checkpoints:compare?a=1", "/working-memory", "/stats"),
)
WRITES: tuple[tuple[str, str, object], ...] = (
    ("PUT", "/keys/k", {"value": 1}),
    ("PATCH", "/keys/k", {"ttl_seconds": 1}),
    ("DELETE", "/keys/k", None),
    ("POST", "/keys:batch", {"items": [{"op": "set", "key": "k", "value": 1}]}),
    ("POST", "/keys:clear", {}),
    ("PUT", "/task", {}),
    ("PATCH", "/task", {}),
    ("DELETE", "/task", None),
    ("POST", "/notes", {"text": "x"}),
    ("POST", "/notes:batch", {"items": [{"text": "x"}]}),
    ("POST", "/notes:clear", {}),
    ("POST", "/checkpoints", {}),
    ("POST", "/checkpoints/1:restore", {}),
    ("POST", "/checkpoints/1:restore", {"dry_run": True}),
    ("DELETE", "/checkpoints/1", None),
)


async def _everything(api: Client) -> None:
    await put(api, "k", 1)
    await api.put(f"{T}/task", {})
    await note(api)
    await take(api)


async def _answers(api: Client, thread: str = T) -> list[Answer]:
    read = [await api.get(f"{thread}{path}") for path in READS]
    return read + [await api.send(m, f"{thread}{p}", b) for m, p, b in WRITES]


async def test_a_closed_thread_reads_and_takes_nothing(api: Client) -> None:
    await _everything(api)
    seq = (await api.post(f"{T}:close", {})).json["seq"]
    for method, path, body in WRITES:
        if body == {"dry_run": True}:
            continue
        answer = await api.send(method, f"{T}{path}", body)
        assert (answer.status, answer.code) == (409, "thread_closed"), (method, path)
    for path in ("/keys/k", "/task", "/notes", "/checkpoints", "/working-memory"):
        assert (await api.get(f"{T}{path}")).status == 200
    assert (await api.get(T)).json["seq"] == seq
    await api.post(f"{T}:reopen", {})
    assert (await put(api, "k")).status == 200


async def test_a_retired_thread_takes_nothing(api: Client) -> None:
    await _everything(api)
    api.connect()
    _retire()
    for method, path, body in WRITES:
        if body == {"dry_run": True}:
            continue
        answer = await api.send(method, f"{T}{path}", body)
        assert (answer.status, answer.code) == (410, "thread_erased"), (method, path)
    assert (await get(api, "k")).json["value"] == 1


def _retire() -> None:
    row = Thread.objects.get(name="t-1")
    journal.perform(
        Order(
            address=Address(project=row.project_id, name=row.name),
            command=RetireThread(policy_days=1, idle_days=2),
            actor="worker:retention",
        )
    )


async def test_a_foreign_thread_answers_as_an_absent_one(
    api: Client, foreign: Client, bound: Client
) -> None:
    await _everything(api)
    making = {"PUT /keys/k", "POST /keys:batch", "PUT /task", "POST /notes"}
    making |= {"POST /notes:batch", "POST /checkpoints"}
    for stranger in (foreign, bound):
        for path in READS:
            there = await stranger.get(f"{T}{path}")
            assert (there.status, there.code) == (404, "not_found")
            absent = await stranger.get(f"/threads/none{path}")
            assert there.comparable == absent.comparable
        for method, path, body in WRITES:
            if f"{method} {path}" in making:
                continue
            there = await stranger.send(method, f"{T}{path}", body)
            assert (there.status, there.code) == (404, "not_found"), (method, path)
    assert (await get(api, "k")).json["value"] == 1


async def test_what_is_erased_for_a_subject_answers_so(
    api: Client, agent: Agent, ann: Subject
) -> None:
    api.connect()
    factories.make_thread(agent, "t-1", user_id="ann")
    await _everything(api)
    for state, expected in (
        ("restricted", (409, "subject_restricted")),
        ("erased", (410, "subject_erased")),
    ):
        api.connect()
        Subject.objects.filter(id=ann.id).update(state=state)
        for answer in await _answers(api):
            assert (answer.status, answer.code) == expected
        api.connect()
        Subject.objects.filter(id=ann.id).update(state="active")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/keys:batch", {"items": [{"op": "set", "key": "k", "value": 2}]}),
        ("/keys:clear", {}),
        ("/notes", {"text": "x"}),
        ("/notes:batch", {"items": [{"text": "x"}]}),
        ("/notes:clear", {}),
        ("/checkpoints", {}),
    ],
)
async def test_a_post_minds_the_head_that_was_seen(
    api: Client, path: str, body: object
) -> None:
    await _everything(api)
    seen = (await api.get(T)).json["seq"]
    stale = await api.post(T + path, body, headers=if_match(seen - 1))
    assert (stale.status, stale.code) == (409, "stale")
    wrong = await api.post(T + path, body, headers=if_match(-1))
    assert (wrong.status, wrong.code) == (400, "bad_precondition")
    assert (await api.get(T)).json["seq"] == seen
    done = await api.post(T + path, body, headers=if_match(seen))
    assert done.status in (200, 201)


async def test_a_name_that_is_new_makes_the_thread(api: Client) -> None:
    for n, (method, path, body) in enumerate(
        [
            ("PUT", "/keys/k", {"value": 1}),
            ("POST", "/keys:batch", {"items": [{"op": "set", "key": "k", "value": 1}]}),
            ("PUT", "/task", {}),
            ("POST", "/notes", {"text": "x"}),
            ("POST", "/notes:batch", {"items": [{"text": "x"}]}),
            ("POST", "/checkpoints", {}),
        ]
    ):
        answer = await api.send(method, f"/threads/n-{n}{path}", body)
        assert answer.status < 300, answer.body
        assert (await api.get(f"/threads/n-{n}")).json["seq"] == 2
