from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import PAGE, SLOT, Client
from tests.oracles.paging import LOOSE, build_prose

pytestmark = pytest.mark.django_db

T = "/threads/t-1"


async def make(api: Client, page_id: str, tokens: int = 900, **fields: Any) -> None:
    body = {
        **PAGE,
        "page_id": page_id,
        "content": {"text": build_prose(tokens)},
        **fields,
    }
    assert (await api.post(f"{T}/pages", body)).status == 201


async def get(api: Client, path: str) -> Any:
    answer = await api.get(f"{T}{path}")
    assert answer.status == 200, answer.body
    return answer.json


async def test_frame_says_why_it_stays(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    await make(api, "a")
    await make(api, "b", type="claim", importance=1)
    await api.post(f"{T}/pages/a/pin", {})
    found = await get(api, "/working-set")
    a, b = found["frames"]
    assert (a["page_id"], a["rule"], a["rank"]) == ("a", "explicit", None)
    assert (b["page_id"], b["rule"], b["rank"]) == ("b", None, 1)
    for frame in (a, b):
        assert abs(sum(t["adds"] for t in frame["terms"]) - frame["score"]) < 1e-9
        assert frame["cause"] == "page.created"
    budget = found["budget"]
    assert budget["used_tokens"] == a["tokens"] + b["tokens"]
    assert budget["explicit_tokens"] == a["tokens"]
    assert budget["usable_tokens"] == 3_600
    before = await get(api, f"/working-set?at_seq={b['cause_seq'] - 1}")
    assert [frame["page_id"] for frame in before["frames"]] == ["a"]


async def test_frame_due_in_the_next_request_has_no_rank(api: Client) -> None:
    """No eviction run takes the user's newest message, though no rule pins it."""
    await api.put(T, {"config": {**LOOSE, "pin_share": 0}})
    await make(api, "a")
    await api.append("t-1", {"role": "user", "content": "hello"})
    a, asked = (await get(api, "/working-set"))["frames"]
    assert (a["rule"], a["rank"]) == (None, 1)
    assert (asked["page_id"], asked["rule"], asked["rank"]) == ("slot-0", None, None)


async def test_tlb_tells_its_entries_and_is_dropped_on_request(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    empty = await get(api, "/tlb")
    assert (empty["hit_rate"], empty["items"]) == (None, [])
    for name in "abc":
        await make(api, name, 100, map=name != "c")
    await api.post(f"{T}/pages/a/pin", {})
    held = await get(api, "/tlb")
    assert [entry["page_id"] for entry in held["items"]] == ["a", "c", "b"]
    assert (held["hits"], held["misses"], held["hit_rate"]) == (1, 0, 1.0)
    used = {"size": 512, "held": 3, "use": 3 / 512}
    assert {name: held[name] for name in used} == used
    assert (await get(api, "/paging"))["tlb"] == used
    dropped = await api.post(f"{T}/tlb:invalidate", {"tier": "L1"})
    assert dropped.json["dropped"] == 1
    assert (await api.post(f"{T}/tlb:invalidate", {"page_id": "b"})).json[
        "dropped"
    ] == 1
    assert (await api.post(f"{T}/tlb:flush", {})).json["dropped"] == 1
    assert (await get(api, "/tlb"))["items"] == []
    await api.post(f"{T}/pages/a/reference", {})
    after = await get(api, "/tlb")
    assert (after["hits"], after["misses"]) == (1, 1)
    await api.patch(T, {"config": {"tlb_entries": 0}})
    none = (await get(api, "/paging"))["tlb"]
    assert none == {"size": 0, "held": 0, "use": None}


async def test_metrics_are_counted_in_total_and_by_turn(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    nothing = await get(api, "/paging")
    assert nothing["total"]["hit_rate"] is None
    assert nothing["total"]["fault_rate"] is None
    assert (nothing["exchanges"], nothing["resident_rate"]) == (0, None)
    await make(api, "a", map=False)
    for n in range(2):
        await api.post(f"{T}/turns", {"items": [SLOT]})
        await api.post(f"{T}/pages/a/fault", {"level": 2 - n})
        await api.post(f"{T}/pages/a/reference", {})
    found = await get(api, "/paging")
    assert found["total"]["faults"] == 2
    assert found["total"]["faults_by_reason"] == {"resolve_reference": 2}
    assert found["total"]["faults_by_tier"] == {"L0": 1, "L1": 1}
    assert found["total"]["fault_rate"] == 0.5
    assert found["this_turn"]["faults"] == 1
    assert [line["turn"] for line in found["turns"]] == [1]
    assert found["turns"][0]["counts"]["faults"] == 1
    assert found["verdict"] == {"thrashing": False, "reasons": [], "pages": []}
    # Either exchange fetched a page.
    assert (found["exchanges"], found["resident_rate"]) == (2, 0.0)
    assert found["resident_rate_in_all"] == 0.0


async def test_thrashing_is_told_with_its_pages(api: Client) -> None:
    config = {**LOOSE, "max_faults_per_turn": 100}
    await api.put(T, {"config": config})
    await make(api, "a", 300, map=False)
    for _ in range(4):
        await api.post(f"{T}/pages/a/fault", {})
        await api.post(f"{T}/pages/a/evict", {})
    found = await get(api, "/paging")
    assert found["thrash_index"] >= 0.5
    assert found["verdict"]["thrashing"]
    assert "refaults" in found["verdict"]["reasons"]
    assert found["verdict"]["pages"] == ["a"]


async def test_manifest_has_every_frame_and_what_can_be_fetched(
    api: Client,
) -> None:
    await api.put(T, {"config": LOOSE})
    await make(api, "a", 300)
    await make(api, "b", 300, map=False, hint="about fares")
    found = await get(api, "/manifest")
    assert [frame["page_id"] for frame in found["working_set"]] == ["a"]
    (offered,) = found["available_pages"]
    assert offered == {
        "page_id": "b",
        "modality": "text",
        "tier": "L1",
        "levels": [0, 1, 2, 3],
        "hint": "about fares",
    }
    assert found["policies"]["faults_left"] == 3
    assert (found["mapped"], found["omitted"]) == (1, 0)


async def test_working_set_mutations_can_be_filtered(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    await make(api, "a", 300)
    await api.append("t-1", "hello")
    await api.post(f"{T}/turns", {})
    await api.patch(f"{T}/pages/a", {"importance": 0.9, "by": "user"})
    await api.post(f"{T}/pages/a/evict", {})
    await api.post(f"{T}/pages/a/fault", {"by": "model"})

    async def list_mutations(query: str = "") -> list[tuple[str, str]]:
        items = (await get(api, f"/mutations{query}"))["items"]
        return [(item["type"], item["page_id"]) for item in items]

    everything = [
        ("create", "a"),
        ("create", "slot-0"),
        ("update", "a"),
        ("evict", "a"),
        ("fault_in", "a"),
    ]
    assert await list_mutations() == everything
    assert await list_mutations("?by=user") == [("update", "a")]
    assert await list_mutations("?by=model") == [("fault_in", "a")]
    assert await list_mutations("?type=create&page_id=slot-0") == [("create", "slot-0")]
    assert await list_mutations("?turn=0") == everything[:2]
    assert await list_mutations("?turn=1&type=evict") == [("evict", "a")]
    assert await list_mutations("?turn=9") == []
    assert await list_mutations("?at_seq=2") == everything[:1]
    first = await get(api, "/mutations?limit=3")
    rest = await get(api, f"/mutations?limit=3&after={first['next']}")
    assert len(first["items"]) == 3
    assert [item["type"] for item in rest["items"]] == ["evict", "fault_in"]


async def test_budget_follows_the_settings(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    for n in range(3):
        await make(api, f"p{n}", 900)
    used = (await get(api, "/working-set"))["budget"]["used_tokens"]
    done = await api.patch(T, {"config": {"budget_tokens": 2_400, "policy": "lru"}})
    assert done.json["config"]["budget_tokens"] == 2_400
    found = await get(api, "/working-set")
    assert found["budget"]["usable_tokens"] == 1_600
    assert found["budget"]["used_tokens"] <= min(1_600, used)
    assert {term["name"]: term["adds"] for term in found["frames"][0]["terms"]}[
        "value"
    ] == 0
    back = await api.patch(T, {"config": {"budget_tokens": None}})
    assert back.json["config"]["budget_tokens"] == 128_000
