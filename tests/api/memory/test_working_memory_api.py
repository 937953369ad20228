from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.api.client import Client
from tests.api.remembering import (
    T,
    items,
    list_names,
    note,
    put,
    restore,
    still,
    take,
)

pytestmark = pytest.mark.django_db

AGENTS = Path(__file__).parents[3] / "docs" / "agents.md"
RESERVED = ("_x", "mh.x", "_", "mh.")


async def test_working_memory_is_read_at_one_instant_in_one_call(api: Client) -> None:
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


async def test_empty_thread_has_empty_working_memory_and_stats(api: Client) -> None:
    made = (await api.put(T, {"scope": {"session": "s"}})).json
    found = (await api.get(f"{T}/working-memory")).json
    assert (found["task"], found["keys"], found["notes"]) == (None, [], [])
    stats = (await api.get(f"{T}/stats")).json
    assert stats["scope"] == made["scope"]
    assert stats["created_at"] == made["created_at"]
    assert (stats["keys"], stats["next_expiry_at"]) == (0, None)
    assert (await api.get(f"{T}/stats?at_seq=1")).json["scope"] == made["scope"]


async def test_agents_page_examples_work_as_written(api: Client) -> None:
    """The lines of the examples run unchanged, one after the other."""
    for call in ast.walk(ast.parse(_find_example('send("PUT", HUB, "/keys'))):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "send":
            method, path, *body = map(ast.literal_eval, [call.args[0], *call.args[2:]])
            answer = await api.send(method, f"{T}{path}", *body)
            assert answer.status < 300, answer.body
    found = (await api.get(f"{T}/working-memory")).json
    assert found["task"]["current_step"] == 0
    assert [each["key"] for each in found["keys"]] == ["offer"]


def _find_example(beginning: str) -> str:
    """Return the page's block of code that begins so."""
    blocks = AGENTS.read_text("utf-8").split("```python\n")
    return next(b for b in blocks if b.startswith(beginning)).partition("```")[0]


# Names that are kept


@pytest.mark.parametrize("name", RESERVED)
async def test_reserved_names_are_refused_everywhere(api: Client, name: str) -> None:
    """Reads, HEAD, writes, batches and globs refuse reserved names."""
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
        assert await list_names(api, f"?glob={glob}") == []
    assert (await api.get(T)).json["seq"] == head


async def test_names_similar_to_reserved_ones_are_free(api: Client) -> None:
    for key in ("mh", "mhx", "a_x", "a.mh.x", "MH.x", "x" * 128):
        assert (await put(api, key)).status == 201
    assert len(await list_names(api)) == 6


async def test_clearing_keys_leaves_notes_and_checkpoints(api: Client) -> None:
    """Task, notes and checkpoints are unchanged; the count is that of visible keys."""
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
    assert await list_names(api) == []
    assert (await api.post(f"{T}/notes:clear", {})).json["cleared"] == 3
    assert [(await rest())[n] for n in (0, 2)] == [before[0], before[2]]
    await restore(api, "c-1")
    assert await list_names(api) == ["k0", "k1"]
    assert [n["text"] for n in (await rest())[1]] == ["0", "1"]
