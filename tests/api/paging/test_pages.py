from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memoryhub.kernel.state.paging_config import TOKENIZERS
from memoryhub.kernel.text import strict_json
from memoryhub.models import Event, Subject
from memoryhub.models.erasures import Hold
from memoryhub.models.server.clock import clock
from tests.api.client import PAGE, SLOT, Answer, Client
from tests.api.paged import T, act, list_ids, make
from tests.oracles.paging import LOOSE, build_prose

pytestmark = pytest.mark.django_db


async def test_page_that_is_made_reads_back(api: Client) -> None:
    fields = {"hint": "fare rules", "importance": 0.7, "meta": {"mime_type": "a/b"}}
    made = await make(api, "rules", "Class Q may change once.", **fields)
    assert made.status == 201
    assert (made.json["seq"], made.json["version"], made.json["mapped"]) == (2, 1, True)
    read = (await api.get(f"{T}/pages/rules")).json
    assert read["page"]["content"] == {"text": "Class Q may change once."}
    assert read["page"]["meta"]["mime_type"] == "a/b"
    assert (read["hint"], read["importance"]) == ("fare rules", 0.7)
    assert (read["tier"], read["level"], read["pinned"]) == ("L0", 0, "recent")


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


async def test_batch_may_name_what_it_makes_itself(api: Client) -> None:
    items = [
        {**PAGE, "page_id": "a"},
        {**PAGE, "page_id": "b", "provenance": ["a"], "type": "claim"},
    ]
    made = await api.post(f"{T}/pages:batch", {"items": items})
    assert [item["page_id"] for item in made.json["items"]] == ["a", "b"]
    assert (await api.get(f"{T}/pages/b")).json["provenance"] == ["a"]
    refused = await api.post(f"{T}/pages:batch", {"items": items})
    assert (refused.status, refused.code) == (409, "name_taken")


async def test_put_makes_a_page_and_then_versions_of_it(api: Client) -> None:
    first = await api.put(f"{T}/pages/rules", PAGE)
    second = await api.put(f"{T}/pages/rules", {**PAGE, "content": {"text": "New."}})
    assert (first.status, second.status) == (201, 200)
    assert (first.json["version"], second.json["version"]) == (1, 2)
    old = f"{T}/pages/rules?at_seq={first.json['seq']}"
    assert (await api.get(old)).json["page"]["content"] == {"text": "Fares."}
    now = (await api.get(f"{T}/pages/rules")).json
    assert (now["version"], now["page"]["content"]) == (2, {"text": "New."})


async def test_put_says_anew_what_a_page_was_made_of(api: Client) -> None:
    for name in ("a", "b"):
        await make(api, name)
    url = f"{T}/pages/sum"

    async def put(**fields: Any) -> Answer:
        return await api.put(url, {**PAGE, "type": "summary", **fields})

    async def list_sources(query: str = "") -> list[str]:
        found: list[str] = (await api.get(url + query)).json["provenance"]
        return found

    made = await put(provenance=["a"])
    assert (await put()).json["version"] == 2
    assert await list_sources() == ["a"]
    assert (await put(provenance=["b", "a"])).status == 200
    assert await list_sources() == ["b", "a"]
    assert (await put(provenance=[])).status == 200
    assert await list_sources() == []
    assert await list_sources(f"?at_seq={made.json['seq']}") == ["a"]
    history = (await api.get(f"{url}/history?limit=200")).json["items"]
    bodies = [item["body"] for item in history if item["event"] == "page.updated"]
    assert [body.get("provenance") for body in bodies] == [None, ["b", "a"], []]
    assert [body.get("derived_from") for body in bodies] == [None, ["b", "a"], []]
    await api.send("DELETE", f"{T}/pages/a")
    before = Event.objects.count()
    for source in ("a", "sum", "nowhere"):
        refused = await put(provenance=["b", source])
        assert (refused.status, refused.code) == (422, "unknown_page")
    assert Event.objects.count() == before


async def test_fork_says_of_its_own_page_what_that_was_made_of(api: Client) -> None:
    """The parent's page of the same id, made later, does not count."""
    await make(api, "a")
    await make(api, "old", provenance=["a"])
    await api.post(f"{T}:fork", {"thread": "t-2"})
    await make(api, "b", provenance=["a"])
    await api.put(f"{T}/pages/old", {**PAGE, "provenance": []})
    for name, sources in (("b", []), ("old", ["a"])):
        body = {**PAGE, "page_id": name}
        if name == "b":
            await api.post("/threads/t-2/pages", body)
        page = (await api.get(f"/threads/t-2/pages/{name}")).json
        assert page["provenance"] == sources


async def test_put_without_map_moves_nothing(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    for name in ("in", "out"):
        await make(api, name, map=name == "in")
    for name, mapped in (("in", True), ("out", False)):
        body = {**PAGE, "content": {"text": "Newer."}, "map": False}
        answer = await api.put(f"{T}/pages/{name}", body)
        assert (answer.json["version"], answer.json["mapped"]) == (2, mapped)
        page = (await api.get(f"{T}/pages/{name}")).json
        assert page["tier"] == ("L0" if mapped else "L1")
    assert (await api.put(f"{T}/pages/out", PAGE)).json["mapped"]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
async def test_any_count_of_tokens_can_be_kept(
    api: Client, tokenizer: str, not_run_here: str
) -> None:
    """No token is less than a byte; the cost of the page follows from the count."""
    await api.put(T, {"config": {**LOOSE, "tokenizer": tokenizer}})
    for name, text in (("short", "a"), ("long", build_prose(900))):
        most = len(strict_json.dump_stored({"text": text}))
        made = await make(api, name, text, tokens=most)
        assert (made.status, made.json["mapped"]) == (201, name == "short")
        assert (await api.get(f"{T}/pages/{name}")).json["tokens"] == most
        assert (await act(api, name, "map", level=3)).status in (200, 409)
        beyond = await make(api, f"{name}-2", text, tokens=most + 1)
        assert beyond.json["errors"] == [{"loc": ["tokens"], "code": "value"}]
    slot = {**SLOT, "type": "chat.tool", "role": "tool", "content": "a"}
    for tokens, status in ((3, 201), (4, 422), (2**31 - 1, 422)):
        sent = await api.post(f"{T}/slots", {**slot, "tokens": tokens})
        assert sent.status == status


async def test_picture_counts_what_a_model_is_shown_of_it(api: Client) -> None:
    content = {"caption": "Seats", "base64": "aGVsbG8h" * 20_000}
    body = {"type": "artifact", "modality": "image", "content": content}
    assert (await api.put(f"{T}/pages/map", body)).json["mapped"]
    await act(api, "map", "evict")
    fault = await act(api, "map", "fault", level=0)
    assert fault.json["page"]["content"] == content
    assert 0 < fault.json["effects"]["tokens_est"] < 20


async def test_patch_checks_if_match_and_the_modality(api: Client) -> None:
    await make(api, "rules")
    seen = [("if-match", "1")]
    stale = await api.patch(f"{T}/pages/rules", {"importance": 1}, headers=seen)
    assert (stale.status, stale.code) == (409, "stale")
    wrong = await api.patch(f"{T}/pages/rules", {"content": {"caption": "x"}})
    assert (wrong.status, wrong.json["errors"]) == (
        422,
        [{"loc": ["content", "text"], "code": "value"}],
    )
    done = await api.patch(f"{T}/pages/rules", {"content": {"text": "Newer."}})
    assert (done.status, done.json["version"], done.json["mapped"]) == (200, 2, True)


async def test_held_person_s_page_is_not_deleted(api: Client, ann: Subject) -> None:
    api.connect()
    until = clock.now() + timedelta(days=9)
    for whose in ("ann", "bob"):
        await api.put(f"/threads/{whose}-1", {"user_id": whose})
        await api.post(f"/threads/{whose}-1/pages", {**PAGE, "page_id": "rules"})
    Hold.objects.create(
        project_id=ann.project_id,
        subject=ann,
        basis="archiving",
        opened_by="command",
        opened_at=clock.now(),
        expires_at=until,
    )
    refused = await api.send("DELETE", "/threads/ann-1/pages/rules")
    assert (refused.status, refused.code) == (409, "subject_held")
    assert f"until: {until.isoformat(timespec='seconds')}" in refused.json["detail"]
    assert (await api.get("/threads/ann-1/pages/rules")).status == 200
    assert (await api.send("DELETE", "/threads/bob-1/pages/rules")).status == 200


async def test_deleted_page_is_gone_for_good(api: Client) -> None:
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
    assert await list_ids(api) == []
    assert await list_ids(api, f"?at_seq={made.json['seq']}") == ["rules"]
    then = await api.get(f"{T}/pages/rules?at_seq={made.json['seq']}")
    assert (then.status, then.code) == (410, "page_erased")
    history = (await api.get(f"{T}/pages/rules/history")).json["items"]
    assert [item["event"] for item in history][-1] == "fault.refused"
    assert "page.deleted" in [item["event"] for item in history]


async def test_system_prompt_has_a_route_of_its_own(api: Client) -> None:
    made = await api.put(f"{T}/system-prompt", {"text": "Be brief."})
    again = await api.put(f"{T}/system-prompt", {"text": "Be exact."})
    assert (made.status, again.status) == (201, 200)
    read = (await api.get(f"{T}/pages/system-prompt")).json
    assert (read["type"], read["pinned"], read["version"]) == ("procedure", "system", 2)
    gone = await api.send("DELETE", f"{T}/pages/system-prompt")
    assert (gone.status, gone.code) == (422, "reserved_id")


async def test_slot_is_a_page(api: Client) -> None:
    made = (await api.append("t-1", {"role": "user", "content": "Is 12A free?"}))[0]
    assert (made.json["page_id"], made.json["mapped"]) == ("slot-0", True)
    read = (await api.get(f"{T}/pages/slot-0")).json
    assert read["page"]["content"] == {"text": "Is 12A free?"}
    assert (read["role"], read["slot"], read["importance"]) == ("user", 0, 0.6)
    assert (await api.send("DELETE", f"{T}/pages/slot-0")).code == "derived_page"
    patched = await api.patch(f"{T}/pages/slot-0", {"content": {"text": "x"}})
    assert (patched.status, patched.code) == (409, "derived_page")
    assert (await api.patch(f"{T}/pages/slot-0", {"hint": "seat"})).status == 200


async def test_slot_that_finds_no_room_is_kept_and_says_so(api: Client) -> None:
    await api.put(T, {"config": {**LOOSE, "map_slots": False}})
    made = (await api.append("t-1", "hello"))[0]
    assert (made.status, made.json["mapped"]) == (201, False)
    assert await list_ids(api, "?tier=L1") == ["slot-0"]


async def test_message_of_the_user_that_fits_nowhere_is_refused(api: Client) -> None:
    """The message's one line would be too long, and a message must be shown."""
    config = {"budget_tokens": 2_000, "reserved_tokens": 1_000, "pin_share": 0.9}
    await api.put(T, {"config": config})
    # Only what is pinned goes before it.
    prompt = await api.put(f"{T}/system-prompt", {"text": build_prose(1_380)})
    assert prompt.status == 201
    quotes = {"role": "user", "content": '"' * 4_000}
    refused = (await api.append("t-1", quotes))[0]
    assert (refused.status, refused.code) == (409, "no_room")
    assert (await api.get(T)).json["slots"] == 0
    begun = await api.post(f"{T}/turns", {"items": [{**SLOT, "content": quotes}]})
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
    assert await list_ids(api) == ["p0", "p1", "p2", "p3", "p4"]
    assert await list_ids(api, "?type=claim") == ["p1", "p3"]
    assert await list_ids(api, "?tier=L1") == ["p3"]
    assert await list_ids(api, "?tier=L0") == ["p0", "p1", "p2", "p4"]
    assert await list_ids(api, "?tier=L2") == []
    assert await list_ids(api, "?pinned=true") == ["p0"]
    assert await list_ids(api, "?pinned=false&type=artifact") == ["p2", "p4"]
    assert await list_ids(api, "?modality=image") == []
    for query in ("?limit=2", "?limit=2&tier=L0", "?limit=2&type=artifact"):
        seen, after = [], ""
        while True:
            part = (await api.get(f"{T}/pages{query}{after}")).json
            seen += [item["page_id"] for item in part["items"]]
            if part["next"] is None:
                break
            after = f"&after={part['next']}"
        assert seen == await list_ids(api, query.replace("limit=2", "limit=200"))


async def test_list_is_as_of_an_event(api: Client) -> None:
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


async def test_fork_has_its_parents_pages(api: Client) -> None:
    await make(api, "a", "of the parent")
    await api.append("t-1", "hello")
    await api.post(f"{T}:fork", {"thread": "t-2"})
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
