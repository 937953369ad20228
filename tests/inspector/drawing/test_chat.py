"""Messages of any shape, as a conversation shows them."""

from __future__ import annotations

import base64
import json
import re
from operator import add
from typing import Any

import pytest
from django.test import Client

from inspector.drawing import pictures
from memoryhub.kernel.messages.reading import read
from memoryhub.kernel.text import strict_json
from memoryhub.models.slots import Slot
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.kernel.messages.shapes import PNG, SHAPES, build_source, heard, said

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/t-1"
BEYOND = "<script>alert(1)</script>\u202e"
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
LONG = PNG + "A" * 1_400
KINDS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBP",
}


def fill_shape(shape: Any, word: str) -> tuple[Any, list[str]]:
    """Fill a message shape with numbered words, base64 and these words."""
    *between, last = json.dumps(shape, ensure_ascii=False).split("•")
    words = [f"{word}{n}-" for n, _ in enumerate(between)]
    spelled = (json.dumps(each)[1:-1] for each in words)
    text = "".join(map(add, between, spelled)) + last
    return json.loads(text.replace("◆", LONG)), words


def page_of(client: Client, agent: Agent, *contents: Any) -> str:
    factories.append(agent, "t-1", *contents)
    return client.get(f"{T}/slots").content.decode()


def test_chat_view_shows_every_word_of_a_message(viewer: Client, agent: Agent) -> None:
    made = [fill_shape(row[0], f"word{n}.") for n, row in enumerate(SHAPES)]
    page = page_of(viewer, agent, *(shape for shape, _ in made))
    assert [word for _, words in made for word in words if word not in page] == []
    assert [n for shape, _ in made for n in read(shape).extras if n not in page] == []
    assert LONG not in page
    # Replay shows a message with the four before it.
    for last in range(4, len(made) + 4, 5):
        alone = viewer.get(
            f"{T}?at_seq={min(last, len(made) - 1) + 2}"
        ).content.decode()
        shown = [word for _, words in made[last - 4 : last + 1] for word in words]
        assert [word for word in shown if word not in alone] == []
        assert LONG not in alone


def test_chat_view_shows_every_digit(viewer: Client, agent: Agent) -> None:
    digits = [f"{n}2345678901234567.89,{2**64},1e400,-0" for n in (1, 2, 3)]
    one, two, three = (
        strict_json.parse_stored(f'{{"n":[{n}]}}'.encode()) for n in digits
    )
    call = {"name": "find", "args": two, "id": "c"}
    calling = {"role": "assistant", "tool_calls": [call]}
    page = page_of(viewer, agent, one, calling, heard(three))
    shown = re.sub(r"[\s,]+", ",", page)
    assert [each for each in digits if each not in shown] == []


def test_base64_is_not_on_the_page_of_a_slot(viewer: Client, agent: Agent) -> None:
    shapes = [fill_shape(row[0], "x")[0] for row in SHAPES]
    page_of(viewer, agent, *shapes)
    for n, shape in enumerate(shapes):
        if LONG in json.dumps(shape):
            for path in (
                f"slots/{n}?content=all",
                f"events/{n + 2}",
                f"pages/slot-{n}",
            ):
                assert LONG not in viewer.get(f"{T}/{path}").content.decode(), path


def test_hostile_text_is_inert_in_every_message_part(
    viewer: Client, agent: Agent
) -> None:
    shapes = [fill_shape(row[0], BEYOND)[0] for row in SHAPES]
    shapes.append(heard({**IMAGE, "alt": BEYOND, BEYOND: BEYOND}))
    shapes.append({"role": "assistant", "tool_calls": [{"id": BEYOND, "name": BEYOND}]})
    page = page_of(viewer, agent, *shapes)
    whole = page + viewer.get(f"{T}/slots/{len(shapes) - 2}").content.decode()
    assert "&lt;script&gt;alert(1)" in whole
    assert "<script>alert" not in whole
    assert "\u202e" not in whole
    assert LONG not in whole


def test_reasoning_is_folded_and_failures_are_named(
    viewer: Client, agent: Agent
) -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": PNG}
    failed = {"type": "tool_result", "tool_use_id": "c", "is_error": True}
    page = page_of(viewer, agent, said(thinking), heard({**failed, "content": "no"}))
    assert '<details class="block thought">' in page
    assert "failed</span>" in page


def test_results_and_speakers_have_their_names(viewer: Client, agent: Agent) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "track"}}
    page = page_of(
        viewer,
        agent,
        {"role": "assistant", "name": "desk", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "At the depot."},
        {"role": "tool", "tool_call_id": "d", "content": "Nothing."},
    )
    for shown in page, viewer.get(T).content.decode():
        words = " ".join(re.sub("<[^>]+>", " ", shown).split())
        assert "user desk" in words
        assert "track returned c At the depot." in words
        assert "The tool returned d Nothing." in words


@pytest.mark.parametrize("kind", KINDS)
def test_picture_is_served_from_our_origin_for_display_only(
    viewer: Client, agent: Agent, kind: str
) -> None:
    raw = KINDS[kind] + bytes(40)
    data = base64.b64encode(raw).decode()
    shape = heard("Look", build_source("image", media_type="text/html", data=data))
    address = f"{T}/slots/0/pictures/1"
    assert f'<img src="{address}"' in page_of(viewer, agent, shape)
    answer = viewer.get(address)
    assert answer.content == raw
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert policy.endswith("; sandbox")
    told = {
        "Content-Type": kind,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    assert {name: answer.headers[name] for name in told} == told


@pytest.mark.parametrize(
    "shape",
    [
        heard({"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}),
        heard(
            build_source("image", media_type="image/svg+xml", data="PHN2Zz48L3N2Zz4=")
        ),
        heard(
            build_source("image", media_type="image/png", data="PGh0bWw+PC9odG1sPg==")
        ),
        heard({"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}),
    ],
    ids=["elsewhere", "svg", "no picture", "audio"],
)
def test_unsupported_picture_is_shown_as_a_line(
    viewer: Client, agent: Agent, shape: Any
) -> None:
    page = page_of(viewer, agent, shape)
    assert "<img" not in page
    assert "[image" in page or "[audio" in page
    for part in (0, 1):
        assert viewer.get(f"{T}/slots/0/pictures/{part}").status_code == 404


def test_oversized_picture_is_neither_drawn_nor_sent() -> None:
    for size, shown in ((pictures.MAX_BYTES, True), (pictures.MAX_BYTES + 3, False)):
        raw = KINDS["image/gif"] + bytes(size - 6)
        data = base64.b64encode(raw).decode()
        message = read(heard(build_source("image", media_type="image/gif", data=data)))
        assert bool(pictures.draw(message.parts[0], 0)) is shown
        assert bool(pictures.find(message, 0)) is shown


def test_picture_has_its_size_before_it_loads(viewer: Client, agent: Agent) -> None:
    page = page_of(viewer, agent, heard(IMAGE))
    assert 'width="400" height="100"' in page
    assert 'alt="image 400×100, png"' in page


@pytest.mark.no_replay
def test_erased_picture_is_gone(viewer: Client, agent: Agent) -> None:
    page_of(viewer, agent, heard(IMAGE))
    Slot.objects.update(erased=True)
    assert viewer.get(f"{T}/slots/0/pictures/0").status_code == 404
