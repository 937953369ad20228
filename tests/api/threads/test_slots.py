from __future__ import annotations

import random
from typing import Any

import pytest

from memoryhub.models import Event, Slot
from memoryhub.queries.lists.cursors import PART_BYTES
from memoryhub.services.access.api_keys import Agent
from tests.api.client import SLOT, Answer, Client
from tests.cast import factories

pytestmark = pytest.mark.django_db


async def test_appended_slot_reads_back(api: Client) -> None:
    made = await api.post("/threads/t-1/slots", {**SLOT, "tokens": 7})
    assert made.status == 201
    assert (made.json["thread"], made.json["seq"], made.json["index"]) == ("t-1", 2, 0)
    read = (await api.get("/threads/t-1/slots/0")).json
    assert read["content"] == "hello"
    assert read["role"] == "user"
    assert (read["tokens"], read["bytes"], read["turn"]) == (7, 64, 0)
    assert read["at"] == made.json["at"]
    assert not read["erased"]


async def test_handler_view_is_what_the_handler_is_given(api: Client) -> None:
    handler = {
        "own_name": "user",
        "usage_instructions": "Answer briefly.",
        "todo_nudge": "One item is open.",
    }
    await api.append("t-1", "hello", handler=handler)
    seen = (await api.get("/threads/t-1/slots/0?view=handler")).json
    assert seen["is_self_call"] is True
    assert {name: seen[name] for name in handler} == handler
    assert (seen["from"], seen["content"]) == ("user", "hello")
    plain = (await api.get("/threads/t-1/slots/0")).json
    assert plain["handler"] == {**handler, "is_self_call": True}


async def test_batch_is_stored_in_order(api: Client) -> None:
    items = [{**SLOT, "content": n} for n in range(200)]
    made = await api.post("/threads/t-1/slots:batch", {"items": items})
    assert made.status == 201
    assert [item["index"] for item in made.json["items"]] == list(range(200))
    read = (await api.get("/threads/t-1/slots?limit=200")).json["items"]
    assert [item["content"] for item in read] == list(range(200))


async def test_bad_item_is_named_and_none_is_stored(api: Client) -> None:
    items = [SLOT, {**SLOT, "from": None}]
    refused = await api.post("/threads/t-1/slots:batch", {"items": items})
    assert refused.json["errors"] == [{"loc": ["items", 1, "from"], "code": "type"}]
    assert (await api.get("/threads/t-1")).status == 404


# Idempotency


async def test_routed_message_is_one_slot(api: Client) -> None:
    """Recorded at sending and at delivery under its id, the message is one slot."""
    named = [("idempotency-key", "message-1")]
    sent = await api.post("/threads/t-1/slots", SLOT, headers=named)
    delivering = {**SLOT, "handler": {"own_name": "assistant"}}
    delivered = await api.post("/threads/t-1/slots", delivering, headers=named)
    assert delivered.status == 201
    assert delivered.json == sent.json
    assert sent.header("idempotent-replayed") is None
    assert delivered.header("idempotent-replayed") == "true"
    assert (await api.get("/threads/t-1")).json["slots"] == 1
    read = (await api.get("/threads/t-1/slots/0")).json
    assert read["handler"]["own_name"] is None


async def test_idempotency_key_is_bound_to_one_request(
    api: Client, foreign: Client
) -> None:
    named = [("idempotency-key", "k")]
    await api.post("/threads/t-1/slots", SLOT, headers=named)
    for target, body in (
        ("/threads/t-1/slots", {**SLOT, "content": "other"}),
        ("/threads/t-1/slots", {**SLOT, "role": None}),
        ("/threads/t-2/slots", SLOT),
        ("/threads/t-1/slots:batch", {"items": [SLOT]}),
        ("/threads/t-1:close", {}),
    ):
        answer = await api.post(target, body, headers=named)
        assert (answer.status, answer.code) == (422, "idempotency_mismatch")
    assert (await api.get("/threads/t-1")).json["seq"] == 2
    other = await foreign.post("/threads/t-1/slots", SLOT, headers=named)
    assert other.status == 201
    assert other.header("idempotent-replayed") is None


# Reading


def _list_contents(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.body
    return [item["content"] for item in answer.json["items"]]


async def test_slot_slice_equals_a_python_list_slice(api: Client) -> None:
    """Every (start, end) is that of a Python list, also across segments of forks."""
    await api.append("t-1", *range(4))
    await api.post("/threads/t-1:fork", {"thread": "t-2", "seq": 4})
    await api.append("t-2", 10, 11)
    await api.post("/threads/t-2:fork", {"thread": "t-3"})
    await api.append("t-3", 20)
    expected = [0, 1, 2, 10, 11, 20]
    assert _list_contents(await api.get("/threads/t-3/slots")) == expected
    bounds = [None, -8, -6, -5, -2, 0, 1, 3, 5, 6, 8]
    for start in bounds:
        for end in bounds:
            query = "".join(
                f"&{name}={value}"
                for name, value in (("start", start), ("end", end))
                if value is not None
            )
            target = f"/threads/t-3/slots?limit=200{query}"
            assert _list_contents(await api.get(target)) == expected[start:end]
            backwards = await api.get(f"{target}&order=desc")
            assert _list_contents(backwards) == expected[start:end][::-1]


async def test_cursor_walk_while_appending(api: Client, agent: Agent) -> None:
    """A walk sees each slot of its first head once, whatever is appended meanwhile."""
    api.connect()
    for n in range(40):
        factories.append(agent, "t-1", *range(n * 5, n * 5 + 5))
    for order, step in (("asc", 1), ("desc", -1)):
        total = (await api.get("/threads/t-1")).json["slots"]
        seen: list[int] = []
        target = f"/threads/t-1/slots?start=-{total}&order={order}&limit=9"
        answer = await api.get(target)
        while True:
            seen += _list_contents(answer)
            factories.append(agent, "t-1", *range(10))
            if answer.json["next"] is None:
                break
            answer = await api.get(f"{target}&after={answer.json['next']}")
        everything = await api.get(f"/threads/t-1/slots?limit=200&end={total}")
        expected = _list_contents(everything)
        while everything.json["next"]:
            after = everything.json["next"]
            everything = await api.get(
                f"/threads/t-1/slots?limit=200&end={total}&after={after}"
            )
            expected += _list_contents(everything)
        assert seen == expected[::step]


async def test_filters_are_joined_by_and(api: Client) -> None:
    chance = random.Random(5)
    sent = []
    for n in range(30):
        fields = {
            "from": chance.choice(["a", "b"]),
            "to": chance.choice(["c", "d"]),
            "type": chance.choice(["x.one", "x.two"]),
        }
        sent.append({**fields, "content": n})
        await api.append("t-1", n, **fields)
    for kind in (None, "x.one", "x.three"):
        for sender in (None, "a"):
            for receiver in (None, "d"):
                wanted = {"type": kind, "from": sender, "to": receiver}
                wanted = {name: text for name, text in wanted.items() if text}
                query = "&".join(f"{name}={text}" for name, text in wanted.items())
                target = f"/threads/t-1/slots?limit=200&{query}".rstrip("&")
                expected = [
                    each["content"] for each in sent if wanted.items() <= each.items()
                ]
                assert _list_contents(await api.get(target)) == expected


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_part_ends_at_its_bytes_and_the_next_goes_on(
    api: Client, agent: Agent, order: str
) -> None:
    api.connect()
    for n in range(11):
        factories.append(agent, "t-1", str(n) * 900_000)
    target = f"/threads/t-1/slots?limit=200&order={order}"
    seen: list[int] = []
    answer = await api.get(target)
    while True:
        assert len(answer.body) < PART_BYTES + 100_000
        seen += [item["index"] for item in answer.json["items"]]
        if answer.json["next"] is None:
            break
        answer = await api.get(f"{target}&after={answer.json['next']}")
    assert seen == list(range(11))[:: 1 if order == "asc" else -1]
    light = (await api.get(f"{target}&content=none")).json
    assert (len(light["items"]), light["next"]) == (11, None)


async def test_slot_list_without_contents_opens_no_payload(api: Client) -> None:
    await api.append("t-1", "hello")
    (item,) = (await api.get("/threads/t-1/slots?content=none")).json["items"]
    assert (item["content"], item["bytes"], item["erased"]) == (None, 64, False)


async def test_reading_as_of_a_seq(api: Client) -> None:
    await api.append("t-1", "a", "b", "c")
    assert _list_contents(await api.get("/threads/t-1/slots?at_seq=3")) == ["a", "b"]
    assert _list_contents(await api.get("/threads/t-1/slots?at_seq=3&start=-1")) == [
        "b"
    ]
    assert (await api.get("/threads/t-1/slots/2?at_seq=3")).status == 404
    assert _list_contents(await api.get("/threads/t-1/slots?at_seq=0")) == []
    assert _list_contents(await api.get("/threads/t-1/slots?at_turn=0")) == [
        "a",
        "b",
        "c",
    ]


async def test_negative_index_counts_from_the_end(api: Client) -> None:
    await api.append("t-1", "a", "b", "c")
    target = "/threads/t-1/slots"
    newest = (await api.get(f"{target}/-1")).json
    assert newest == (await api.get(f"{target}/2")).json
    assert (newest["index"], newest["content"]) == (2, "c")
    assert (await api.get(f"{target}/-1?view=handler")).json["index"] == 2
    assert (await api.get(f"{target}/-1?at_seq=3")).json["content"] == "b"
    assert (await api.get(f"{target}/-3")).json["content"] == "a"
    for index in (-4, 3):
        assert (await api.get(f"{target}/{index}")).status == 404
    await api.put("/threads/empty")
    assert (await api.get("/threads/empty/slots/-1")).status == 404
    await api.post("/threads/t-1:fork", {"thread": "f", "seq": 3})
    assert (await api.get("/threads/f/slots/-1")).json["content"] == "b"


@pytest.mark.no_replay
async def test_erased_ancestor_erases_in_forks(api: Client) -> None:
    """Texts inherited from an erased ancestor are gone from all forks; own texts stay.

    The test erases by hand, in the way the journal allows; that an erasure does so to
    all that a fork inherited, in one procedure, waits for the eraser.
    """
    await api.append("t-1", "forgotten-a", "forgotten-b")
    for parent, name in (("t-1", "f-1"), ("f-1", "f-2"), ("f-2", "f-3")):
        await api.post(f"/threads/{parent}:fork", {"thread": name})
        await api.append(name, f"of {name}")
    before = (await api.get("/threads/f-3/slots")).json["items"]
    assert [item["content"] for item in before][:2] == ["forgotten-a", "forgotten-b"]
    ancestor = Event.objects.filter(thread__name="t-1", type="slot.appended")
    ancestor.update(payload=None, erased_by=9)
    Slot.objects.filter(thread__name="t-1").update(erased=True)
    for name, own in (("f-1", 1), ("f-2", 2), ("f-3", 3)):
        left = [f"of f-{n}" for n in range(1, own + 1)]
        for at in ("", "?at_seq=2"):
            items = (await api.get(f"/threads/{name}/slots{at}")).json["items"]
            assert [item["index"] for item in items] == list(range(own + 2))
            assert [item["content"] for item in items] == [None, None, *left]
            assert [item["erased"] for item in items] == [True] * 2 + [False] * own
        for part in ("slots/0", "slots/1", "slots/0?view=handler", "slots/0?at_seq=1"):
            answer = await api.get(f"/threads/{name}/{part}")
            assert (answer.status, answer.code) == (410, "content_erased")
        events = await api.get(f"/threads/{name}/events?limit=200")
        assert b"forgotten" not in events.body
