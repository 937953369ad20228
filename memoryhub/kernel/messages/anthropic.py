"""Anthropic's Messages: how they take messages, as blocks. Pure.

Results of a message's calls are the first blocks of the user's next; so several pages
can make one message, whose texts are joined by commas like all others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from memoryhub.kernel.messages import pieces
from memoryhub.kernel.messages.message import Part
from memoryhub.kernel.messages.pieces import Answer, Format, Json, Speech, Use, written
from memoryhub.kernel.messages.values import listed

_TITLE = str | None
_BLOCKS = {"start_block_index": int, "end_block_index": int}
_PLACED = {"document_title": _TITLE, "document_index": int}
_FOUND = {"title": _TITLE, "source": str, "search_result_index": int}
#: By the type of a citation what it says beside the text.
_CITED: dict[str, dict[str, Any]] = {
    "char_location": {**_PLACED, "start_char_index": int, "end_char_index": int},
    "page_location": {**_PLACED, "start_page_number": int, "end_page_number": int},
    "content_block_location": {**_PLACED, **_BLOCKS},
    "search_result_location": {**_FOUND, **_BLOCKS},
    "web_search_result_location": {"title": _TITLE, "url": str, "encrypted_index": str},
}


def _message(speech: Speech) -> str:
    blocks = _blocks(speech)
    if not blocks:
        return ""
    content: Any = blocks
    if len(blocks) == 1 and {*blocks[0]} == {"type", "text"}:
        content = blocks[0]["text"]
    thoughts = [*speech.thoughts]
    if thoughts:
        content = [*thoughts, *blocks]
    return written({"role": speech.role, "content": content})


def _blocks(speech: Speech) -> list[Json]:
    speaks = speech.role == "assistant"
    blocks = [
        block
        for part in speech.parts
        if (block := _block(part, speech, media=not speaks))
    ]
    if speech.refusal:
        blocks.append({"type": "text", "text": speech.refusal})
    if speaks and blocks:
        # The API refuses a last text that ends in white space, and any may be the last.
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
    return blocks


def _block(part: Part, of: Speech | Answer, *, media: bool) -> Json | None:
    sent = pieces.sent_in(part, "anthropic")
    point = _point(sent) if of.cached else {}
    if media and (medium := _medium(part, sent)):
        return {**medium, **point}
    text = part.words if part.kind == "text" else pieces.line(part)
    if not text.strip():
        return None
    found = {"type": "text", "text": text, **point}
    cited = () if media else map(_citation, listed(sent.get("citations")))
    if sound := [*filter(None, cited)]:
        found["citations"] = sound
    return found


def _point(sent: Json) -> Json:
    point = sent.get("cache_control")
    if not isinstance(point, dict) or point.get("type") != "ephemeral":
        return {}
    ttl = {"ttl": point["ttl"]} if point.get("ttl") in ("5m", "1h") else {}
    return {"cache_control": {"type": "ephemeral", **ttl}}


def _citation(sent: Any) -> Json | None:
    """A citation with what may be sent back of it; None if some of that is missing."""
    where = _CITED.get(str(sent.get("type"))) if isinstance(sent, dict) else None
    if where is None:
        return None
    kinds = {"type": str, "cited_text": str, **where}
    found = {name: sent.get(name) for name in kinds}
    sound = (isinstance(each, kinds[name]) for name, each in found.items())
    flags = (isinstance(each, bool) for each in found.values())
    return found if all(sound) and not any(flags) else None


def _medium(part: Part, sent: Json) -> Json | None:
    if sent.get("type") == "search_result":
        return _search_result(sent)
    if part.kind not in ("image", "file"):
        return None
    source = _source(part) or _own_source(sent)
    if source is None:
        return None
    if part.kind == "image":
        return {"type": "image", "source": source}
    found: Json = {"type": "document", "source": source}
    title = sent.get("title") or (part.medium and part.medium.name)
    if isinstance(title, str) and title:
        found["title"] = title
    if isinstance(sent.get("context"), str) and sent["context"]:
        found["context"] = sent["context"]
    return {**found, **_enabled(sent)}


def _source(part: Part) -> Json | None:
    medium = part.medium
    if medium is None:
        return None
    if medium.file_id and part.vendor == "anthropic":
        return {"type": "file", "file_id": medium.file_id}
    if found := pieces.encoded(medium):
        kind, data = found
        taken = kind in pieces.IMAGES if part.kind == "image" else kind == pieces.PDF
        return {"type": "base64", "media_type": kind, "data": data} if taken else None
    url = pieces.web_url(medium)
    taken = part.kind == "image" or part.vendor == "anthropic"
    taken = taken or medium.mime_type == pieces.PDF
    return {"type": "url", "url": url} if url and taken else None


def _own_source(sent: Json) -> Json | None:
    """A document that came as text."""
    source = sent.get("source") if sent.get("type") == "document" else None
    kind = ("text", "text/plain")
    if not isinstance(source, dict) or not _stated(source.get("data")):
        return None
    same = (source.get("type"), source.get("media_type")) == kind
    return (
        {"type": kind[0], "media_type": kind[1], "data": source["data"]}
        if same
        else None
    )


def _search_result(sent: Json) -> Json | None:
    members = {key: sent.get(key) for key in ("type", "source", "title", "content")}
    stated = _stated(members["source"]) and _stated(members["title"])
    content = members["content"]
    texts = isinstance(content, list) and all(map(_text_block, content))
    return {**members, **_enabled(sent)} if stated and content and texts else None


def _enabled(sent: Json) -> Json:
    citations = sent.get("citations")
    enabled = citations.get("enabled") if isinstance(citations, dict) else None
    return {"citations": {"enabled": enabled}} if isinstance(enabled, bool) else {}


def _stated(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _text_block(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and {*block} == {"type", "text"}
        and block["type"] == "text"
        and _stated(block["text"])
    )


def _uses(heads: Sequence[tuple[Speech, Sequence[Use]]]) -> list[str]:
    """All of one message, which begins with what is said beside the first."""
    texts = list[str]()
    for speech, uses in heads:
        blocks = map(written, [*speech.thoughts, *_blocks(speech)])
        texts.append(",".join([*blocks, *map(_use, uses)]))
    texts[0] = f'{{"role":"assistant","content":[{texts[0]}'
    texts[-1] += "]}"
    return texts


def _use(use: Use) -> str:
    arguments = use.arguments
    if use.call.kind == "custom":
        arguments = written({"input": use.call.arguments})
    named = written({"type": "tool_use", "id": use.id, "name": use.name})
    point = _point(pieces.sent_in(use.call, "anthropic")) if use.cached else {}
    # As it came, to the last digit.
    text = f'{named[:-1]},"input":{arguments}'
    return f"{text},{written(point)[1:]}" if point else text + "}"


def _answers(answers: Sequence[Answer]) -> list[str]:
    texts = [written(_answer(each)) for each in answers]
    texts[0] = f'{{"role":"user","content":[{texts[0]}'
    texts[-1] += "]}"
    return texts


def _answer(answer: Answer) -> Json:
    # A failed tool has nothing but text there.
    shown = [_block(part, answer, media=not answer.failed) for part in answer.parts]
    blocks = [block for block in shown if block]
    content: Any = blocks
    if all({*block} == {"type", "text"} for block in blocks):
        content = pieces.in_words(answer.parts)
    found: Json = {
        "type": "tool_result",
        "tool_use_id": answer.use.id,
        "content": content,
    }
    if answer.failed:
        found["is_error"] = True
    if answer.cached and answer.result:
        found |= _point(pieces.sent_in(answer.result, "anthropic"))
    return found


def _aside(answer: Answer) -> Sequence[Part]:
    """None: results have blocks of all kinds."""
    return ()


def _thought(sent: Any) -> Json | None:
    if not isinstance(sent, dict):
        return None
    found = {key: each for key, each in sent.items() if each is not None}
    if {*found} == {"type", "thinking", "signature"}:
        signed = found["type"] == "thinking" and isinstance(found["thinking"], str)
        return found if signed and _stated(found["signature"]) else None
    redacted = {*found} == {"type", "data"} and found["type"] == "redacted_thinking"
    return found if redacted and _stated(found["data"]) else None


def _tool(tool: Json) -> Json:
    called = pieces.function(tool)
    about = called.get("description")
    described = {"description": about} if about else {}
    found = {
        "name": called["name"],
        "input_schema": pieces.schema(called.get("parameters")),
    }
    return {**found, **described}


ANTHROPIC = Format(
    field="messages",
    message=_message,
    uses=_uses,
    answers=_answers,
    aside=_aside,
    thought=_thought,
    tool=_tool,
    call_id=re.compile("[A-Za-z0-9_-]{1,64}"),
    apart=True,
)
