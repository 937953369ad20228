from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.remembering import (
    CREATE_ONLY,
    T,
    delete,
    get,
    if_match,
    items,
    list_names,
    put,
    still,
)

pytestmark = pytest.mark.django_db


async def test_key_that_is_set_reads_back(api: Client) -> None:
    with still():
        made = await put(api, "seat", {"row": 12, "letter": "A"})
        assert made.status == 201
        assert made.json.keys() == {"thread", "thread_id", "seq", "key", "expires_at"}
        assert (made.json["thread"], made.json["seq"]) == ("t-1", 2)
        read = await get(api, "seat")
    assert read.json == {
        "key": "seat",
        "value": {"row": 12, "letter": "A"},
        "seq": 2,
        "set_at": "2030-03-01T12:00:00+00:00",
        "expires_at": None,
        "bytes": 64,
        "erased": False,
    }
    again = await put(api, "seat", "12B")
    assert (again.status, again.json["seq"]) == (200, 3)
    assert (await get(api, "seat")).json["value"] == "12B"
    assert (await get(api, "seat", "?at_seq=2")).json["value"]["row"] == 12


@pytest.mark.parametrize(
    "value",
    [
        *(None, False, 0, -(2**63) + 1, 0.1, "", "Ä \u2028 <b>", []),
        [None, {"b": 1, "a": [2]}],
        {},
        {"__proto__": 1, "b": 1, "a": 2},
    ],
)
async def test_any_json_is_a_value(api: Client, value: Any) -> None:
    await put(api, "k", value)
    read = (await get(api, "k")).json
    assert (read["value"], type(read["value"])) == (value, type(value))
    if isinstance(value, dict):
        assert list(read["value"]) == list(value)


async def test_null_is_a_value(api: Client) -> None:
    await put(api, "none", None)
    assert (await get(api, "none")).status == 200
    assert (await get(api, "none")).json["value"] is None
    assert (await get(api, "none")).json["erased"] is False
    assert (await get(api, "other")).code == "key_not_found"
    (listed,) = await items(api, "/keys", "?values=true")
    assert (listed["value"], listed["erased"]) == (None, False)
    batch = [{"op": "set", "key": "also", "value": None}]
    assert (await api.post(f"{T}/keys:batch", {"items": batch})).status == 200
    assert await list_names(api) == ["also", "none"]
    start = (await api.post(f"{T}/checkpoints", {})).json["seq"]
    await put(api, "none", 1)
    compared = await api.get(f"{T}/checkpoints:compare?a={start}&values=true")
    (found,) = compared.json["keys"]
    assert found["kind"] == "changed"
    assert found["before"]["value"] is None
    assert (found["before"]["erased"], found["after"]["value"]) == (False, 1)
    assert (await api.post(f"{T}/checkpoints/{start}:restore", {})).status == 200
    assert (await get(api, "none")).json["value"] is None


async def test_head_of_a_key_is_get_without_its_body(api: Client) -> None:
    await put(api, "seat")
    there = await api.send("HEAD", f"{T}/keys/seat")
    not_there = await api.send("HEAD", f"{T}/keys/none")
    assert (there.status, there.body) == (200, b"")
    assert (not_there.status, not_there.body) == (404, b"")


# Compare and set


async def test_version_is_compared_before_a_key_is_set(api: Client) -> None:
    seen = (await put(api, "k", 1)).json["seq"]
    assert (await put(api, "k", 2, headers=if_match(seen))).status == 200
    for stale in (seen, 0, -7, seen + 99):
        answer = await put(api, "k", 3, headers=if_match(stale))
        assert (answer.status, answer.code) == (409, "stale")
    absent = await put(api, "none", 3, headers=if_match(seen))
    assert (absent.status, absent.code) == (409, "stale")
    taken = await put(api, "k", 3, headers=CREATE_ONLY)
    assert (taken.status, taken.code) == (409, "key_exists")
    assert (await get(api, "k")).json["value"] == 2
    assert (await put(api, "new", 3, headers=CREATE_ONLY)).status == 201
    assert (await api.get(T)).json["seq"] == 4


async def test_delete_checks_the_version(api: Client) -> None:
    seen = (await put(api, "k")).json["seq"]
    stale = await delete(api, "/keys/k", headers=if_match(seen + 1))
    assert (stale.status, stale.code) == (409, "stale")
    done = await delete(api, "/keys/k", headers=if_match(seen))
    assert done.json == {"existed": True, "seq": seen + 1}
    gone = await delete(api, "/keys/k", headers=if_match(seen))
    assert (gone.status, gone.code) == (409, "stale")
    assert (await delete(api, "/keys/k")).json == {"existed": False, "seq": None}
    assert (await api.get(T)).json["seq"] == seen + 1
    # Deleting hides; history keeps a value that was never to expire.
    assert (await get(api, "k", f"?at_seq={seen}")).json["value"] == 1


async def test_fork_counts_what_it_inherits_from_zero_down(api: Client) -> None:
    first = (await put(api, "old", "then")).json["seq"]
    newer = (await put(api, "new", "now")).json["seq"]
    await api.post(f"{T}:fork", {"thread": "f"})
    fork = "/threads/f/keys"
    assert (await api.get(f"{fork}/new")).json["seq"] == 0
    old = (await api.get(f"{fork}/old")).json
    assert (old["seq"], old["value"]) == (first - newer, "then")
    # The parent's number of that event is another event's here, or none.
    stale = await api.put(f"{fork}/old", {"value": 1}, headers=if_match(first))
    assert (stale.status, stale.code) == (409, "stale")
    done = await api.put(f"{fork}/old", {"value": 1}, headers=if_match(old["seq"]))
    assert (done.status, done.json["seq"]) == (200, 2)
    gone = await api.send("DELETE", f"{fork}/new", headers=if_match(0))
    assert gone.json == {"existed": True, "seq": 3}
    assert (await get(api, "old")).json["value"] == "then"
    assert await list_names(api) == ["new", "old"]
    assert await list_names(api, thread="/threads/f") == ["old"]


# The past


async def test_past_read_judges_expiry_at_its_own_instant(api: Client) -> None:
    with still() as clock:
        seq = (await put(api, "k", "v", ttl_seconds=60)).json["seq"]
        clock.shift(59)
        later = (await put(api, "other")).json["seq"]
        clock.shift(1)
        assert (await get(api, "k")).code == "key_not_found"
        assert (await get(api, "k", f"?at_seq={later}")).json["value"] == "v"
        assert await list_names(api, f"?at_seq={seq}") == ["k"]
        last = (await put(api, "third")).json["seq"]
        assert (await get(api, "k", f"?at_seq={last}")).code == "key_not_found"
        assert await list_names(api, f"?at_seq={last}") == ["other", "third"]


async def test_past_read_accepts_a_turn(api: Client) -> None:
    await put(api, "k", "before")
    await api.post(f"{T}/turns", {})
    await put(api, "k", "first")
    await api.post(f"{T}/turns", {})
    await put(api, "k", "second")
    for turn, value in ((0, "before"), (1, "first"), (2, "second")):
        assert (await get(api, "k", f"?at_turn={turn}")).json["value"] == value
        (listed,) = await items(api, "/keys", f"?at_turn={turn}&values=true")
        assert listed["value"] == value
    assert (await get(api, "k", "?at_turn=3")).code == "seq_unknown"


async def test_thread_before_its_first_event_holds_nothing(api: Client) -> None:
    await put(api, "k")
    assert (await get(api, "k", "?at_seq=0")).code == "key_not_found"
    assert (await get(api, "k", "?at_seq=1")).code == "key_not_found"
    for path in ("keys", "notes", "checkpoints"):
        answer = await api.get(f"{T}/{path}?at_seq=0")
        assert (answer.status, answer.json["items"]) == (200, [])
    assert (await api.get(f"{T}/task?at_seq=0")).code == "task_not_found"
    for path in ("working-memory", "stats"):
        assert (await api.get(f"{T}/{path}?at_seq=0")).status == 200


async def test_action_is_no_name_of_a_key(api: Client) -> None:
    """Names may hold a colon; actions stand beside the keys, not below them."""
    assert (await put(api, "a:batch")).status == 201
    assert (await get(api, "a:batch")).json["value"] == 1
    assert await list_names(api) == ["a:batch"]
