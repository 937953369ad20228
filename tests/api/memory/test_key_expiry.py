from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memoryhub.models import Project
from memoryhub.workers import expiry
from tests.api.client import Client
from tests.api.remembering import (
    CREATE_ONLY,
    NOON,
    T,
    delete,
    get,
    if_match,
    items,
    list_names,
    put,
    restore,
    still,
    take,
)

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"ttl_seconds": 1}, NOON + SECOND),
        ({"ttl_seconds": 31_536_000}, NOON + timedelta(days=365)),
        ({"expires_at": "2030-03-01T12:00:00.000001Z"}, NOON + SECOND),
        ({"expires_at": "2030-03-01T14:30:00+02:00"}, NOON + timedelta(minutes=30)),
        (
            {"expires_at": "2200-12-31T23:59:59Z"},
            datetime(2200, 12, 31, 23, 59, 59, tzinfo=UTC),
        ),
        ({"expires_at": None}, None),
        ({"ttl_seconds": None}, None),
        ({}, None),
    ],
)
async def test_expiry_is_an_instant_fixed_when_it_is_decided(
    api: Client, said: dict[str, Any], expected: datetime | None
) -> None:
    with still():
        made = await put(api, "k", **said)
        read = (await get(api, "k")).json
    assert made.json["expires_at"] == read["expires_at"]
    told = read["expires_at"]
    assert (told and datetime.fromisoformat(told)) == expected


async def test_key_can_be_set_to_never_expire(api: Client, acme: Project) -> None:
    """An explicit null beats the thread's default and the project's; 0 is refused."""
    api.connect()
    Project.objects.filter(id=acme.id).update(default_ttl_seconds=600)
    with still():
        await api.put(T, {})
        assert (await _put_for_expiry(api)) == NOON + 600 * SECOND
        assert (await _put_for_expiry(api, ttl_seconds=None)) is None
        assert (await _put_for_expiry(api, expires_at=None)) is None
        await api.patch(T, {"config": {"default_ttl_seconds": 60}})
        assert (await _put_for_expiry(api)) == NOON + 60 * SECOND
        assert (await _put_for_expiry(api, ttl_seconds=None)) is None
        assert (await _put_for_expiry(api, ttl_seconds=5)) == NOON + 5 * SECOND
        stats = (await api.get(f"{T}/stats")).json
        assert stats["default_ttl_seconds"] == 60
        await api.patch(T, {"config": {"default_ttl_seconds": None}})
        assert (await _put_for_expiry(api)) == NOON + 600 * SECOND
        assert (await api.get(f"{T}/stats")).json["default_ttl_seconds"] == 600
    for zero in (0, -1, 31_536_001):
        answer = await api.patch(T, {"config": {"default_ttl_seconds": zero}})
        assert (answer.status, answer.code) == (422, "value")


async def _put_for_expiry(api: Client, **said: Any) -> datetime | None:
    told = (await put(api, "k", **said)).json["expires_at"]
    assert (await get(api, "k")).json["expires_at"] == told
    return told and datetime.fromisoformat(told)


async def test_patch_changes_the_expiry_alone(api: Client) -> None:
    with still() as clock:
        first = (await put(api, "k", "v", ttl_seconds=60)).json["seq"]
        done = await api.patch(f"{T}/keys/k", {"ttl_seconds": 120})
        assert (done.status, done.json["seq"]) == (200, first + 1)
        assert done.json["expires_at"] == "2030-03-01T12:02:00+00:00"
        clock.shift(119)
        read = (await get(api, "k")).json
        assert (read["value"], read["seq"]) == ("v", first + 1)
        never = await api.patch(f"{T}/keys/k", {"expires_at": None})
        assert never.json["expires_at"] is None
        stale = await api.patch(
            f"{T}/keys/k", {"ttl_seconds": 1}, headers=if_match(first)
        )
        assert (stale.status, stale.code) == (409, "stale")
        seen = never.json["seq"]
        done = await api.patch(
            f"{T}/keys/k", {"ttl_seconds": 1}, headers=if_match(seen)
        )
        assert done.status == 200
        clock.shift(1)
        assert (await get(api, "k")).code == "key_not_found"
        gone = await api.patch(f"{T}/keys/k", {"ttl_seconds": 1})
        assert (gone.status, gone.code) == (404, "key_not_found")
    absent = await api.patch(f"{T}/keys/none", {"ttl_seconds": 1})
    assert (absent.status, absent.code) == (404, "key_not_found")
    assert (await api.patch("/threads/none/keys/k", {"ttl_seconds": 1})).status == 404


async def test_value_that_was_erased_says_so_and_is_no_null(
    api: Client, acme: Project
) -> None:
    """A past value is gone after its grace; a twin without expiry is still there."""
    api.connect()
    Project.objects.filter(id=acme.id).update(expired_value_grace_seconds=0)
    with still() as clock:
        await put(api, "k", "secret", ttl_seconds=60)
        await put(api, "none", None)
        here = (await api.post(f"{T}/checkpoints", {})).json["seq"]
        await delete(api, "/keys/none")
        clock.shift(60)
        api.connect()
        assert (expiry.expire(clock.now), expiry.erase(clock.now)) == (1, 1)
        gone = await get(api, "k", f"?at_seq={here}")
        assert (gone.status, gone.code) == (410, "content_erased")
        assert (await get(api, "none", f"?at_seq={here}")).json["value"] is None
        listed = await items(api, "/keys", f"?at_seq={here}&values=true")
        told = [(each["key"], each["value"], each["erased"]) for each in listed]
        assert told == [("k", None, True), ("none", None, False)]
        view = (await api.get(f"{T}/working-memory?at_seq={here}")).json
        assert view["keys"] == listed
        query = f"a=head&b={here}&at_seq={here + 1}&values=true"
        (found,) = (await api.get(f"{T}/checkpoints:compare?{query}")).json["keys"]
        assert (found["key"], found["after"]["erased"]) == ("none", False)
        assert (await get(api, "k")).code == "key_not_found"
        restored = (await api.post(f"{T}/checkpoints/{here}:restore", {})).json
        assert (restored["set"], restored["expired"]) == (1, 1)
        assert await list_names(api) == ["none"]


# Without the worker


async def _set_keys(api: Client, count: int) -> None:
    """Set so many keys, all but two of which expire a minute after noon."""
    for first in range(0, count, 200):
        some = range(first, min(first + 200, count))
        batch = [
            {"op": "set", "key": f"k{n:04}", "value": n, "ttl_seconds": 60}
            for n in some
        ]
        assert (await api.post(f"{T}/keys:batch", {"items": batch})).status == 200
    await put(api, "never", None)
    await put(api, "later", 1, ttl_seconds=61)


@pytest.mark.promise("P9", load="1,000 keys, no worker, at the instant and before it")
async def test_expired_key_is_invisible_without_a_worker(api: Client) -> None:
    """1,000 keys without a worker: all visible to the last microsecond, then none."""
    with still() as clock:
        await _set_keys(api, 1_000)
        here = await take(api)
        before = (await api.get(T)).json["seq"]
        clock.shift(60)
        clock.now -= timedelta(microseconds=1)
        expected = ["later", *(f"k{n:04}" for n in range(1_000)), "never"]
        order = sorted(expected)
        for query in ("?limit=200", "?glob=*", "?sort=bytes", "?sort=expiry"):
            assert sorted(await list_names(api, query)) == order
        assert (await get(api, "k0999")).json["value"] == 999
        assert (await api.send("HEAD", f"{T}/keys/k0000")).status == 200
        stats = (await api.get(f"{T}/stats")).json
        assert (stats["keys"], stats["expiring"]) == (1_002, 1_001)
        assert stats["next_expiry_at"] == "2030-03-01T12:01:00+00:00"
        taken = await put(api, "k0500", 1, headers=CREATE_ONLY)
        assert (taken.status, taken.code) == (409, "key_exists")
        clock.now += timedelta(microseconds=1)
        await _assert_keys_gone(api, here)
        assert (await api.get(T)).json["seq"] == before
        # Nor do they count when something is written; not even in what is told of it.
        await api.patch(T, {"config": {"max_keys": 3}})
        for key, status in (("k0003", 201), ("k0004", 409), ("k0003", 200)):
            assert (await put(api, key)).status == status
        stale = await put(api, "k0500", 1, headers=if_match(502))
        assert stale.code == "stale"
        assert (await delete(api, "/keys/k0600")).json["existed"] is False
        missing = await api.patch(f"{T}/keys/k0700", {"ttl_seconds": 60})
        assert (missing.status, missing.code) == (404, "key_not_found")
        again = (await restore(api, here)).json
        assert (again["set"], again["removed"]) == (0, 1)
        assert await list_names(api) == ["later", "never"]
        assert (await api.post(f"{T}/keys:clear", {})).json["cleared"] == 2


async def _assert_keys_gone(api: Client, here: int) -> None:
    """Assert that every reading route tells of the two remaining keys alone."""
    left = ["later", "never"]
    for query in ("", "?glob=*", "?values=true", "?sort=bytes", "?limit=1"):
        assert sorted(await list_names(api, query)) == left
    assert await list_names(api, "?sort=expiry") == left
    assert await list_names(api, "?glob=k*") == []
    for n in range(0, 1_000, 83):
        missing = await get(api, f"k{n:04}")
        assert (missing.status, missing.code) == (404, "key_not_found")
        assert (await api.send("HEAD", f"{T}/keys/k{n:04}")).status == 404
    view = (await api.get(f"{T}/working-memory")).json
    assert [each["key"] for each in view["keys"]] == left
    stats = (await api.get(f"{T}/stats")).json
    for told in (view["stats"], stats):
        assert (told["keys"], told["key_bytes"], told["expiring"]) == (2, 128, 1)
        assert told["next_expiry_at"] == "2030-03-01T12:01:01+00:00"
    compared = await api.get(f"{T}/checkpoints:compare?a={here}")
    assert compared.json["keys"] == []
    preview = (await restore(api, here, dry_run=True)).json
    assert (preview["set"], preview["removed"]) == (0, 0)
    await api.post(f"{T}:fork", {"thread": "f"})
    assert await list_names(api, thread="/threads/f") == left
    assert (await api.get("/threads/f/keys/k0001")).code == "key_not_found"
