"""Pieces shared by the four writers: speech, calls and answers, as text.

Pure. A format gets pieces that are already paired and named, and writes each in its own
shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from memoryhub.kernel.messages.message import Call, Medium, MessagePart, Result
from memoryhub.kernel.text import numbers, strict_json
from memoryhub.kernel.text.strict_json import JsonLimits, JsonRefusedError

Json = dict[str, Any]

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PDF = "application/pdf"
#: Vendors that take file ids of the same store.
OPENAI = frozenset({"chat", "responses"})
DETAILS = frozenset({"low", "high", "auto"})

#: Limits of arguments: a text, which may be longer than JSON that comes in as content.
_ARGUMENTS = JsonLimits(
    max_bytes=64 << 20,
    max_depth=64,
    max_nodes=1_000_000,
    max_key_bytes=1 << 16,
    content=True,
)
_UNDEFINED = "It was called before, and is not at hand now."
#: Beginnings of base64, for media without a type.
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
    default=numbers.mark_number,
)


class MessageSpeech(NamedTuple):
    """A message, or the speech of one beside its calls or results."""

    role: str
    parts: Sequence[MessagePart] = ()
    #: Name of the speaker, in the form a request may have.
    name: str | None = None
    #: Refusal of an assistant.
    refusal: str | None = None
    #: Signed thoughts, as they came.
    thoughts: Sequence[Json] = ()
    #: Whether the client's cache points are kept.
    cached: bool = False
    #: Phase of an assistant's message, as Responses names it.
    phase: str | None = None


class NamedCall(NamedTuple):
    """A call with its id and name in the request."""

    id: str
    name: str
    call: Call
    #: Arguments as the JSON text of an object.
    arguments: str
    #: Whether signatures of providers are kept.
    signed: bool = False
    cached: bool = False


class CallAnswer(NamedTuple):
    """The one result of a call."""

    use: NamedCall
    parts: Sequence[MessagePart] = ()
    failed: bool = False
    #: The recorded result; None if none was recorded.
    result: Result | None = None
    cached: bool = False


class MessageFormat(NamedTuple):
    """Functions that write messages in the shape of one API."""

    #: Name of the request's member that holds messages.
    field: str
    #: Writes a message; "" for an empty one.
    message: Callable[[MessageSpeech], str]
    #: Writes messages with calls, a text each; together one message, or one after
    #: another.
    uses: Callable[[Sequence[tuple[MessageSpeech, Sequence[NamedCall]]]], list[str]]
    #: Writes results of all these calls, a text each.
    answers: Callable[[Sequence[CallAnswer]], list[str]]
    #: Returns parts of a result that only a user's message can show.
    aside: Callable[[CallAnswer], Sequence[MessagePart]]
    #: Returns a signed thought, if the API takes it back.
    thought: Callable[[Any], Json | None]
    #: Builds the definition of a tool from that of chat completions.
    tool: Callable[[Json], Json]
    #: Pattern of allowed call ids.
    call_id: re.Pattern[str]
    #: The head stands beside the messages, and the first message is the user's.
    apart: bool = False
    #: Text before and after a head that stands beside the messages.
    head: tuple[str, str] = ('"system":', "")
    #: Writes a text of a role, given as JSON; None: as `{"role":…,"content":…}`.
    plain: Callable[[str, str], str] | None = None
    #: Joins texts of a request that may not follow one another; their number stays.
    join: Callable[[Sequence[str]], list[str]] | None = None
    #: Member that groups the definitions of tools; "" for none.
    tools: str = ""
    #: Whether a tool that is called must be defined.
    stubs: bool = False
    #: Whether the name of a tool must begin with a letter or an underscore.
    lettered: bool = False


def dump_strict(value: Any) -> str:
    """Dump compact JSON that any strict parser takes, lone surrogates replaced."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:
        # NaN and infinities, which JSON lacks, become texts.
        plain = json.dumps(value, default=numbers.mark_number)
        text = _ENCODER.encode(json.loads(plain, parse_constant=str))
    text = numbers.restore_numbers(text)
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def is_object(text: str) -> bool:
    """Return whether a text is strict JSON of an object, within the limits."""
    try:
        return isinstance(strict_json.parse(text.encode(), _ARGUMENTS), dict)
    except (JsonRefusedError, UnicodeEncodeError, RecursionError):
        return False


def render_object(arguments: str) -> str:
    """Render arguments as the text of an object without loss, whatever the model wrote.

    The text of an object stays as it came, to the last digit.
    """
    if arguments.strip() in ("", "null", "{}"):
        return "{}"
    return arguments if is_object(arguments) else dump_strict({"input": arguments})


def render_part(part: MessagePart) -> str:
    """Render a part as words: its text, or a line about its medium with its words."""
    words = part.words.strip()
    if part.kind in ("text", "data"):
        return part.words if words else ""
    if words.startswith(f"[{part.kind}") or (part.kind == "audio" and words):
        return words
    about = f"[{_describe_medium(part.kind, part.medium or Medium())}]"
    if not words or (part.medium and words == part.medium.name):
        return about
    return f"{about}\n{words}" if "\n" in words else f"{about} {words}"


def _describe_medium(kind: str, medium: Medium) -> str:
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


def render_parts(parts: Iterable[MessagePart]) -> str:
    """Render parts as one text, media as lines."""
    return "\n".join(filter(None, map(render_part, parts)))


def replace_media(parts: Iterable[MessagePart]) -> list[MessagePart]:
    """Replace media among the parts by lines of text."""
    return [
        each
        if each.kind in ("text", "data")
        else MessagePart(kind="text", words=render_part(each))
        for each in parts
    ]


def build_content(
    parts: Sequence[MessagePart],
    medium: Callable[[MessagePart], Json | None],
    *,
    text: str,
) -> str | list[Json]:
    """Build one text from parts, or a list of parts if `medium` can build any part."""
    media = [medium(part) for part in parts]
    if not any(media):
        return render_parts(parts)
    found = [
        shown or {"type": text, "text": render_part(part)}
        for part, shown in zip(parts, media, strict=True)
    ]
    return [each for each in found if each["type"] != text or each["text"]]


def render_speech(speech: MessageSpeech) -> str:
    """Render an assistant's speech as one text, without white space at its end."""
    texts = (render_parts(speech.parts), speech.refusal or "")
    return "\n".join(text for text in texts if text.strip()).rstrip()


def render_answer(answer: CallAnswer) -> str:
    """Render a result as one text, marked if the tool failed."""
    text = render_parts(answer.parts)
    return f"[failed] {text}".rstrip() if answer.failed else text


def get_encoded(medium: Medium) -> tuple[str, str] | None:
    """Return a medium's type and base64, if it has both and the base64 is valid."""
    data = medium.base64
    if not data or len(data) % 4 or not _BASE64.fullmatch(data):
        return None
    sent = (medium.mime_type or "").partition(";")[0].strip().lower()
    kind = _OTHER_NAMES.get(sent, sent) or next(
        (kind for start, kind in _BEGINNINGS.items() if data.startswith(start)), ""
    )
    return (kind, data) if kind else None


def build_image_url(medium: Medium) -> str | None:
    """Return a picture's URL as OpenAI's formats take it: on the web, or as data."""
    if found := get_encoded(medium):
        kind, data = found
        return f"data:{kind};base64,{data}" if kind in IMAGES else None
    return get_web_url(medium)


def get_web_url(medium: Medium) -> str | None:
    """Return the address of a medium, if it is a web address."""
    url = medium.url
    return url if url and _WEB.fullmatch(url) else None


def build_pdf_url(medium: Medium) -> str | None:
    """Build the data URL of a PDF; None for other media."""
    found = get_encoded(medium)
    return f"data:{PDF};base64,{found[1]}" if found and found[0] == PDF else None


def get_sent(piece: MessagePart | Call | Result, vendor: str) -> Json:
    """Return a piece as it came, if it came in this vendor's format; else empty."""
    sent = piece.sent if piece.vendor == vendor else None
    return sent if isinstance(sent, dict) else {}


def get_function(tool: Json) -> Json:
    """Return the function of a definition, without members that are null."""
    return {key: each for key, each in tool["function"].items() if each is not None}


def build_schema(parameters: Any) -> Json:
    """Build the schema of an object from whatever parameters a client gave."""
    given = parameters if isinstance(parameters, dict) else {}
    return given if given.get("type") == "object" else {**given, "type": "object"}


def build_stub(name: str) -> Json:
    """Build a definition for a tool that is called but has none."""
    nothing = {"type": "object", "properties": dict[str, Any]()}
    called = {"name": name, "description": _UNDEFINED, "parameters": nothing}
    return {"type": "function", "function": called}
