from __future__ import annotations

import pytest

from tests.api.client import Client
from tests.api.remembering import (
    T,
    compare,
    delete,
    note,
    put,
    still,
    take,
)

pytestmark = pytest.mark.django_db


async def test_comparison_says_how_each_key_differs(api: Client) -> None:
    with still():
        for key, value in (
            ("same", 1),
            ("twice", [1]),
            ("other", "abc"),
            ("gone", 1),
        ):
            await put(api, key, value)
        await put(api, "timed", "v", ttl_seconds=60)
        a = await take(api, "a")
        await put(api, "twice", [1])
        await put(api, "other", "abd")
        await put(api, "new", None)
        await delete(api, "/keys/gone")
        await api.patch(f"{T}/keys/timed", {"ttl_seconds": 90})
        await put(api, "brief", 1)
        await delete(api, "/keys/brief")
        b = await take(api, "b")
        found = await compare(api, f"a={a}&b=b&values=true")
        kinds = [(each["key"], each["kind"]) for each in found["keys"]]
        assert kinds == [
            ("gone", "removed"),
            ("new", "added"),
            ("other", "changed"),
            ("timed", "retimed"),
            ("twice", "rewritten"),
        ]
        gone, new, other, timed, twice = found["keys"]
        assert (gone["before"]["value"], gone["after"]) == (1, None)
        assert (new["before"], new["after"]["value"]) == (None, None)
        assert new["after"]["erased"] is False
        assert (other["before"]["value"], other["after"]["value"]) == ("abc", "abd")
        assert timed["before"]["expires_at"] == "2030-03-01T12:01:00+00:00"
        assert timed["after"]["expires_at"] == "2030-03-01T12:01:30+00:00"
        assert twice["before"]["seq"] < twice["after"]["seq"]
        back = await compare(api, "a=b&b=a")
        assert [each["kind"] for each in back["keys"]] == [
            "added",
            "removed",
            "changed",
            "retimed",
            "rewritten",
        ]
        assert back["keys"][0]["after"]["value"] is None
        bare = await compare(api, f"a={a}&b={b}")
        assert [(each["key"], each["kind"]) for each in bare["keys"]] == kinds
        assert (await compare(api, "a=b"))["keys"] == []
        assert (await compare(api, "a=a"))["keys"] == bare["keys"]


async def test_comparison_shows_tasks_and_notes(api: Client) -> None:
    none = await take(api)
    await api.put(f"{T}/task", {"description": "x"})
    first = await note(api)
    some = await take(api)
    await api.patch(f"{T}/task", {"status": "running", "current_step": 2})
    second = await note(api)
    found = await compare(api, f"a={some}")
    assert (found["task"], found["notes_added"]) == (
        ["status", "current_step"],
        [second],
    )
    found = await compare(api, f"a={none}&b={some}")
    assert (found["task"], found["notes_added"]) == (["task"], [first])
    found = await compare(api, f"a=head&b={none}")
    assert (found["task"], found["notes_removed"]) == (["task"], [first, second])


async def test_comparison_goes_on_at_one_instant(api: Client) -> None:
    here = await take(api)
    for n in range(5):
        await put(api, f"k{n}")
    query = f"a={here}&limit=2"
    whole = (await compare(api, f"a={here}"))["keys"]
    part = await compare(api, query)
    found = part["keys"]
    await delete(api, "/keys/k4")
    await put(api, "k5")
    while part["next"]:
        part = await compare(api, f"{query}&after={part['next']}")
        found += part["keys"]
    assert found == whole
    assert len(whole) == 5
    other = await api.get(f"{T}/checkpoints:compare?a=head&after={'x' * 20}")
    assert (other.status, other.code) == (400, "bad_cursor")


async def test_comparison_shows_no_key_that_has_expired(api: Client) -> None:
    with still() as clock:
        await put(api, "k", ttl_seconds=60)
        here = await take(api)
        await put(api, "k", 2, ttl_seconds=60)
        clock.shift(60)
        assert (await compare(api, f"a={here}"))["keys"] == []
