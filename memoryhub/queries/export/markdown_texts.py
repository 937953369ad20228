"""Markdown of exported memory, in which texts of agents are inert. Pure.

Agents' texts stand in code only, fenced by more backticks than the text has in a row:
no text ends its block, and no renderer takes it for Markdown or HTML.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from memoryhub.queries.replay import exact_json

ERASED: Final = "*Erased.*\n"
#: Longest text, in characters, that stands in a line.
_INLINE: Final = 200
#: Longest name of a file without its suffix; file systems take 255 bytes.
_LONGEST: Final = 150
_KEPT: Final = 100
#: Names of devices on Windows, whatever follows after a point.
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)")
_SIGNS: Final = re.compile(r"[^a-z0-9@._-]")
_TICKS: Final = re.compile(r"`+")
_LINE_ENDS: Final = re.compile(r"[\0-\x1f\x7f\x85\u2028\u2029]")


def encode_file_name(name: str) -> str:
    """Return a name as the name of a file on any system, without a suffix.

    Percent-encoded, capitals too, for some systems ignore case. A long name is cut and
    ends with `~` and a digest.
    """
    safe = _SIGNS.sub(_escape_sign, name)
    if _DEVICES.match(safe) or safe.startswith("."):
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    if safe.endswith("."):
        safe = f"{safe[:-1]}%2E"
    if len(safe) <= _LONGEST:
        return safe
    digest = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
    return f"{safe[:_KEPT]}~{digest}"


def render_code(text: str) -> str:
    """Render a short text as code in a line; line ends and controls as JSON escapes."""
    if _LINE_ENDS.search(text):
        text = exact_json.dump_line(text).decode()
    fence = "`" * (_measure_ticks(text) + 1)
    # A renderer takes one space off both ends.
    pad = " " if not text.strip("` ") or text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def render_block(text: str, info: str = "") -> str:
    """Render a text as a block of code."""
    fence = "`" * max(3, _measure_ticks(text) + 1)
    return f"{fence}{info}\n{text}\n{fence}\n"


def render_value(value: Any) -> str:
    """Render a text, or any other value as JSON, as a block of code."""
    if isinstance(value, str):
        return render_block(value)
    text = exact_json.dump_json(value, option=orjson.OPT_INDENT_2)
    return render_block(text.decode(), "json")


def render_field(name: str, value: Any) -> str:
    """Render a named value as an item of a list, with a block if it is long."""
    if isinstance(value, bool | int | float | datetime | UUID):
        return f"- {name}: {_render_plain(value)}\n"
    text = value if isinstance(value, str) else exact_json.dump_json(value).decode()
    if len(text) <= _INLINE and not _LINE_ENDS.search(text):
        return f"- {name}: {render_code(text)}\n"
    return f"- {name}:\n\n{render_value(value)}\n"


def render_record(record: Any, *, content: str = "", omit: Collection[str] = ()) -> str:
    """Render the fields of a record that have a value.

    `content` names the field of content that is erased if it has no value.
    """
    texts = []
    for each in fields(record):
        if each.name in omit:
            continue
        value = getattr(record, each.name)
        # A key's value may be null: the record says whether it was erased.
        if each.name == content and value is None and getattr(record, "erased", True):
            texts.append(f"- {each.name}: {ERASED}")
        elif each.name == content or value not in (None, {}, (), []):
            texts.append(render_field(each.name.replace("_", " "), value))
    return "".join(texts)


def format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _render_plain(value: float | datetime | UUID) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_time(value) if isinstance(value, datetime) else str(value)


def _escape_sign(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def _measure_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
