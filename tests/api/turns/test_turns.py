from __future__ import annotations

import hashlib
from typing import Any

import orjson
import pytest

from memoryhub.models import Event
from tests.api.client import PAGE, SLOT, Answer, Client
from tests.oracles.paging import build_prose

pytestmark = pytest.mark.django_db

T = "/threads/t-1"


def item_of(text: str, role: str = "user") -> dict[str, Any]:
    message = {"role": role, "content": text}
    return {**SLOT, "from": role, "type": f"chat.{role}", "content": message}


def request_of(answer: Answer) -> bytes:
    """Return the request's own bytes, cut out of the answer."""
    start = answer.body.index(b'"request":') + len(b'"request":')
    return answer.body[start : answer.body.index(b',"sha256":')]


async def test_turn_takes_its_messages_and_answers_the_request(api: Client) -> None:
    await api.put(f"{T}/system-prompt", {"text": "You book flights."})
    turn = await api.post(f"{T}/turns", {"items": [item_of("Is 12A free?")]})
    assert turn.status == 201
    assert (turn.json["turn"], turn.json["thread"]) == (1, "t-1")
    messages = turn.json["request"]["messages"]
    assert messages[0]["role"] == "system"
    assert messages[0]["content"].startswith("You book flights.")
    assert messages[-1] == {"role": "user", "content": "Is 12A free?"}
    assert set(turn.json["included"]) == {"system-prompt", "slot-0"}


async def test_turn_hash_is_of_the_request_handed_out(api: Client) -> None:
    """The hash is of every byte, at once and at every later read."""
    turn = await api.post(
        f"{T}/turns", {"items": [item_of("Ä \u2028 <VM:LOG> \\ \"'")]}
    )
    handed_out = request_of(turn)
    assert hashlib.sha256(handed_out).hexdigest() == turn.json["sha256"]
    await api.append("t-1", "later")
    again = await api.get(f"{T}/turns/1/context")
    assert request_of(again) == handed_out
    assert again.json["verified"] is True
    for name in ("sha256", "tokens", "included", "cut", "omitted", "seq"):
        assert again.json[name] == turn.json[name]


async def test_repeated_turn_is_the_same_turn(api: Client) -> None:
    named = [("idempotency-key", "k")]
    config = {"budget_tokens": 2_600, "reserved_tokens": 800}
    await api.put(T, {"config": config})
    for n in range(3):
        page = {**PAGE, "page_id": f"p{n}", "content": {"text": build_prose(500)}}
        await api.post(f"{T}/pages", page)
    body = {"items": [item_of("hello")], "token_budget": 1_650}
    first = await api.post(f"{T}/turns", body, headers=named)
    again = await api.post(f"{T}/turns", body, headers=named)
    assert again.body == first.body
    assert again.header("idempotent-replayed") == "true"
    assert (await api.get(T)).json["turns"] == 1
    (cut,) = first.json["cut"]
    assert cut["page_id"] in {"p0", "p1", "p2"}
    assert 0 < cut["shown_tokens"] < cut["tokens"]
    recorded = (await api.get(f"{T}/turns/1/context")).json
    assert recorded["cut"] == first.json["cut"]


async def test_request_stays_within_its_own_budget(api: Client) -> None:
    for n in range(10):
        page = {**PAGE, "page_id": f"p{n}", "content": {"text": build_prose(400)}}
        await api.post(f"{T}/pages", page)
    whole = await api.post(f"{T}/turns", {"items": [item_of("hello")]})
    small = await api.post(f"{T}/turns", {"token_budget": 1_500})
    assert whole.json["omitted"] == []
    assert small.json["tokens"] <= 1_500 < whole.json["tokens"]
    assert small.json["omitted"]
    tiny = await api.post(f"{T}/turns", {"token_budget": 1})
    assert (tiny.status, tiny.code) == (409, "no_room")


async def test_mode_is_of_one_turn(api: Client) -> None:
    passive = await api.post(
        f"{T}/turns", {"items": [item_of("hi")], "mode": "passive"}
    )
    assert "tools" not in passive.json["request"]
    strict = await api.post(f"{T}/turns", {})
    assert strict.json["request"]["tools"]
    lines = (await api.get(f"{T}/turns")).json["items"]
    assert [(line["turn"], line["mode"]) for line in lines] == [
        (2, "strict"),
        (1, "passive"),
    ]
    assert [line["continues"] for line in lines] == [True, False]


async def test_turns_are_listed_in_parts(api: Client) -> None:
    for _ in range(5):
        await api.post(f"{T}/turns", {"items": [item_of("hi")]})
    seen, after = [], ""
    while True:
        part = (await api.get(f"{T}/turns?limit=2{after}")).json
        seen += [line["turn"] for line in part["items"]]
        if part["next"] is None:
            break
        after = f"&after={part['next']}"
    assert seen == [5, 4, 3, 2, 1]
    one = (await api.get(f"{T}/turns/4")).json
    assert (one["turn"], one["recorded"], one["packer"]) == (4, True, "pack/3")
    assert one["prefix_tokens"] > 0
    then = (await api.get(f"{T}/turns?at_seq={one['seq']}")).json["items"]
    assert [line["turn"] for line in then] == [4, 3, 2, 1]


async def test_request_of_another_api_is_handed_out(api: Client) -> None:
    config = {"format": "anthropic"}
    made = await api.put(T, {"config": config})
    assert made.json["config"]["format"] == "anthropic"
    begun = (await api.post(f"{T}/turns", {"items": [item_of("hello")]})).json
    assert begun["request"]["messages"][-1] == {"role": "user", "content": "hello"}
    assert "system" in begun["request"]
    again = (await api.get(f"{T}/turns/1/context")).json
    assert (again["verified"], again["sha256"]) == (True, begun["sha256"])
    same = (await api.get(f"{T}/turns/1/context?format=anthropic")).json
    assert same == again
    chat = (await api.get(f"{T}/turns/1/context?format=chat")).json
    assert (chat["verified"], chat["sha256"]) == (False, None)
    roles = ["system", "assistant", "tool", "user"]
    assert [each["role"] for each in chat["request"]["messages"]] == roles
    other = (await api.get(f"{T}/turns/1/context?format=responses")).json
    assert len(other["request"]["input"]) == 4
    wrong = await api.get(f"{T}/turns/1/context?format=morse")
    assert (wrong.status, wrong.code) == (422, "value")


async def test_results_of_tools_keep_their_role_whoever_says_them(api: Client) -> None:
    """In Anthropic's format the user sends results, which are no new message."""
    used = {"type": "tool_use", "id": "c-1", "name": "look", "input": {}}
    used_result = {"type": "tool_result", "tool_use_id": "c-1", "content": "Gate 4."}
    calling, answered = item_of("", "assistant"), item_of("")
    calling["content"]["content"], answered["content"]["content"] = (
        [used],
        [used_result],
    )
    slots = [item_of("Which gate?"), calling, answered]
    begun = (await api.post(f"{T}/turns", {"items": slots})).json
    *_, call, result = begun["request"]["messages"]
    assert (call["role"], result["role"]) == ("assistant", "tool")
    assert (result["tool_call_id"], result["content"]) == ("c-1", "Gate 4.")
    roles = [slot["role"] for slot in (await api.get(f"{T}/slots")).json["items"]]
    assert roles == ["user", "assistant", "tool"]


async def test_turn_that_is_not_there_has_no_context(api: Client) -> None:
    await api.append("t-1", "hello")
    for path in ("/turns/1", "/turns/0", "/turns/1/context", "/turns/0/context"):
        answer = await api.get(f"{T}{path}")
        assert (answer.status, answer.code) == (404, "not_found")


async def test_preview_begins_nothing(api: Client) -> None:
    await api.append("t-1", {"role": "user", "content": "hello"})
    events = Event.objects.count()
    before = (await api.get(f"{T}/tlb")).json
    preview = await api.get(f"{T}/context?mode=relaxed&token_budget=2000")
    assert preview.status == 200
    assert preview.json["tokens"] <= 2_000
    digest = hashlib.sha256(request_of(preview)).hexdigest()
    assert digest == preview.json["sha256"]
    assert Event.objects.count() == events
    assert (await api.get(f"{T}/tlb")).json == before
    small = await api.get(f"{T}/context?token_budget=1")
    assert (small.status, small.code) == (409, "no_room")


async def test_preview_carries_the_blocks_of_the_next_turn(api: Client) -> None:
    await api.put(T, {"user_id": "ann"})
    await api.put(f"{T}/blocks/persona", {"text": "Speaks Latvian."})
    await api.append("t-1", {"role": "user", "content": "hello"})
    preview = request_of(await api.get(f"{T}/context"))
    turn = request_of(await api.post(f"{T}/turns", {}))
    assert b"Speaks Latvian." in preview
    assert preview.partition(b"</VM:BLOCKS>")[0] == turn.partition(b"</VM:BLOCKS>")[0]
    past = request_of(await api.get(f"{T}/context?at_seq=1"))
    assert b"Speaks Latvian." not in past


async def test_fork_gives_out_its_parents_contexts(api: Client) -> None:
    turn = await api.post(f"{T}/turns", {"items": [item_of("hello")]})
    await api.post(f"{T}:fork", {"thread": "t-2"})
    again = await api.get("/threads/t-2/turns/1/context")
    assert request_of(again) == request_of(turn)
    assert again.json["verified"]


async def walk_list(api: Client, path: str, limit: int) -> list[dict[str, Any]]:
    """Return all items of a list that is read in parts."""
    found, after = [], ""
    while True:
        part = (await api.get(f"{path}limit={limit}{after}")).json
        found += part["items"]
        if part["next"] is None:
            return found
        after = f"&after={part['next']}"


async def test_fork_lists_the_turns_it_inherits(api: Client) -> None:
    """A turn is listed as it was at the fork, with the thread that has it."""
    for n in range(3):
        await api.post(f"{T}/turns", {"items": [item_of(f"{n}")]})
    third = (await api.get(f"{T}/turns/3")).json
    # Between turn.began and turn.packed of the third.
    await api.post(f"{T}:fork", {"thread": "t-2", "seq": third["seq"]})
    await api.post(f"{T}/turns", {"items": [item_of("of the parent alone")]})
    own = await api.post("/threads/t-2/turns", {"items": [item_of("of the child")]})
    await api.post("/threads/t-2:fork", {"thread": "t-3"})
    whole = await walk_list(api, "/threads/t-3/turns?", 50)
    assert [line["turn"] for line in whole] == [4, 3, 2, 1]
    assert [line["inherited"] for line in whole] == [True] * 4
    threads = {
        name: (await api.get(f"/threads/{name}")).json["thread_id"]
        for name in ("t-1", "t-2", "t-3")
    }
    homes = [threads["t-2"], *[threads["t-1"]] * 3]
    assert [line["thread_id"] for line in whole] == homes
    assert [line["recorded"] for line in whole] == [True, False, True, True]
    assert whole[0]["seq"] < own.json["seq"] == whole[0]["packed_seq"]
    for limit in (1, 3):
        assert await walk_list(api, "/threads/t-3/turns?", limit) == whole
    for line in whole:
        one = await api.get(f"/threads/t-3/turns/{line['turn']}")
        assert one.json == line
        context = await api.get(f"/threads/t-3/turns/{line['turn']}/context")
        assert context.status == (200 if line["recorded"] else 404)
        if line["recorded"]:
            assert context.json["verified"]
    assert await walk_list(api, "/threads/t-2/turns?at_seq=0&", 50) == [
        {**line, "counts": {} if line["turn"] == 3 else line["counts"]}
        for line in whole[1:]
    ]
    for turn in (0, 5, 10**30):
        missing = await api.get(f"/threads/t-3/turns/{turn}")
        assert (missing.status, missing.code) == (404, "not_found")


async def test_fork_lists_the_mutations_it_inherits(api: Client) -> None:
    await api.post(f"{T}/pages", {**PAGE, "page_id": "a"})
    await api.post(f"{T}/turns", {"items": [item_of("one")]})
    forked = (await api.post(f"{T}:fork", {"thread": "t-2"})).json
    await api.post(f"{T}/pages/a/evict", {})
    child = "/threads/t-2"
    await api.put(f"{child}/pages/a", {**PAGE, "content": {"text": "Newer."}})
    await api.post(f"{child}/turns", {"items": [item_of("two")]})
    await api.patch(f"{child}/pages/a", {"importance": 1, "by": "user"})

    async def list_mutations(query: str = "") -> list[tuple[str, str, bool]]:
        found = await walk_list(api, f"{child}/mutations?{query}", 2)
        assert found == await walk_list(api, f"{child}/mutations?{query}", 200)
        homes = {each["inherited"]: each["thread_id"] for each in found}
        assert homes.get(False, forked["thread_id"]) == forked["thread_id"]
        assert homes.get(True) != forked["thread_id"]
        return [(each["type"], each["page_id"], each["inherited"]) for each in found]

    everything = [
        ("create", "a", True),
        ("create", "slot-0", True),
        ("update", "a", False),
        ("create", "slot-1", False),
        ("update", "a", False),
    ]
    assert await list_mutations() == everything
    assert await list_mutations("page_id=a&") == [everything[0], *everything[2::2]]
    assert await list_mutations("page_id=slot-0&") == everything[1:2]
    assert await list_mutations("by=user&") == everything[4:]
    assert await list_mutations("turn=0&") == everything[:2]
    # The child goes on with the turn that it was forked in.
    assert await list_mutations("turn=1&") == everything[2:4]
    assert await list_mutations("turn=2&") == everything[4:]
    assert await list_mutations("turn=3&") == []
    assert await list_mutations("at_seq=0&") == everything[:2]
    assert await list_mutations("type=evict&") == []


async def test_turn_keeps_to_its_limits(api: Client) -> None:
    most = await api.post("/threads/t-2/turns", {"items": [item_of("hi")] * 128})
    assert (most.status, len(most.json["included"])) == (201, 128)
    many = await api.post(f"{T}/turns", {"items": [item_of("hi")] * 129})
    assert (many.status, many.code) == (422, "batch_size")
    await api.put(T, {"config": {"max_slots": 1}})
    full = await api.post(f"{T}/turns", {"items": [item_of("a"), item_of("b")]})
    assert (full.status, full.code) == (409, "thread_full")
    assert (await api.get(T)).json["turns"] == 0
    seen = [("if-match", "7")]
    stale = await api.post(f"{T}/turns", {}, headers=seen)
    assert (stale.status, stale.code) == (409, "stale")


async def test_request_is_json_a_model_can_be_sent(api: Client) -> None:
    turn = await api.post(f"{T}/turns", {"items": [item_of("hello")]})
    sent = orjson.loads(request_of(turn))
    assert sent == turn.json["request"]
    assert list(sent) == ["messages", "tools"]


async def test_two_turns_are_held_against_each_other(api: Client) -> None:
    await api.post(f"{T}/turns", {"items": [item_of("hello")]})
    await api.post(f"{T}/pages", {**PAGE, "page_id": "a"})
    await api.post(f"{T}/turns", {"items": [item_of("And now?")]})
    diff = (await api.get(f"{T}/turns/2/diff")).json
    assert (diff["base"], diff["turn"]) == (1, 2)
    entered = {c["page_id"]: c for c in diff["changes"] if c["kind"] == "entered"}
    assert entered.keys() == {"a", "slot-1"}
    assert entered["a"]["reason"]["event"] == "page.created"
    lens = (await api.get(f"{T}/turns/2/prefix")).json
    assert 0 < lens["prefix_tokens"] < lens["tokens"]
    assert lens["share"] == lens["prefix_tokens"] / lens["tokens"]
    first = (await api.get(f"{T}/turns/1/prefix")).json
    assert (first["prefix_tokens"], first["share"], first["cause"]) == (0, 0, "first")
    line = (await api.get(f"{T}/turns/2")).json
    assert line["prefix_tokens"] == lens["prefix_tokens"]
    for path, status, code in (
        ("/turns/1/diff", 404, "not_recorded"),
        ("/turns/3/diff", 404, "not_found"),
        ("/turns/2/diff?base=2", 404, "not_found"),
        ("/turns/2/diff?base=0", 422, "value"),
        ("/turns/2/prefix?block=0", 422, "value"),
    ):
        answer = await api.get(f"{T}{path}")
        assert (answer.status, answer.code) == (status, code), path


async def test_messages_are_items_and_by_their_old_name_slots(api: Client) -> None:
    named = [("Idempotency-Key", "one")]
    first = await api.post(f"{T}/turns", {"items": [item_of("hi")]}, headers=named)
    again = await api.post(f"{T}/turns", {"slots": [item_of("hi")]}, headers=named)
    assert (first.status, again.status) == (201, 201)
    assert again.json == first.json
    slots = await api.get(f"{T}/slots")
    assert [slot["content"] for slot in slots.json["items"]] == [
        item_of("hi")["content"]
    ]


async def test_two_names_for_the_messages_are_one_too_many(api: Client) -> None:
    both = await api.post(f"{T}/turns", {"slots": [], "items": [item_of("hi")]})
    assert both.status == 422
    assert both.json["errors"] == [{"loc": ["slots"], "code": "value"}]
    assert "nothing beside `items`" in both.json["detail"]
    assert (await api.get(T)).status == 404


async def test_slots_errors_are_told_as_items_errors(api: Client) -> None:
    wrong = {**item_of("hi"), "x": 1, "to": "no name"}
    answer = await api.post(f"{T}/turns", {"slots": [wrong], "y": 2})
    places = [each["loc"] for each in answer.json["errors"]]
    assert sorted(places, key=str) == [["items", 0, "to"], ["items", 0, 4], [1]]
