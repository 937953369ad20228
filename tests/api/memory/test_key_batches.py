from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.remembering import (
    T,
    get,
    if_match,
    list_names,
    put,
    still,
)

pytestmark = pytest.mark.django_db


async def test_batch_sets_and_deletes_at_once(api: Client) -> None:
    seen = (await put(api, "a", 1)).json["seq"]
    await put(api, "b", 1)
    with still():
        done = await api.post(
            f"{T}/keys:batch",
            {
                "items": [
                    {"op": "set", "key": "a", "value": 2, "if_match": seen},
                    {"op": "delete", "key": "b"},
                    {"op": "delete", "key": "none"},
                    {"op": "set", "key": "c", "value": None, "ttl_seconds": 60},
                ]
            },
        )
    assert done.status == 200
    told = [(each["key"], each["seq"], each["existed"]) for each in done.json["items"]]
    assert told == [
        ("a", 4, None),
        ("b", 5, True),
        ("none", None, False),
        ("c", 6, None),
    ]
    assert done.json["items"][3]["expires_at"].endswith("12:01:00+00:00")
    assert (await get(api, "a")).json["value"] == 2


async def test_batch_takes_a_checkpoint_of_its_result(api: Client) -> None:
    sent = {
        "items": [{"op": "set", "key": "a", "value": 1}],
        "checkpoint": {"name": "now", "description": "Seat held."},
    }
    done = await api.post(f"{T}/keys:batch", sent)
    seq = done.json["checkpoint"]
    assert seq == done.json["items"][0]["seq"] + 1
    taken = (await api.get(f"{T}/checkpoints/now")).json
    assert (taken["seq"], taken["keys"]) == (seq, 1)
    assert taken["description"] == "Seat held."
    refused = await api.post(f"{T}/keys:batch", sent)
    assert (refused.status, refused.code) == (409, "name_taken")
    assert (await api.get(T)).json["seq"] == seq


@pytest.mark.parametrize(
    ("item", "status", "code", "loc"),
    [
        ({"if_match": 99}, 409, "stale", []),
        ({"if_none_match": "*"}, 409, "key_exists", []),
        ({"expires_at": "2020-01-01T00:00:00Z"}, 422, "expiry_in_past", ["expires_at"]),
        ({"value": "x" * 262_143}, 413, "value_too_large", []),
        ({"value": "x" * 3_000}, 409, "keys_full", []),
    ],
)
async def test_batch_is_refused_as_a_whole_and_says_by_which_item(
    api: Client, item: dict[str, Any], status: int, code: str, loc: list[str]
) -> None:
    await api.put(T, {"config": {"max_key_bytes": 2_048}})
    await put(api, "k")
    items: list[dict[str, Any]] = [
        {"op": "set", "key": "a", "value": 1},
        {"op": "delete", "key": "b"},
        {"op": "set", "key": "k", "value": 1, **item},
    ]
    for index in (2, 0):
        sent = [items[2]] if index == 0 else items
        refused = await api.post(f"{T}/keys:batch", {"items": sent})
        assert (refused.status, refused.code) == (status, code)
        # The refusal names the limit that was passed.
        named = [
            "max_key" in refused.json["detail"],
            "max_keys:" in refused.json["detail"],
        ]
        assert named == [code == "keys_full", False]
        assert refused.json["errors"] == [{"loc": ["items", index, *loc], "code": code}]
    assert await list_names(api) == ["k"]
    assert (await api.get(T)).json["seq"] == 2


async def test_refusal_of_one_key_names_no_item(api: Client) -> None:
    await put(api, "k")
    refused = await put(api, "k", headers=if_match(99))
    assert refused.json["errors"] == []
    assert "index" not in refused.json["detail"]


async def test_full_key_batch_is_applied_in_order(api: Client) -> None:
    items = [{"op": "set", "key": f"k{n}", "value": n} for n in range(200)]
    done = await api.post(f"{T}/keys:batch", {"items": items})
    assert [each["seq"] for each in done.json["items"]] == list(range(2, 202))
