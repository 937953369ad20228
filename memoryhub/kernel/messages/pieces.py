"""Pieces: what the three writings share: what is said, called and answered, as text.

Pure. A format gets pieces that are paired and named already, and says each its own way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from memoryhub.kernel.messages.message import Call, Medium, Part, Result
from memoryhub.kernel.text import numbers

Json = dict[str, Any]

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PDF = "application/pdf"
#: Both take the ids of the same store of files.
OPENAI = frozenset({"chat", "responses"})
DETAILS = frozenset({"low", "high", "auto"})

_UNDEFINED = "It was called before, and is not at hand now."
#: How the base64 begins of what does not say its type.
_BEGINNINGS = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi0": PDF,
}
_OTHER_NAMES = {"image/jpg": "image/jpeg"}
_BASE64 = re.compile("[A-Za-z0-9+/]+={0,2}")
_WEB = re.compile(r"https?://[^\s\ud800-\udfff]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    separators=(",", ":"),
    check_circular=False,
    default=numbers.marked,
)


class Speech(NamedTuple):
    """A message, or what one says beside its calls or results."""

    role: str
    parts: Sequence[Part] = ()
    #: Of the speaker, as a request may have it.
    name: str | None = None
    #: Of an assistant.
    refusal: str | None = None
    #: Signed ones, as they came.
    thoughts: Sequence[Json] = ()
    #: Whether cache points of the client's stand.
    cached: bool = False


class Use(NamedTuple):
    """A call under the id and the name that it has in the request."""

    id: str
    name: str
    call: Call
    #: The JSON text of an object.
    arguments: str
    #: Whether signatures of providers stand.
    signed: bool = False
    cached: bool = False


class Answer(NamedTuple):
    """The one result of a call."""

    use: Use
    parts: Sequence[Part] = ()
    failed: bool = False
    #: What is answered with; without one nothing was recorded.
    result: Result | None = None
    cached: bool = False


class Format(NamedTuple):
    """How one API takes messages."""

    #: Of the request's messages.
    field: str
    #: A message; "" where it says nothing.
    message: Callable[[Speech], str]
    #: What calls tools, a text each; together one message, or one after another.
    uses: Callable[[Sequence[tuple[Speech, Sequence[Use]]]], list[str]]
    #: Results of all of these calls, a text each.
    answers: Callable[[Sequence[Answer]], list[str]]
    #: Parts of a result that only a user's message can show.
    aside: Callable[[Answer], Sequence[Part]]
    #: A signed thought, if the format takes it back.
    thought: Callable[[Any], Json | None]
    #: The definition of a tool; of one that chat completions take.
    tool: Callable[[Json], Json]
    #: What an id of a call may be.
    call_id: re.Pattern[str]
    #: The head stands beside the messages, which begin with the user's.
    apart: bool = False


def written(value: Any) -> str:
    """Dump compact JSON that any strict parser takes: without halves of characters."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:
        # What no JSON has as a number is a text.
        plain = json.dumps(value, default=numbers.marked)
        text = _ENCODER.encode(json.loads(plain, parse_constant=str))
    text = numbers.restored(text)
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def line(part: Part) -> str:
    """Return a part as words: its text, or a line about its medium and what it says."""
    words = part.words.strip()
    if part.kind in ("text", "data"):
        return part.words if words else ""
    if words.startswith(f"[{part.kind}") or (part.kind == "audio" and words):
        return words
    about = f"[{_about(part.kind, part.medium or Medium())}]"
    if not words or (part.medium and words == part.medium.name):
        return about
    return f"{about}\n{words}" if "\n" in words else f"{about} {words}"


def _about(kind: str, medium: Medium) -> str:
    found = [kind]
    if medium.name:
        found.append(" " + " ".join(medium.name.split()))
    if medium.width and medium.height:
        found.append(f" {medium.width}×{medium.height}")
    if medium.seconds is not None:
        found.append(f" {medium.seconds:g} s")
    if medium.mime_type and not medium.name:
        found.append(", " + medium.mime_type.rpartition("/")[2])
    if medium.pages:
        found.append(f", {medium.pages} pages")
    return "".join(found)


def in_words(parts: Iterable[Part]) -> str:
    """Return parts as one text, media as lines."""
    return "\n".join(filter(None, map(line, parts)))


def content(
    parts: Sequence[Part], medium: Callable[[Part], Json | None], *, text: str
) -> str | list[Json]:
    """Return parts as one text, or, if one is a medium there, as parts of a message."""
    media = [medium(part) for part in parts]
    if not any(media):
        return in_words(parts)
    found = [
        shown or {"type": text, "text": line(part)}
        for part, shown in zip(parts, media, strict=True)
    ]
    return [each for each in found if each["type"] != text or each["text"]]


def spoken(speech: Speech) -> str:
    """Return all that an assistant says as one text; white space at its end is none."""
    texts = (in_words(speech.parts), speech.refusal or "")
    return "\n".join(text for text in texts if text.strip()).rstrip()


def answered(answer: Answer) -> str:
    """Return a result as one text, which says if the tool failed."""
    text = in_words(answer.parts)
    return f"[failed] {text}".rstrip() if answer.failed else text


def encoded(medium: Medium) -> tuple[str, str] | None:
    """Return a medium's type and its base64, if it has both and they are sound."""
    data = medium.base64
    if not data or len(data) % 4 or not _BASE64.fullmatch(data):
        return None
    sent = (medium.mime_type or "").partition(";")[0].strip().lower()
    kind = _OTHER_NAMES.get(sent, sent) or next(
        (kind for start, kind in _BEGINNINGS.items() if data.startswith(start)), ""
    )
    return (kind, data) if kind else None


def image_url(medium: Medium) -> str | None:
    """Return where a picture is as OpenAI's formats take it: on the web, or as data."""
    if found := encoded(medium):
        kind, data = found
        return f"data:{kind};base64,{data}" if kind in IMAGES else None
    return web_url(medium)


def web_url(medium: Medium) -> str | None:
    """Return the address of a medium, if it can be fetched from there."""
    url = medium.url
    return url if url and _WEB.fullmatch(url) else None


def pdf_data(medium: Medium) -> str | None:
    """Return a PDF as a URL that holds it."""
    found = encoded(medium)
    return f"data:{PDF};base64,{found[1]}" if found and found[0] == PDF else None


def sent_in(piece: Part | Call | Result, vendor: str) -> Json:
    """Return how a piece came, if it came in this format; else nothing."""
    sent = piece.sent if piece.vendor == vendor else None
    return sent if isinstance(sent, dict) else {}


def function(tool: Json) -> Json:
    """Return the function of a definition, without members that are null."""
    return {key: each for key, each in tool["function"].items() if each is not None}


def schema(parameters: Any) -> Json:
    """Return the schema of an object, whatever a client gave for one."""
    given = parameters if isinstance(parameters, dict) else {}
    return given if given.get("type") == "object" else {**given, "type": "object"}


def stub(name: str) -> Json:
    """Return a definition for a tool that is called and has none."""
    nothing = {"type": "object", "properties": dict[str, Any]()}
    called = {"name": name, "description": _UNDEFINED, "parameters": nothing}
    return {"type": "function", "function": called}
