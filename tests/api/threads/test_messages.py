"""Messages of any shape through the API: what is kept of them, and sent."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub.kernel.messages.writing import FORMATS
from memoryhub.models import Project, Subject
from tests.api.client import SLOT, Client, run
from tests.cast import bundled
from tests.kernel.messages.shapes import PNG, SHAPES, build_source, heard, said
from tests.kernel.messages.test_reading import CONTENTS, JSON, mutated
from tests.validators import require_request

pytestmark = pytest.mark.django_db
SMALL = {"budget_tokens": 2_400, "reserved_tokens": 800, "auto_pin_turns": 0}
URL = "https://a.example/map.png"
_CALL = {"name": "find", "arguments": '{"q":"%s"}' % ("tide " * 200)}
COUNTED: dict[str, Any] = {
    "text": "A text. " * 100,
    "picture": heard({"type": "image_url", "image_url": {"url": URL}}),
    "base64": heard(build_source("image", media_type="image/png", data=PNG)),
    "call": {"role": "assistant", "tool_calls": [{"id": "c", "function": _CALL}]},
    "items": [{"type": "function_call", "call_id": "c", **_CALL}],
    "blocks": said({"type": "tool_use", "id": "c", "name": "find", "input": _CALL}),
}


def build_message(kind: str, content: str) -> bytes:
    """Build a message whose content no parser of ours has seen."""
    sent = f'"from":"a","to":"b","type":"chat.{kind}","content":{content}'
    return f"{{{sent}}}".encode()


@pytest.mark.parametrize("kind", COUNTED)
async def test_client_token_count_takes_precedence(api: Client, kind: str) -> None:
    """The page weighs the client's count, less or more than an estimate."""
    await api.put("/threads/t-1", {"config": SMALL})
    sent = {**SLOT, "content": COUNTED[kind]}
    for number in (3, 700, 700, 700):
        answer = await api.post("/threads/t-1/slots", {**sent, "tokens": number})
        assert answer.status == 201, answer.json
    slots = (await api.get("/threads/t-1/slots")).json["items"]
    assert [each["tokens"] for each in slots] == [3, 700, 700, 700]
    pages = [await api.get(f"/threads/t-1/pages/slot-{n}") for n in range(4)]
    assert [each.json["tokens"] for each in pages] == [3, 700, 700, 700]
    assert pages[0].json["tier"] == "L0"
    assert (await api.get("/threads/t-1")).json["tokens"] == 2_103
    assert {each.json["level"] for each in pages[1:]} != {0}


#: Requests as text, so that no parser of ours touches them.
ODD = st.sampled_from(
    [
        *("1e400", "-0", "18446744073709551616", '"\\ud83d"', "[]", '{"role":3}', '""'),
        *("{}", "null", '{"role":"tool"}', '{"role":"assistant","tool_calls":[{}]}'),
        '{"role":"user","content":[{"type":"text","text":"\\ud83d"}]}',
        '{"role":"assistant","tool_calls":[{"function":{"arguments":{"n":1e400}}}]}',
        '{"role":"user","content":' + "[" * 29 + "-0" + "]" * 29 + "}",
        '{"role":"tool","tool_call_id":-0,"content":' + '{"a":' * 29 + "1" + "}" * 30,
    ]
)
ANY = ODD | (JSON | CONTENTS.flatmap(mutated)).map(json.dumps)
NUMBERS = count()
#: Texts that no content may hold.
REFUSED = ("surrogate", "nul")
TYPES = st.sampled_from(["user", "assistant", "tool", "system", "message"])


@settings(max_examples=25)
@given(contents=st.lists(st.tuples(TYPES, ANY), min_size=1, max_size=12))
@example(contents=[("message", json.dumps(row[0])) for row in SHAPES])
def test_no_message_kills_a_thread(
    api: Client, contents: list[tuple[str, str]]
) -> None:
    run(write_contents(api, contents))


async def write_contents(api: Client, contents: list[tuple[str, str]]) -> None:
    path = f"/threads/t-{next(NUMBERS)}"
    await api.put(path)
    taken = 0
    for kind, content in contents:
        answer = await api.post(f"{path}/slots", build_message(kind, content))
        assert answer.status == 201 or answer.code in REFUSED, answer.body
        taken += answer.status == 201
    for shape in FORMATS:
        await api.patch(path, {"config": {"format": shape}})
        answer = await api.post(f"{path}/turns", {"items": [SLOT]})
        assert answer.status == 201, answer.body
        require_request(shape, json.loads(answer.body)["request"])
    listed = await api.get(f"{path}/slots?limit=200")
    assert len(json.loads(listed.body)["items"]) == taken + len(FORMATS)


DIGITS = "[12345678901234567.89,18446744073709551616,1e400,-0]"
_CALLED = f'{{"id":"c","function":{{"name":"find","arguments":{{"n":{DIGITS}}}}}}}'
NUMBERED = [
    DIGITS,
    f'{{"role":"user","content":"Hello.","n":{DIGITS}}}',
    f'{{"role":"assistant","tool_calls":[{_CALLED}]}}',
    f'{{"role":"tool","tool_call_id":"c","content":{{"n":{DIGITS}}}}}',
]


async def test_digits_survive(
    api: Client, foreign: Client, ann: Subject, zeta: Project
) -> None:
    """Digits are kept when read back, sent to a model, and taken to another hub."""
    path = "/threads/t-1"
    await api.put(path, {"user_id": "ann"})
    for content in NUMBERED:
        answer = await api.post(f"{path}/slots", build_message("x", content))
        assert answer.status == 201, answer.body
    for turn, shape in enumerate(FORMATS, 1):
        await api.patch(path, {"config": {"format": shape}})
        await api.post(f"{path}/turns", {"items": [SLOT]})
        sent = (await api.get(f"{path}/turns/{turn}/context")).body.decode()
        # Members that no format knows are kept, and stand in no request.
        assert sent.count(DIGITS) == len(NUMBERED) - 1, sent
    bundled.take(bundled.export(ann), zeta)
    for client in (api, foreign):
        client.connect()
        listed = (await client.get(f"{path}/slots")).body.decode()
        assert [content in listed for content in NUMBERED] == [True] * len(NUMBERED)
        events = (await client.get(f"{path}/events")).body.decode()
        assert [content in events for content in NUMBERED] == [True] * len(NUMBERED)
