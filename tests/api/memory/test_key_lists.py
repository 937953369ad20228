from __future__ import annotations

import pytest

from tests.api.client import Client
from tests.api.remembering import (
    T,
    delete,
    items,
    list_names,
    put,
    still,
)

pytestmark = pytest.mark.django_db


async def _some(api: Client) -> None:
    for key, value in (("b", "x" * 80), ("B", 1), ("a.1", "x" * 199), ("a:2", 2)):
        await put(api, key, value)


async def test_keys_are_listed_by_name_bytewise(api: Client) -> None:
    await _some(api)
    assert await list_names(api) == ["B", "a.1", "a:2", "b"]
    assert await list_names(api, "?limit=1") == ["B", "a.1", "a:2", "b"]
    (first, *_) = await items(api, "/keys")
    assert first.keys() == {"key", "seq", "set_at", "expires_at", "bytes"}


async def test_keys_are_listed_by_size_and_by_expiry(api: Client) -> None:
    await _some(api)
    for query in ("?sort=bytes", "?sort=bytes&limit=1", "?sort=bytes&limit=3"):
        assert await list_names(api, query) == ["a.1", "b", "B", "a:2"]
    with still():
        for key, seconds in (("b", 90), ("a:2", 60), ("later", 86_400), ("half", 60)):
            await put(api, key, ttl_seconds=seconds)
        await put(api, "soon", expires_at="2030-03-01T12:00:58.5Z")
        expected = ["soon", "a:2", "half", "b", "later", "B", "a.1"]
        for query in ("?sort=expiry", "?sort=expiry&limit=1", "?sort=expiry&limit=2"):
            assert await list_names(api, query) == expected


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*", ["a", "aB", "ab", "abc", "b-1"]),
        ("**", ["a", "aB", "ab", "abc", "b-1"]),
        ("a", ["a"]),
        ("a*", ["a", "aB", "ab", "abc"]),
        ("*b*", ["ab", "abc", "b-1"]),
        ("a?", ["aB", "ab"]),
        ("a[bx]", ["ab"]),
        ("a[a-c]", ["ab"]),
        ("a[A-Z]", ["aB"]),
        ("a[!b]", ["aB"]),
        ("?-[0-9]", ["b-1"]),
        ("b[-]1", ["b-1"]),
        ("ab*c", ["abc"]),
        ("A*", []),
        ("[", []),
        ("[!a", []),
        ("", []),
        ("é*", []),
        ("*" * 8, ["a", "aB", "ab", "abc", "b-1"]),
    ],
)
async def test_glob_is_anchored_and_minds_case(
    api: Client, glob: str, found: list[str]
) -> None:
    for key in ("ab", "abc", "aB", "b-1", "a"):
        await put(api, key)
    quoted = glob.encode().hex("%")
    query = f"?glob=%{quoted}" if glob else "?glob="
    assert await list_names(api, query) == found


@pytest.mark.parametrize("sort", ["name", "expiry", "bytes"])
async def test_long_list_shows_one_instant(api: Client, sort: str) -> None:
    """Events between the parts of a list, and time, do not change the list."""
    with still() as clock:
        for n in range(6):
            await put(api, f"k{n}", n, ttl_seconds=60 + n)
        query = f"?sort={sort}&limit=2&values=true"
        before = await items(api, "/keys", query)
        part = (await api.get(f"{T}/keys{query}")).json
        found = part["items"]
        for n, moment in enumerate((0, 100)):
            clock.shift(moment)
            await put(api, "k0a", "new")
            await put(api, f"k{3 + n}", "other")
            await delete(api, "/keys/k5")
            part = (await api.get(f"{T}/keys{query}&after={part['next']}")).json
            found += part["items"]
        assert part["next"] is None
        assert found == before
        assert await list_names(api) == ["k0a", "k3", "k4"]


async def test_part_of_a_list_carries_at_most_4_mib_of_values(api: Client) -> None:
    for n in range(18):
        await put(api, f"k{n:02}", "x" * 250_000)
    part = (await api.get(f"{T}/keys?values=true")).json
    assert [item["key"] for item in part["items"]] == [f"k{n:02}" for n in range(16)]
    rest = (await api.get(f"{T}/keys?values=true&after={part['next']}")).json
    assert [item["key"] for item in rest["items"]] == ["k16", "k17"]
    assert len((await api.get(f"{T}/keys")).json["items"]) == 18
    view = (await api.get(f"{T}/working-memory")).json
    assert (len(view["keys"]), view["stats"]["keys"]) == (16, 18)


async def test_cursor_serves_its_own_list_only(api: Client) -> None:
    for thread in ("t-1", "t-2"):
        for key in ("a", "b"):
            await api.put(f"/threads/{thread}/keys/{key}", {"value": 1})
    after = (await api.get(f"{T}/keys?limit=1")).json["next"]
    assert await list_names(api, f"?after={after}") == ["b"]
    for target in (
        f"{T}/keys?sort=bytes&after={after}",
        f"{T}/keys?values=true&after={after}",
        f"{T}/keys?glob=b&after={after}",
        f"{T}/keys?at_seq=3&after={after}",
        f"{T}/notes?after={after}",
        f"{T}/checkpoints?after={after}",
        f"/threads/t-2/keys?after={after}",
        f"{T}/keys?after={after[:-1]}",
    ):
        answer = await api.get(target)
        assert (answer.status, answer.code) == (400, "bad_cursor")
