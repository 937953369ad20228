"""Integers of any size in content: kept as they came, wherever it comes out again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from memoryhub.kernel.text import strict_json
from memoryhub.models import Project, Subject
from tests.api.client import SLOT, Answer, Client
from tests.cast import bundled
from tests.cast.sockets import AgentSocket

pytestmark = pytest.mark.django_db
#: By the parser the largest that there are.
LARGEST = 10 ** (strict_json.MAX_NUMBER_CHARS - 2)
BIG = [2**63, -(2**63) - 1, 2**64 - 1, 2**64, 10**30 + 7, LARGEST, -LARGEST]
CONTENT = {"invoice": 10**30 + 7, "all": BIG, "half": 0.5, "text": str(2**70)}
T = "/threads/t-1"


def dump_value(value: object) -> bytes:
    return json.dumps(value).encode()


def read(answer: Answer) -> Any:
    """Parse the answer, keeping integers of any size."""
    assert answer.status in (200, 201), answer.body
    return json.loads(answer.body)


async def append(api: Client, thread: str = "t-1", **fields: object) -> Answer:
    body = dump_value({**SLOT, "content": CONTENT, **fields})
    return await api.post(f"/threads/{thread}/slots", body)


async def test_message_is_read_as_it_was_sent(api: Client) -> None:
    assert (await append(api)).status == 201
    await api.post(
        f"{T}/slots:batch", dump_value({"items": [{**SLOT, "content": BIG}]})
    )
    slots = read(await api.get(f"{T}/slots"))["items"]
    assert [slot["content"] for slot in slots] == [CONTENT, BIG]
    for path in ("slots/0", "slots/-2", "slots/0?view=handler"):
        assert read(await api.get(f"{T}/{path}"))["content"] == CONTENT, path
    events = read(await api.get(f"{T}/events"))["items"]
    assert CONTENT in [(each["payload"] or {}).get("content") for each in events]
    page = read(await api.get(f"{T}/pages/slot-0"))
    assert str(LARGEST) in json.dumps(page["page"])


async def test_idempotent_repeat_is_told_apart_from_another_big_integer(
    api: Client,
) -> None:
    headers = [("idempotency-key", "a")]
    bodies = [dump_value({**SLOT, "content": 10**30 + n}) for n in (0, 0, 1)]
    answers = [await api.post(f"{T}/slots", b, headers=headers) for b in bodies]
    assert [answer.status for answer in answers] == [201, 201, 422]


async def test_big_integer_is_sent_to_the_model_and_verifies(api: Client) -> None:
    slot = {**SLOT, "role": "user", "content": CONTENT}
    turn = await api.post(f"{T}/turns", dump_value({"items": [slot]}))
    assert turn.status == 201
    assert str(LARGEST).encode() in turn.body
    again = read(await api.get(f"{T}/turns/1/context"))
    assert again["request"] == read(turn)["request"]
    assert again["sha256"] == read(turn)["sha256"]


async def test_working_memory_keeps_big_integers(api: Client) -> None:
    await api.put(f"{T}/keys/k", dump_value({"value": CONTENT}))
    item = {"op": "set", "key": "l", "value": BIG}
    await api.post(f"{T}/keys:batch", dump_value({"items": [item]}))
    await api.put(f"{T}/task", dump_value({"data": CONTENT}))
    await api.post(f"{T}/checkpoints", {"name": "c"})
    await api.put(f"{T}/keys/k", dump_value({"value": 2**64}))
    assert read(await api.get(f"{T}/keys/k"))["value"] == 2**64
    listed = read(await api.get(f"{T}/keys?values=true"))["items"]
    assert [each["value"] for each in listed] == [2**64, BIG]
    assert read(await api.get(f"{T}/task"))["data"] == CONTENT
    compared = read(await api.get(f"{T}/checkpoints:compare?a=c&values=true"))
    assert compared["keys"][0]["before"]["value"] == CONTENT
    await api.post(f"{T}/checkpoints/c:restore", {})
    assert read(await api.get(f"{T}/keys/k"))["value"] == CONTENT


async def test_page_keeps_big_integers(api: Client) -> None:
    page = {"type": "artifact", "modality": "structured", "meta": {"rows": 2**64}}
    body = {**page, "content": {"data": CONTENT}}
    assert (await api.put(f"{T}/pages/p", dump_value(body))).status == 201
    found = read(await api.get(f"{T}/pages/p"))
    assert found["page"]["content"] == {"data": CONTENT}
    events = read(await api.get(f"{T}/events"))["items"]
    assert {"rows": 2**64} in [(each["payload"] or {}).get("meta") for each in events]


async def test_api_field_takes_64_bits(api: Client) -> None:
    for body in (
        {**SLOT, "tokens": 2**63},
        {**SLOT, "agent_at": -(2**63)},
        {"items": [{**SLOT, "from": 2**64}]},
    ):
        path = "slots:batch" if "items" in body else "slots"
        answer = await api.post(f"{T}/{path}", dump_value(body))
        assert (answer.status, answer.code) == (422, "integer_range"), body
    labels = dump_value({"labels": {"content": 2**63}})
    assert (await api.put("/threads/t-2", labels)).code == "integer_range"
    number = b"1" + b"0" * strict_json.MAX_NUMBER_CHARS
    text = dump_value({**SLOT, "content": 0})
    text = text.replace(b'"content": 0', b'"content": ' + number)
    assert (await api.post(f"{T}/slots", text)).code == "number_too_long"


@pytest.mark.django_db(transaction=True)
async def test_event_stream_keeps_big_integers(served: tuple[Client, str]) -> None:
    api, _ = served
    await append(api)
    async with api.stream(f"{T}/events") as stream:
        text = b""
        while b"slot.appended" not in text:
            text += (await asyncio.wait_for(stream.get(), 10)).get("body", b"")
    assert str(LARGEST).encode() in text


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("listening")
async def test_socket_keeps_big_integers(key: str) -> None:
    await append(Client(key=key))
    socket = await AgentSocket(key).greet()
    await socket.follow("t-1", after=3)
    assert json.loads(await socket.receive())["payload"] == {"content": CONTENT}
    await socket.leave()


async def test_bundle_keeps_big_integers(
    api: Client, foreign: Client, ann: Subject, zeta: Project
) -> None:
    await api.put(T, {"user_id": "ann"})
    await append(api)
    await api.put(f"{T}/keys/k", dump_value({"value": BIG}))
    data = bundled.export(ann)
    with bundled.open_bundle(data) as bundle:
        texts = {name: bundle.read(name) for name in bundle.namelist()}
    carriers = {n for n, text in texts.items() if str(LARGEST).encode() in text}
    assert {"events.jsonl", "state/keys.jsonl"} <= carriers
    assert any(name.endswith(".html") for name in carriers)
    bundled.take(data, zeta)
    foreign.connect()
    assert read(await foreign.get(f"{T}/slots/0"))["content"] == CONTENT
    assert read(await foreign.get(f"{T}/keys/k"))["value"] == BIG
