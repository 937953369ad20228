"""Items of a subject over HTTP: put, get, delete; lists by namespace and by members."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.models.subjects import Subject
from tests.api.client import Answer, Client
from tests.api.remembering import items, still

pytestmark = pytest.mark.django_db

PLACES = {
    "trips": ["plan"],
    "trips:oslo": ["hotel", "seat"],
    "trips:oslo:day.1": ["walk"],
    "tripsy": ["x"],
}


@pytest.fixture
def root(ann: Subject) -> str:
    return f"/subjects/{ann.id}"


async def put(
    api: Client, root: str, where: str, value: Any = 1, **body: Any
) -> Answer:
    headers = body.pop("headers", ())
    return await api.put(
        f"{root}/items/{where}", {"value": value, **body}, headers=headers
    )


async def fill(api: Client, root: str) -> None:
    for namespace, keys in PLACES.items():
        for key in keys:
            assert (await put(api, root, f"{namespace}/{key}", len(key))).status == 201


async def list_names(api: Client, root: str, query: str = "") -> list[str]:
    found = await items(api, "/items", query, thread=root)
    return [f"{each['namespace']}/{each['key']}" for each in found]


async def search(api: Client, root: str, **body: Any) -> tuple[list[str], int]:
    """Return the keys that are found, and the number of parts."""
    found, parts = list[str](), 0
    while parts == 0 or body["after"]:
        answer = await api.post(f"{root}/items:search", body)
        assert answer.status == 200, answer.body
        found += [each["key"] for each in answer.json["items"]]
        parts, body["after"] = parts + 1, answer.json["next"]
    return found, parts


async def test_item_is_put_read_and_deleted(api: Client, root: str) -> None:
    where = f"{root}/items/trips:oslo/seat"
    assert (await api.get(where)).code == "key_not_found"
    gone = await api.send("DELETE", where)
    assert gone.json == {"existed": False, "seq": None}
    for value, status in (({"row": 12}, 201), (None, 200)):
        answer = await put(api, root, "trips:oslo/seat", value)
        assert answer.status == status, answer.body
        assert answer.json["thread"] == f"mh.home.{root.removeprefix('/subjects/')}"
        item = (await api.get(where)).json
        assert (item["namespace"], item["key"]) == ("trips:oslo", "seat")
        assert (item["value"], item["seq"]) == (value, answer.json["seq"])
    stale = await put(api, root, "trips:oslo/seat", headers=[("if-match", "2")])
    assert (stale.status, stale.code) == (409, "stale")
    taken = await put(api, root, "trips:oslo/seat", headers=[("if-none-match", "*")])
    assert (taken.status, taken.code) == (409, "key_exists")
    was = (await api.get(f"{where}?at_seq=2")).json
    assert was["value"] == {"row": 12}
    assert (await api.send("DELETE", where)).json["existed"] is True
    assert (await api.get(where)).code == "key_not_found"


async def test_items_are_listed_in_and_below_a_namespace(
    api: Client, root: str
) -> None:
    assert await list_names(api, root) == []
    await fill(api, root)
    below = ["trips:oslo:day.1/walk", "trips:oslo/hotel", "trips:oslo/seat"]
    for query, expected in (
        ("", sorted_names()),
        ("?namespace=trips:oslo", below),
        ("?namespace=trips:oslo&limit=1", below),
        ("?namespace=trips:os", []),
        ("?at_seq=2", ["trips/plan"]),
    ):
        assert await list_names(api, root, query) == expected, query


def sorted_names() -> list[str]:
    found = [
        (f"{place}:{key}", place, key) for place in PLACES for key in PLACES[place]
    ]
    return [f"{place}/{key}" for _, place, key in sorted(found)]


async def test_namespaces_are_listed_below_a_namespace_to_a_depth(
    api: Client, root: str
) -> None:
    assert await items(api, "/namespaces", thread=root) == []
    await fill(api, root)
    everything = [("trips", 1), ("trips:oslo", 2), ("trips:oslo:day.1", 1)]
    for query, expected in (
        ("", [*everything, ("tripsy", 1)]),
        ("?limit=1", [*everything, ("tripsy", 1)]),
        ("?namespace=trips", everything),
        ("?namespace=trips&depth=2", [("trips", 1), ("trips:oslo", 3)]),
        ("?depth=1&limit=1", [("trips", 4), ("tripsy", 1)]),
        ("?namespace=trips:oslo&at_seq=2", []),
    ):
        found = await items(api, "/namespaces", query, thread=root)
        assert [(each["namespace"], each["count"]) for each in found] == expected, query


async def test_items_are_searched_by_members_in_bounded_parts(
    api: Client, root: str
) -> None:
    for row in range(6):
        value = {"row": row, "letter": "AB"[row % 2]}
        await put(api, root, f"seats/{row}", value)
    await put(api, root, "other/text", "12A")
    high: dict[str, Any] = {"member": "row", "op": "gte", "value": 4}
    letter = {"member": "letter", "value": "B"}
    assert await search(api, root, where=[high]) == (["4", "5"], 1)
    assert await search(api, root, where=[high, letter], limit=2) == (["5"], 4)
    assert await search(api, root, where=[letter], namespace="other") == ([], 1)
    part = {"where": [high], "limit": 2}
    cursor = (await api.post(f"{root}/items:search", part)).json["next"]
    other = {"where": [letter], "limit": 2, "after": cursor}
    assert (await api.post(f"{root}/items:search", other)).code == "bad_cursor"


async def test_expired_item_is_in_no_answer(api: Client, root: str) -> None:
    with still() as hands:
        await put(api, root, "trips/hold", ttl_seconds=60)
        assert await list_names(api, root) == ["trips/hold"]
        hands.shift(61)
        assert await list_names(api, root) == []
        assert await items(api, "/namespaces", thread=root) == []
        gone = await api.get(f"{root}/items/trips/hold")
        assert (gone.status, gone.code) == (404, "key_not_found")


async def test_items_of_others_are_not_found(
    api: Client, foreign: Client, root: str
) -> None:
    await fill(api, root)
    for method, path, body in (
        ("PUT", "/items/trips/plan", {"value": 1}),
        ("GET", "/items/trips/plan", None),
        ("DELETE", "/items/trips/plan", None),
        ("GET", "/items", None),
        ("POST", "/items:search", {}),
        ("GET", "/namespaces", None),
    ):
        answer = await foreign.send(method, root + path, body)
        assert (answer.status, answer.code) == (404, "not_found"), path


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/items/trips/a:b", {"value": 1}),
        ("PUT", "/items/trips::oslo/a", {"value": 1}),
        ("PUT", "/items/mh.x/a", {"value": 1}),
        ("PUT", f"/items/{'n' * 127}/a", {"value": 1}),
        ("PUT", f"/items/{'n' * 126}/ab", {"value": 1}),
        ("PUT", "/items/trips/a%0A", {"value": 1}),
        ("PUT", "/items/trips/a", {}),
        ("PUT", "/items/trips/a", {"value": 1, "ttl_seconds": 0}),
        ("GET", "/items?namespace=trips:", None),
        ("GET", "/namespaces?depth=0", None),
        ("POST", "/items:search", {"where": [{"member": "m", "op": "in", "value": 1}]}),
        ("POST", "/items:search", {"where": [{"member": "m"}]}),
        ("POST", "/items:search", {"where": [{"member": "m", "value": 1}] * 9}),
    ],
)
async def test_bad_item_requests_are_refused(
    api: Client, root: str, method: str, path: str, body: Any
) -> None:
    answer = await api.send(method, root + path, body)
    assert answer.status == 422, answer.body
