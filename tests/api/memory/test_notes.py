from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.remembering import T, items, note, still

pytestmark = pytest.mark.django_db


async def list_texts(api: Client, query: str = "", *, thread: str = T) -> list[Any]:
    found = await items(api, "/notes", query, thread=thread)
    return [line["text"] for line in found]


async def test_note_that_is_added_reads_back(api: Client) -> None:
    with still():
        added = await api.post(f"{T}/notes", {"text": "Ä \u2028 <b>"})
    assert added.status == 201
    at = "2030-03-01T12:00:00+00:00"
    assert added.json == {"seq": 2, "at": at, "trimmed": 0}
    (line,) = await items(api, "/notes")
    assert line == {"seq": 2, "at": at, "bytes": 64, "text": "Ä \u2028 <b>"}


async def test_batch_adds_in_order_or_nothing(api: Client) -> None:
    batch = [{"text": str(n)} for n in range(200)]
    added = await api.post(f"{T}/notes:batch", {"items": batch})
    assert added.status == 201
    assert [each["seq"] for each in added.json["items"]] == list(range(2, 202))
    assert await list_texts(api) == [str(n) for n in range(200)]
    bad = await api.post(f"{T}/notes:batch", {"items": [{"text": "x"}, {"text": ""}]})
    assert (bad.status, bad.json["errors"]) == (
        422,
        [{"loc": ["items", 1, "text"], "code": "value"}],
    )
    assert (await api.get(f"{T}/stats")).json["notes"] == 200


async def test_notes_are_measured_in_bytes(api: Client) -> None:
    assert (await api.post(f"{T}/notes", {"text": "ä" * 8_192})).status == 201
    assert (await api.post(f"{T}/notes", {"text": "ä" * 8_192 + "x"})).status == 422


async def test_notes_are_listed_both_ways_and_in_parts(api: Client) -> None:
    seqs = [await note(api, str(n)) for n in range(5)]
    for limit in (1, 2, 5, 200):
        up = await items(api, "/notes", f"?limit={limit}")
        down = await items(api, "/notes", f"?limit={limit}&order=desc")
        assert [line["seq"] for line in up] == seqs
        assert down == up[::-1]
    bare = await items(api, "/notes", "?content=none")
    assert [line["text"] for line in bare] == [None] * 5
    assert [line["bytes"] for line in bare] == [64] * 5
    part = (await api.get(f"{T}/notes?limit=3")).json
    await note(api, "5")
    rest = (await api.get(f"{T}/notes?limit=3&after={part['next']}")).json
    assert [line["text"] for line in rest["items"]] == ["3", "4", "5"]
    other = await api.get(f"{T}/notes?limit=3&order=desc&after={part['next']}")
    assert (other.status, other.code) == (400, "bad_cursor")


async def test_note_limit_of_one_keeps_the_newest_note(api: Client) -> None:
    await api.put(T, {"config": {"max_notes": 1}})
    seqs = []
    for n in range(3):
        added = (await api.post(f"{T}/notes", {"text": str(n)})).json
        seqs.append(added["seq"])
        assert added["trimmed"] == (n > 0)
        assert await list_texts(api) == [str(n)]
    # Out of the scratchpad, not out of history.
    assert await list_texts(api, f"?at_seq={seqs[0]}") == ["0"]
    stats = (await api.get(f"{T}/stats")).json
    assert (stats["notes"], stats["note_bytes"]) == (1, 64)
    batch = await api.post(
        f"{T}/notes:batch", {"items": [{"text": "a"}, {"text": "b"}]}
    )
    assert [each["trimmed"] for each in batch.json["items"]] == [1, 1]
    assert await list_texts(api) == ["b"]


async def test_fork_numbers_inherited_notes_from_zero_down(api: Client) -> None:
    first, second = await note(api, "one"), await note(api, "two")
    await api.post(f"{T}:fork", {"thread": "f"})
    await api.post("/threads/f/notes", {"text": "three"})
    found = await items(api, "/notes", thread="/threads/f")
    assert [(line["seq"], line["text"]) for line in found] == [
        (first - second, "one"),
        (0, "two"),
        (2, "three"),
    ]
    assert await list_texts(api) == ["one", "two"]
