from __future__ import annotations

import pytest

from tests.api.client import SLOT, Client
from tests.api.paged import T, act, list_ids, make
from tests.oracles.paging import LOOSE, build_prose

pytestmark = pytest.mark.django_db


async def test_page_can_be_mapped_evicted_and_pinned(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    await make(api, "a", build_prose(900), map=False)
    mapped = (await act(api, "a", "map", level=2)).json
    assert (mapped["tier"], mapped["level"], mapped["pinned"]) == ("L0", 2, False)
    pinned = (await act(api, "a", "pin")).json
    assert pinned["pinned"]
    refused = await act(api, "a", "evict")
    assert (refused.status, refused.code) == (409, "pinned")
    await act(api, "a", "unpin")
    evicted = (await act(api, "a", "evict")).json
    assert (evicted["tier"], evicted["level"]) == ("L1", None)
    assert evicted["evictions"] == ["a"]
    assert (await act(api, "a", "evict")).json["tier"] == "L2"
    assert (await act(api, "a", "reference", how="cited")).json["tier"] == "L2"


async def test_page_creation_tells_its_evictions(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    gone: list[str] = []
    for n in range(6):
        gone += (await make(api, f"p{n}", build_prose(1_000))).json["evictions"]
    assert gone
    assert set(await list_ids(api, "?tier=L1")) == set(gone)


async def test_fault_says_what_it_did_and_what_is_left(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    for n in range(4):
        await make(api, f"p{n}", build_prose(900), map=False)
    named = [("idempotency-key", "k")]
    path = f"{T}/pages/p0/fault"
    first = await api.post(path, {"reason": "user_requested_recall"}, headers=named)
    assert first.json["page"]["level"] == 2
    assert first.json["effects"]["promoted_to_working_set"]
    assert first.json["effects"]["faults_left"] == 2
    again = await api.post(path, {"reason": "user_requested_recall"}, headers=named)
    assert again.json == first.json
    assert again.header("idempotent-replayed") == "true"
    await act(api, "p1", "fault")
    await act(api, "p2", "fault", level=3)
    refused = await act(api, "p3", "fault")
    assert (refused.status, refused.code) == (429, "fault_budget")
    assert refused.json["renews"] == "next_exchange"
    assert refused.header("retry-after") is None
    assert (refused.json["faults_left"], refused.json["cheaper_levels"]) == (0, [])
    await api.post(f"{T}/turns", {"items": [SLOT]})
    assert (await act(api, "p3", "fault")).status == 200


async def test_fault_beyond_the_tokens_names_what_would_fit(api: Client) -> None:
    await api.put(T, {"config": {**LOOSE, "max_fault_tokens_per_turn": 300}})
    await make(api, "a", build_prose(1_200), map=False)
    refused = await act(api, "a", "fault", level=0)
    assert refused.status == 429
    assert refused.json["fault_tokens_left"] == 300
    assert refused.json["tokens"] > 300
    assert refused.json["cheaper_levels"] == [3, 2]
    served = (await act(api, "a", "fault", level=2)).json
    assert served["effects"]["fault_tokens_left"] == (
        300 - served["effects"]["tokens_est"]
    )
