from __future__ import annotations

from typing import Any

import pytest

from memoryhub.models import Event
from memoryhub.services.api_keys import Agent
from tests import factories
from tests.api.client import SLOT, Answer, Client
from tests.paging import prose

pytestmark = pytest.mark.django_db

PAGE = {"type": "artifact", "modality": "text", "content": {"text": "Fares."}}
T = "/threads/t-1"
#: Nothing but what is asked for is pinned.
LOOSE = {
    "budget_tokens": 4_400,
    "reserved_tokens": 800,
    "auto_pin_turns": 0,
    "auto_pin_claims": False,
}


async def make(api: Client, page_id: str, text: str = "Fares.", **said: Any) -> Answer:
    body = {**PAGE, "page_id": page_id, "content": {"text": text}, **said}
    return await api.post(f"{T}/pages", body)


async def act(api: Client, page_id: str, verb: str, **said: Any) -> Answer:
    return await api.post(f"{T}/pages/{page_id}/{verb}", said)


async def ids(api: Client, query: str = "") -> list[str]:
    items = (await api.get(f"{T}/pages{query}")).json["items"]
    return [item["page_id"] for item in items]


async def test_a_page_that_is_made_reads_back(api: Client) -> None:
    said = {"hint": "fare rules", "importance": 0.7, "meta": {"mime_type": "a/b"}}
    made = await make(api, "rules", "Class Q may change once.", **said)
    assert made.status == 201
    assert (made.json["seq"], made.json["version"], made.json["mapped"]) == (2, 1, True)
    read = (await api.get(f"{T}/pages/rules")).json
    assert read["page"]["content"] == {"text": "Class Q may change once."}
    assert read["page"]["meta"]["mime_type"] == "a/b"
    assert (read["hint"], read["importance"]) == ("fare rules", 0.7)
    assert (read["tier"], read["level"], read["pinned"]) == ("L0", 0, "recent")


async def test_an_id_is_made_and_a_repeat_answers_the_same(api: Client) -> None:
    named = [("idempotency-key", "k")]
    first = await api.post(f"{T}/pages", PAGE, headers=named)
    again = await api.post(f"{T}/pages", PAGE, headers=named)
    assert first.json["page_id"].startswith("page-")
    assert again.json == first.json
    assert again.header("idempotent-replayed") == "true"
    assert await ids(api) == [first.json["page_id"]]


@pytest.mark.parametrize(
    ("modality", "content"),
    [
        ("text", {"text": "Ä \u2028 <VM:LOG>"}),
        ("image", {"caption": "A map", "embedding": [0.5, -1.0, 2]}),
        ("image", {"base64": "aGk="}),
        (
            "audio",
            {
                "transcript": "hello",
                "timestamps": [{"at_seconds": 0.5, "text": "hello"}],
                "duration_seconds": 61,
            },
        ),
        ("video", {"scenes": [{"at_seconds": 1, "caption": "A door"}], "topic": "x"}),
        ("structured", {"data": [1, None, {"b": 1, "a": 2}], "schema_name": "s"}),
        ("structured", {"data": None}),
        ("structured", {"data": "only a text"}),
    ],
)
async def test_any_content_comes_back_as_it_was_sent(
    api: Client, modality: str, content: dict[str, Any]
) -> None:
    body = {**PAGE, "page_id": "p", "modality": modality, "content": content}
    assert (await api.post(f"{T}/pages", body)).status == 201
    page = (await api.get(f"{T}/pages/p")).json["page"]
    assert page["content"] == content
    assert list(page["content"]) == list(content)
    assert page["meta"]["duration_seconds"] == content.get("duration_seconds")
    assert (await act(api, "p", "map", level=0)).status == 200
    for level in (1, 2, 3):
        read = (await api.get(f"{T}/pages/p?level={level}")).json["page"]
        assert read["level"] <= level


async def test_a_batch_may_name_what_it_makes_itself(api: Client) -> None:
    items = [
        {**PAGE, "page_id": "a"},
        {**PAGE, "page_id": "b", "provenance": ["a"], "type": "claim"},
    ]
    made = await api.post(f"{T}/pages:batch", {"items": items})
    assert [item["page_id"] for item in made.json["items"]] == ["a", "b"]
    assert (await api.get(f"{T}/pages/b")).json["provenance"] == ["a"]
    refused = await api.post(f"{T}/pages:batch", {"items": items})
    assert (refused.status, refused.code) == (409, "name_taken")


async def test_a_put_makes_a_page_and_then_versions_of_it(api: Client) -> None:
    first = await api.put(f"{T}/pages/rules", PAGE)
    second = await api.put(f"{T}/pages/rules", {**PAGE, "content": {"text": "New."}})
    assert (first.status, second.status) == (201, 200)
    assert (first.json["version"], second.json["version"]) == (1, 2)
    old = f"{T}/pages/rules?at_seq={first.json['seq']}"
    assert (await api.get(old)).json["page"]["content"] == {"text": "Fares."}
    now = (await api.get(f"{T}/pages/rules")).json
    assert (now["version"], now["page"]["content"]) == (2, {"text": "New."})


async def test_a_patch_minds_if_match_and_the_modality(api: Client) -> None:
    await make(api, "rules")
    seen = [("if-match", "1")]
    stale = await api.patch(f"{T}/pages/rules", {"importance": 1}, headers=seen)
    assert (stale.status, stale.code) == (409, "stale")
    wrong = await api.patch(f"{T}/pages/rules", {"content": {"caption": "x"}})
    assert (wrong.status, wrong.json["errors"]) == (
        422,
        [{"loc": ["content"], "code": "value"}],
    )
    done = await api.patch(f"{T}/pages/rules", {"content": {"text": "Newer."}})
    assert (done.status, done.json["version"], done.json["mapped"]) == (200, 2, True)


async def test_a_deleted_page_is_gone_for_good(api: Client) -> None:
    made = await make(api, "rules")
    gone = await api.send("DELETE", f"{T}/pages/rules")
    assert (gone.status, gone.json["page_id"]) == (200, "rules")
    for answer in (
        await api.get(f"{T}/pages/rules"),
        await act(api, "rules", "map"),
        await act(api, "rules", "fault"),
        await make(api, "rules"),
    ):
        assert (answer.status, answer.code) == (410, "page_erased")
    assert await ids(api) == []
    assert await ids(api, f"?at_seq={made.json['seq']}") == ["rules"]
    then = await api.get(f"{T}/pages/rules?at_seq={made.json['seq']}")
    assert (then.status, then.code) == (410, "page_erased")
    history = (await api.get(f"{T}/pages/rules/history")).json["items"]
    assert [item["event"] for item in history][-1] == "fault.refused"
    assert "page.deleted" in [item["event"] for item in history]


async def test_the_system_prompt_has_a_route_of_its_own(api: Client) -> None:
    made = await api.put(f"{T}/system-prompt", {"text": "Be brief."})
    again = await api.put(f"{T}/system-prompt", {"text": "Be exact."})
    assert (made.status, again.status) == (201, 200)
    read = (await api.get(f"{T}/pages/system-prompt")).json
    assert (read["type"], read["pinned"], read["version"]) == ("procedure", "system", 2)
    gone = await api.send("DELETE", f"{T}/pages/system-prompt")
    assert (gone.status, gone.code) == (422, "reserved_id")


async def test_a_slot_is_a_page(api: Client) -> None:
    made = (await api.append("t-1", {"role": "user", "content": "Is 12A free?"}))[0]
    assert (made.json["page_id"], made.json["mapped"]) == ("slot-0", True)
    read = (await api.get(f"{T}/pages/slot-0")).json
    assert read["page"]["content"] == {"text": "Is 12A free?"}
    assert (read["role"], read["slot"], read["importance"]) == ("user", 0, 0.6)
    assert (await api.send("DELETE", f"{T}/pages/slot-0")).code == "derived_page"
    patched = await api.patch(f"{T}/pages/slot-0", {"content": {"text": "x"}})
    assert (patched.status, patched.code) == (409, "derived_page")
    assert (await api.patch(f"{T}/pages/slot-0", {"hint": "seat"})).status == 200


async def test_a_slot_that_finds_no_room_is_kept_and_says_so(api: Client) -> None:
    await api.put(T, {"config": {**LOOSE, "map_slots": False}})
    made = (await api.append("t-1", "hello"))[0]
    assert (made.status, made.json["mapped"]) == (201, False)
    assert await ids(api, "?tier=L1") == ["slot-0"]


async def test_a_message_of_the_user_that_fits_nowhere_is_refused(api: Client) -> None:
    """Even its one line would be too long, escaped: what is said has to be shown."""
    config = {"budget_tokens": 2_000, "reserved_tokens": 1_000, "pin_share": 0.9}
    await api.put(T, {"config": config})
    quotes = {"role": "user", "content": '"' * 4_000}
    refused = (await api.append("t-1", quotes))[0]
    assert (refused.status, refused.code) == (409, "no_room")
    assert (await api.get(T)).json["slots"] == 0
    begun = await api.post(f"{T}/turns", {"slots": [{**SLOT, "content": quotes}]})
    assert (begun.status, begun.code) == (409, "no_room")
    tool = {**SLOT, "type": "chat.tool", "content": quotes}
    kept = await api.post(f"{T}/slots", tool)
    assert (kept.status, kept.json["mapped"]) == (201, False)


async def test_pages_are_listed_in_parts_by_what_is_asked(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    for n in range(5):
        kind = "claim" if n % 2 else "artifact"
        await make(api, f"p{n}", type=kind, map=n != 3)
    await act(api, "p0", "pin")
    assert await ids(api) == ["p0", "p1", "p2", "p3", "p4"]
    assert await ids(api, "?type=claim") == ["p1", "p3"]
    assert await ids(api, "?tier=L1") == ["p3"]
    assert await ids(api, "?tier=L0") == ["p0", "p1", "p2", "p4"]
    assert await ids(api, "?tier=L2") == []
    assert await ids(api, "?pinned=true") == ["p0"]
    assert await ids(api, "?pinned=false&type=artifact") == ["p2", "p4"]
    assert await ids(api, "?modality=image") == []
    for query in ("?limit=2", "?limit=2&tier=L0", "?limit=2&type=artifact"):
        seen, after = [], ""
        while True:
            part = (await api.get(f"{T}/pages{query}{after}")).json
            seen += [item["page_id"] for item in part["items"]]
            if part["next"] is None:
                break
            after = f"&after={part['next']}"
        assert seen == await ids(api, query.replace("limit=2", "limit=200"))


async def test_a_list_is_as_of_an_event(api: Client) -> None:
    await make(api, "a")
    await make(api, "b", importance=0.1)
    await api.patch(f"{T}/pages/b", {"importance": 0.9})
    await api.send("DELETE", f"{T}/pages/a")
    then = (await api.get(f"{T}/pages?at_seq=3")).json["items"]
    assert [(item["page_id"], item["importance"]) for item in then] == [
        ("a", 0.5),
        ("b", 0.1),
    ]
    now = (await api.get(f"{T}/pages")).json["items"]
    assert [(item["page_id"], item["importance"]) for item in now] == [("b", 0.9)]


async def test_a_fork_has_its_parents_pages(api: Client) -> None:
    await make(api, "a", "of the parent")
    await api.append("t-1", "hello")
    await api.post(f"{T}:fork", {"name": "t-2"})
    await make(api, "late")
    await api.patch(f"{T}/pages/a", {"content": {"text": "changed by the parent"}})
    await api.send("DELETE", f"{T}/pages/late")
    fork = "/threads/t-2/pages"
    await api.post(fork, {**PAGE, "page_id": "own"})
    items = (await api.get(fork)).json["items"]
    assert [item["page_id"] for item in items] == ["a", "slot-0", "own"]
    read = (await api.get(f"{fork}/a")).json
    assert read["page"]["content"] == {"text": "of the parent"}
    await api.patch(f"{fork}/a", {"content": {"text": "changed by the fork"}})
    assert (await api.get(f"{fork}/a")).json["version"] == 2
    assert (await api.get(f"{T}/pages/a")).json["page"]["content"] == {
        "text": "changed by the parent"
    }
    assert (await api.send("DELETE", f"{fork}/a")).status == 200
    assert (await api.get(f"{fork}/a")).code == "page_erased"
    assert (await api.get(f"{T}/pages/a")).status == 200
    items = (await api.get(fork)).json["items"]
    assert [item["page_id"] for item in items] == ["slot-0", "own"]
    history = (await api.get(f"{fork}/a/history")).json["items"]
    assert [item["event"] for item in history] == [
        "page.created",
        "page.updated",
        "page.deleted",
    ]


async def test_a_page_is_mapped_evicted_pinned(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    await make(api, "a", prose(900), map=False)
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


async def test_pins_stay_within_their_share(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    for n in range(2):
        await make(api, f"p{n}", prose(1_900))
    assert (await act(api, "p0", "pin")).status == 200
    refused = await act(api, "p1", "pin")
    assert (refused.status, refused.code) == (409, "pin_budget")
    small = await api.patch(T, {"config": {"budget_tokens": 2_000}})
    assert (small.status, small.code) == (409, "pin_budget")


async def test_what_leaves_for_a_page_is_told(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    gone: list[str] = []
    for n in range(6):
        gone += (await make(api, f"p{n}", prose(1_000))).json["evictions"]
    assert gone
    assert set(await ids(api, "?tier=L1")) == set(gone)


async def test_a_fault_says_what_it_did_and_what_is_left(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    for n in range(4):
        await make(api, f"p{n}", prose(900), map=False)
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
    await api.post(f"{T}/turns", {"slots": [SLOT]})
    assert (await act(api, "p3", "fault")).status == 200


async def test_a_fault_beyond_the_tokens_names_what_would_fit(api: Client) -> None:
    await api.put(T, {"config": {**LOOSE, "max_fault_tokens_per_turn": 300}})
    await make(api, "a", prose(1_200), map=False)
    refused = await act(api, "a", "fault", level=0)
    assert refused.status == 429
    assert refused.json["fault_tokens_left"] == 300
    assert refused.json["tokens"] > 300
    assert refused.json["cheaper_levels"] == [3, 2]
    served = (await act(api, "a", "fault", level=2)).json
    assert served["effects"]["fault_tokens_left"] == (
        300 - served["effects"]["tokens_est"]
    )


async def test_looking_at_pages_changes_nothing(api: Client, agent: Agent) -> None:
    await make(api, "a", prose(900))
    await api.append("t-1", "hello")
    head = factories.get_thread(agent).head_seq
    before = (await api.get(f"{T}/tlb")).json
    for path in ("", "/a", "/a?level=3", "/slot-0", "/a/history", "/nowhere"):
        await api.get(f"{T}/pages{path}")
    assert (await api.get(f"{T}/tlb")).json == before
    assert Event.objects.count() == head
