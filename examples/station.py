"""What the loops with SDKs share: a picture, two tools, and what the user says."""

# ruff: noqa: T201
import base64
import os
import struct
import zlib
from collections.abc import Callable
from typing import Any

import scripted

from memoryhub_client import Client
from memoryhub_client.turns import Tool


def departures(place: str) -> str:
    return (
        f"The next train from {place} is at 12:40. It goes along the coast, by way of "
        "Mole, Lighthouse and Dunes, has a carriage for bicycles at its end, and "
        "leaves from platform 4."
    )


def weather(place: str) -> str:
    raise TimeoutError(f"The weather of {place} is not known: no answer in time.")


FUNCTIONS = {"departures": departures, "weather": weather}
_PLACE = {"type": "object", "properties": {"place": {"type": "string"}}}
#: As MemoryHub takes them; it writes them as each API does.
TOOLS: list[Tool] = [{"name": name, "parameters": _PLACE} for name in FUNCTIONS]
# So small that the first exchange has left by the last question.
SMALL = {"budget_tokens": 3_400, "reserved_tokens": 1_200}
FIRST = "This picture is of the station I am at. When is the next train? Will it rain?"
LATER = [*scripted.MESSAGES[1:5], "Which platform was it?"]


def connect() -> Client:
    url = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")
    return Client(url, os.environ["MEMORYHUB_KEY"])


def talk(ask: Callable[[Any], str], first: Any) -> None:
    """Say the first content, which has the picture, and then all else."""
    for text, content in [(FIRST, first), *((each, each) for each in LATER)]:
        print(f"> {text[:80]}\n{ask(content)}")


def _chunk(kind: bytes, data: bytes) -> bytes:
    checked = kind + data
    return (
        struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))
    )


def _png(width: int, height: int) -> bytes:
    """A picture of nothing but blue."""
    head = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x1e\x6f\xb8" * width) * height
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)


PICTURE = base64.b64encode(_png(96, 64)).decode()
