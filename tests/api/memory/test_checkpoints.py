from __future__ import annotations

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from tests.api.client import Client
from tests.api.remembering import (
    T,
    compare,
    delete,
    get,
    items,
    note,
    point,
    put,
    restore,
    seqs,
    still,
    take,
)

pytestmark = pytest.mark.django_db


async def test_checkpoint_that_is_taken_reads_back(api: Client) -> None:
    await put(api, "a")
    await put(api, "b")
    await note(api)
    await api.put(f"{T}/task", {})
    with still():
        body = {"name": "before-booking", "description": "Ä, as it was"}
        taken = await api.post(f"{T}/checkpoints", body)
    assert taken.status == 201
    assert taken.json == {
        **body,
        "seq": 6,
        "at": "2030-03-01T12:00:00+00:00",
        "auto": False,
        "parent": None,
        "keys": 2,
        "notes": 1,
        "has_task": True,
        "touched": None,
    }
    assert await point(api, 6) == await point(api, "before-booking") == taken.json
    await put(api, "a", 2)
    second = (await api.post(f"{T}/checkpoints", {})).json
    told = [second[name] for name in ("name", "description", "parent", "touched")]
    assert told == [None, None, 6, 1]
    assert await items(api, "/checkpoints") == [taken.json, second]


async def test_name_is_taken_once_and_is_no_number(api: Client) -> None:
    first = await take(api, "one")
    taken = await api.post(f"{T}/checkpoints", {"name": "one"})
    assert (taken.status, taken.code) == (409, "name_taken")
    for name in ("412", "0", "head", "_x y", ""):
        refused = await api.post(f"{T}/checkpoints", {"name": name})
        assert (refused.status, refused.code) == (422, "name")
    await delete(api, "/checkpoints/one")
    assert await take(api, "one") > first
    assert (
        await api.post(f"{T}/checkpoints", {"description": "x" * 1_024})
    ).status == 201
    assert (
        await api.post(f"{T}/checkpoints", {"description": "x" * 1_025})
    ).status == 422


async def test_checkpoints_are_listed_by_number_and_filtered(api: Client) -> None:
    taken = []
    for n in range(4):
        await put(api, "k", n)
        taken.append(await take(api, f"c-{n}"))
    await put(api, "k", 4)
    before = (await restore(api, taken[0])).json["before"]
    assert await seqs(api) == [*taken, before]
    assert await seqs(api, "?limit=2") == [*taken, before]
    assert await seqs(api, "?auto=true") == [before]
    assert await seqs(api, "?auto=false&limit=1") == taken
    assert await seqs(api, "?name=c-2") == [taken[2]]
    assert await seqs(api, "?name=412") == []
    assert await seqs(api, f"?at_seq={taken[1]}") == taken[:2]


async def test_action_is_no_name_of_a_checkpoint(api: Client) -> None:
    """A checkpoint may be called `x:restore`: only a POST there restores `x`."""
    await put(api, "k", 1)
    x, odd = await take(api, "x"), await take(api, "x:restore")
    await put(api, "k", 2)
    assert (await point(api, "x:restore"))["seq"] == odd
    assert (await point(api, "x"))["seq"] == x
    assert (await restore(api, "x:restore")).status == 200
    assert (await get(api, "k")).json["value"] == 1
    assert (await delete(api, "/checkpoints/x:restore")).json["existed"]
    assert (await api.get(f"{T}/checkpoints/x:restore")).status == 404
    assert (await restore(api, "x")).status == 200


# Forks


async def test_fork_from_a_checkpoint_is_the_thread_as_of_it(api: Client) -> None:
    await put(api, "k", "then")
    await api.append("t-1", "hello")
    here = await take(api, "here")
    await put(api, "k", "now")
    await api.append("t-1", "later")
    for name, said in (("f-1", here), ("f-2", "here")):
        made = await api.post(f"{T}:fork", {"thread": name, "checkpoint": said})
        assert (made.status, made.json["fork_seq"]) == (201, here)
        assert made.json["slots"] == 1
        read = (await api.get(f"/threads/{name}/keys/k")).json
        assert (read["value"], read["seq"]) == ("then", 2 - here)
        assert await seqs(api, thread=f"/threads/{name}") == [0]
        named = await point(api, "here", thread=f"/threads/{name}")
        assert named == await point(api, 0, thread=f"/threads/{name}")
    for said in ("other", 99, here + 1):
        missed = await api.post(f"{T}:fork", {"thread": "f-3", "checkpoint": said})
        assert (missed.status, missed.code) == (404, "not_found")
    two = await api.post(f"{T}:fork", {"thread": "f-3", "checkpoint": here, "seq": 1})
    assert (two.status, two.code) == (422, "value")


async def test_inherited_checkpoints_are_numbered_from_zero_down(api: Client) -> None:
    """The fork's own numbers go on from 1; both kinds are in its own tree."""
    await put(api, "k", "old")
    old = await take(api, "old")
    await put(api, "k", "new")
    new = await take(api, "new")
    await api.post(f"{T}:fork", {"thread": "f"})
    fork = "/threads/f"
    assert await seqs(api, thread=fork) == [old - new, 0]
    assert (await point(api, 0, thread=fork))["parent"] == old - new
    await api.put(f"{fork}/keys/k", {"value": "own"})
    named = [("idempotency-key", "t")]
    taken = await api.post(f"{fork}/checkpoints", {"name": "own"}, headers=named)
    own = taken.json
    assert (own["seq"], own["parent"]) == (3, 0)
    repeat = await api.post(f"{fork}/checkpoints", {"name": "own"}, headers=named)
    assert repeat.json == own == await point(api, 3, thread=fork)
    done = (await restore(api, old - new, thread=fork)).json
    assert (done["set"], done["before"]) == (1, 3)
    assert (await api.get(f"{fork}/keys/k")).json["value"] == "old"
    named = [("idempotency-key", "r")]
    await api.put(f"{fork}/keys/x", {"value": 1})
    undone = await restore(api, "own", thread=fork, headers=named)
    automatic = undone.json["before"]
    assert automatic == 6
    assert (await restore(api, "own", thread=fork, headers=named)).body == undone.body
    assert (await api.get(f"{fork}/keys/k")).json["value"] == "own"
    compared = await compare(api, f"a={old - new}&b=own", thread=fork)
    assert [each["key"] for each in compared["keys"]] == ["k"]
    assert (await delete(api, "/checkpoints/old")).json["existed"]
    assert (await point(api, "old", thread=fork))["seq"] == old - new
    gone = await api.send("DELETE", f"{fork}/checkpoints/{old - new}")
    assert gone.json["existed"]
    assert await seqs(api, thread=fork) == [0, 3, automatic]


async def test_fork_is_forked_from_a_checkpoint_it_inherits(api: Client) -> None:
    await put(api, "k", "old")
    here = await take(api, "here")
    await put(api, "k", "new")
    await api.post(f"{T}:fork", {"thread": "f"})
    await api.put("/threads/f/keys/k", {"value": "own"})
    for said in ("here", here - 3 - 1):
        name = f"g-{said}"
        made = await api.post("/threads/f:fork", {"thread": name, "checkpoint": said})
        assert made.status == 201, made.body
        assert (await api.get(f"/threads/{name}/keys/k")).json["value"] == "old"
        await api.put(f"/threads/{name}/keys/k", {"value": "other"})
        await restore(api, "here", thread=f"/threads/{name}")
        assert (await api.get(f"/threads/{name}/keys/k")).json["value"] == "old"


# Costs


@pytest.mark.usefixtures("believed")
async def test_listing_checkpoints_reads_no_values(api: Client) -> None:
    """The number of statements and opened texts does not grow with the contents."""
    counts: list[int] = []
    for size in (1, 60):
        for n in range(size):
            await put(api, f"k{n}", "x" * 2_000)
            await note(api, "x" * 2_000)
        await take(api)
        await items(api, "/checkpoints")
        with CaptureQueriesContext(connections["default"]) as asked:
            (*_, last) = await items(api, "/checkpoints")
        assert (last["keys"], last["notes"]) == (size, size + len(counts))
        counts.append(len(asked))
        # Of texts only those of the checkpoints themselves.
        texts = '"memoryhub_event"."payload"'
        assert sum(texts in each["sql"] for each in asked) == 1
    assert counts[0] == counts[1]
