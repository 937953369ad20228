"""Blocks over HTTP: bad input, repeats, and many who append at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.client import Client

PERSONA = "/threads/t-1/blocks/persona"


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(300)
async def test_concurrent_block_appends_are_all_kept(
    served: tuple[Client, str],
) -> None:
    """Eight clients append two hundred lines each: every line stands once, whole.

    The first append makes the block.
    """
    api, _ = served
    await api.put("/threads/t-1", {"user_id": "ann"})
    made = []

    async def append_lines(who: int) -> None:
        for n in range(200):
            answer = await api.post(f"{PERSONA}/append", {"text": f"{who}:{n}\n"})
            assert answer.status in (200, 201), answer.body
            if answer.status == 201:
                made.append(answer.json["version"])

    await asyncio.gather(*(append_lines(who) for who in range(8)))
    block = (await api.get(PERSONA)).json
    found = block["text"].splitlines()
    assert sorted(found) == sorted(f"{who}:{n}" for who in range(8) for n in range(200))
    for who in range(8):
        own = [int(line.split(":")[1]) for line in found if line[0] == str(who)]
        assert own == list(range(200))
    assert (block["version"], made) == (1600, [1])


@pytest.mark.django_db(transaction=True)
async def test_careful_save_names_the_version_it_read(
    served: tuple[Client, str],
) -> None:
    """The entity tag names the version, whatever else is learnt meanwhile."""
    api, _ = served
    await api.put("/threads/t-1", {"user_id": "ann"})
    tag = str((await api.put(PERSONA, {"text": "a"})).header("etag"))
    assert (tag, (await api.get(PERSONA)).header("etag")) == ('"1"', '"1"')
    fact = {"entity": "user", "predicate": "tier", "value": "Gold"}
    assert (await api.post("/threads/t-1/facts", fact)).status < 300
    for each in (tag, "2"):
        answer = await api.put(PERSONA, {"text": "b"}, headers=[("if-match", each)])
        assert answer.status == 200, answer.body
    answer = await api.put(PERSONA, {"text": "c"}, headers=[("if-match", tag)])
    assert (answer.status, answer.code) == (409, "stale")
    assert "version: 3" in answer.json["detail"]
    for wrong in ('"x"', 'W/"3"', '"', '""'):
        answer = await api.put(PERSONA, {"text": "c"}, headers=[("if-match", wrong)])
        assert answer.code == "bad_precondition", wrong


@pytest.mark.django_db(transaction=True)
async def test_repeated_block_append_has_one_effect(served: tuple[Client, str]) -> None:
    api, _ = served
    await api.put("/threads/t-1", {"user_id": "ann"})
    await api.put(PERSONA, {"text": "a"})
    named = [("idempotency-key", "k")]
    for _ in range(2):
        await api.post(f"{PERSONA}/append", {"text": "b"}, headers=named)
    assert (await api.get(PERSONA)).json["text"] == "ab"


BAD: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", PERSONA, {}),
    ("PUT", PERSONA, {"text": 7}),
    ("PUT", PERSONA, {"text": "x" * 65_537}),
    ("PUT", PERSONA, {"text": "x", "more": 1}),
    ("PUT", PERSONA, {"text": "x", "read_only": "yes"}),
    ("PUT", PERSONA, {"text": "x", "description": "x" * 1_025}),
    ("PUT", PERSONA, {"text": "x", "by": "system"}),
    ("PUT", "/threads/t-1/blocks/slot-1", {"text": "x"}),
    ("PUT", "/threads/t-1/blocks/a%0Ab", {"text": "x"}),
    ("POST", f"{PERSONA}/append", {"text": ""}),
    ("POST", f"{PERSONA}/replace", {"old": "", "new": "x"}),
    ("POST", f"{PERSONA}/replace", {"old": "x"}),
    ("POST", f"{PERSONA}/insert", {"line": 2, "text": "x"}),
    ("POST", f"{PERSONA}/insert", {"line": -1, "text": "x"}),
    ("POST", f"{PERSONA}/rename", {"name": "a//b"}),
    ("POST", f"{PERSONA}/rename", {"name": "/a"}),
    ("POST", f"{PERSONA}/rename", {"name": "a/../b"}),
    ("POST", f"{PERSONA}/rename", {"name": "a/append"}),
    ("POST", f"{PERSONA}/rename", {"name": "slot-1"}),
    ("PUT", "/threads/t-1/blocks/a/.b", {"text": "x"}),
    ("POST", f"{PERSONA}/revert", {"version": 0}),
    ("POST", f"{PERSONA}/revert", {"version": 2}),
    ("POST", f"{PERSONA}/revert", {"version": "1"}),
]


@pytest.mark.django_db(transaction=True)
async def test_malformed_block_is_refused(served: tuple[Client, str]) -> None:
    api, _ = served
    await api.put("/threads/t-1", {"user_id": "ann"})
    await api.put(PERSONA, {"text": "x"})
    before = (await api.get(PERSONA)).json
    for method, path, body in BAD:
        answer = await api.send(method, path, body)
        assert answer.status == 422, (path, body, answer.body)
    assert (await api.get(PERSONA)).json == before


@pytest.mark.django_db(transaction=True)
async def test_block_routes_by_thread_and_subject_are_equivalent(
    served: tuple[Client, str],
) -> None:
    api, _ = served
    subject = (await api.put("/threads/t-1", {"user_id": "ann"})).json["subject_id"]
    empty = (await api.get(f"/subjects/{subject}/blocks")).json
    assert (empty["items"], empty["thread"]) == ([], None)
    made = await api.put(f"/subjects/{subject}/blocks/persona", {"text": "Ann."})
    assert (made.status, made.json["thread"]) == (201, f"mh.home.{subject}")
    listed = (await api.get("/threads/t-1/blocks")).json
    assert listed["thread"] == f"mh.home.{subject}"
    assert [each["text"] for each in listed["items"]] == ["Ann."]
    home = f"/threads/mh.home.{subject}"
    assert (await api.get(home)).json["subject_id"] == subject
    page = (await api.get(f"{home}/pages/persona?level=0")).json
    assert page["page"]["content"] == {"text": "Ann."}
    refused = await api.post(f"{home}/notes", {"text": "x"})
    assert (refused.status, refused.code) == (409, "home_thread")


@pytest.mark.django_db(transaction=True)
async def test_block_name_may_hold_slashes(served: tuple[Client, str]) -> None:
    api, _ = served
    await api.put("/threads/t-1", {"user_id": "ann"})
    for path in ("/threads/t-1/blocks/people/ann", "/threads/t-1/blocks/a%2Fb%2Fc"):
        name = path.partition("/blocks/")[2].replace("%2F", "/")
        made = await api.put(path, {"text": "a"})
        assert (made.status, made.json["block"]) == (201, name)
        edited = await api.post(f"{path}/insert", {"line": 1, "text": "b"})
        assert (edited.status, edited.json["version"]) == (200, 2)
        found = (await api.get(path)).json
        assert (found["block"], found["text"]) == (name, "a\nb\n")
    renamed = await api.post(f"{path}/rename", {"name": "a/b"})
    assert (renamed.json["block"], renamed.header("etag")) == ("a/b", '"3"')
    refused = await api.post("/threads/t-1/blocks/a/b/rename", {"name": "people/ann"})
    assert (refused.status, refused.code) == (409, "name_taken")
    listed = (await api.get("/threads/t-1/blocks")).json["items"]
    assert [each["block"] for each in listed] == ["people/ann", "a/b"]
    assert (await api.send("DELETE", "/threads/t-1/blocks/a/b")).status == 200
    for wrong in ("people/", "people//ann", "people%2F%2Fann"):
        assert (await api.get(f"/threads/t-1/blocks/{wrong}")).status == 404
