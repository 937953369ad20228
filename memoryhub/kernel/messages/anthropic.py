"""Writer of messages as blocks of Anthropic's Messages API. Pure.

Results of a message's calls are the first blocks of the user's next message. Several
pages can therefore make one message, whose texts are joined by commas like all others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from memoryhub.kernel.messages import pieces
from memoryhub.kernel.messages.message import MessagePart
from memoryhub.kernel.messages.pieces import (
    CallAnswer,
    Json,
    MessageFormat,
    MessageSpeech,
    NamedCall,
    dump_strict,
)
from memoryhub.kernel.messages.values import to_list

_TITLE = str | None
_BLOCKS = {"start_block_index": int, "end_block_index": int}
_PLACED = {"document_title": _TITLE, "document_index": int}
_FOUND = {"title": _TITLE, "source": str, "search_result_index": int}
#: Members of a citation beside its text, by the citation's type.
_CITED: dict[str, dict[str, Any]] = {
    "char_location": {**_PLACED, "start_char_index": int, "end_char_index": int},
    "page_location": {**_PLACED, "start_page_number": int, "end_page_number": int},
    "content_block_location": {**_PLACED, **_BLOCKS},
    "search_result_location": {**_FOUND, **_BLOCKS},
    "web_search_result_location": {"title": _TITLE, "url": str, "encrypted_index": str},
}


def _write_message(speech: MessageSpeech) -> str:
    blocks = _build_blocks(speech)
    if not blocks:
        return ""
    content: Any = blocks
    if len(blocks) == 1 and {*blocks[0]} == {"type", "text"}:
        content = blocks[0]["text"]
    thoughts = [*speech.thoughts]
    if thoughts:
        content = [*thoughts, *blocks]
    return dump_strict({"role": speech.role, "content": content})


def _build_blocks(speech: MessageSpeech) -> list[Json]:
    speaks = speech.role == "assistant"
    blocks = [
        block
        for part in speech.parts
        if (block := _build_block(part, speech, media=not speaks))
    ]
    if speech.refusal:
        blocks.append({"type": "text", "text": speech.refusal})
    if speaks and blocks and blocks[-1]["type"] == "text":
        # The API refuses a last text that ends in white space, and any text may be
        # last.
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
    return blocks


def _build_block(
    part: MessagePart, of: MessageSpeech | CallAnswer, *, media: bool
) -> Json | None:
    sent = pieces.get_sent(part, "anthropic")
    point = _get_cache_point(sent) if of.cached else {}
    if part.kind == "data" and sent:
        # A block of a tool that the server ran; see `server_tools`.
        own = {key: each for key, each in sent.items() if key != "cache_control"}
        return {**own, **point}
    if media and (medium := _build_medium(part, sent)):
        return {**medium, **point}
    text = part.words if part.kind == "text" else pieces.render_part(part)
    if not text.strip():
        return None
    found = {"type": "text", "text": text, **point}
    cited = () if media else map(parse_citation, to_list(sent.get("citations")))
    sound = [*filter(None, cited)]
    if isinstance(of, CallAnswer):
        # The index points into a search's own result, which a tool does not have.
        sound = [each for each in sound if "encrypted_index" not in each]
    if sound:
        found["citations"] = sound
    return found


def _get_cache_point(sent: Json) -> Json:
    point = sent.get("cache_control")
    if not isinstance(point, dict) or point.get("type") != "ephemeral":
        return {}
    ttl = {"ttl": point["ttl"]} if point.get("ttl") in ("5m", "1h") else {}
    return {"cache_control": {"type": "ephemeral", **ttl}}


def parse_citation(sent: Any) -> Json | None:
    """Return a citation's members that may be sent back; None if any is missing."""
    where = _CITED.get(str(sent.get("type"))) if isinstance(sent, dict) else None
    if where is None:
        return None
    kinds = {"type": str, "cited_text": str, **where}
    found = {name: sent.get(name) for name in kinds}
    sound = (isinstance(each, kinds[name]) for name, each in found.items())
    flags = (isinstance(each, bool) for each in found.values())
    return found if all(sound) and not any(flags) else None


def _build_medium(part: MessagePart, sent: Json) -> Json | None:
    if sent.get("type") == "search_result":
        return _build_search_result(sent)
    if part.kind not in ("image", "file"):
        return None
    source = _build_source(part) or _build_text_source(sent)
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
    return {**found, **_get_citations_setting(sent)}


def _build_source(part: MessagePart) -> Json | None:
    medium = part.medium
    if medium is None:
        return None
    if medium.file_id and part.vendor == "anthropic":
        return {"type": "file", "file_id": medium.file_id}
    if found := pieces.get_encoded(medium):
        kind, data = found
        taken = kind in pieces.IMAGES if part.kind == "image" else kind == pieces.PDF
        return {"type": "base64", "media_type": kind, "data": data} if taken else None
    url = pieces.get_web_url(medium)
    taken = part.kind == "image" or part.vendor == "anthropic"
    taken = taken or medium.mime_type == pieces.PDF
    return {"type": "url", "url": url} if url and taken else None


def _build_text_source(sent: Json) -> Json | None:
    """Build the source of a document that came as text; None for any other."""
    source = sent.get("source") if sent.get("type") == "document" else None
    kind = ("text", "text/plain")
    if not isinstance(source, dict) or not _has_text(source.get("data")):
        return None
    same = (source.get("type"), source.get("media_type")) == kind
    return (
        {"type": kind[0], "media_type": kind[1], "data": source["data"]}
        if same
        else None
    )


def _build_search_result(sent: Json) -> Json | None:
    members = {key: sent.get(key) for key in ("type", "source", "title", "content")}
    stated = _has_text(members["source"]) and _has_text(members["title"])
    content = members["content"]
    texts = isinstance(content, list) and all(map(_is_text_block, content))
    return (
        {**members, **_get_citations_setting(sent)}
        if stated and content and texts
        else None
    )


def _get_citations_setting(sent: Json) -> Json:
    citations = sent.get("citations")
    enabled = citations.get("enabled") if isinstance(citations, dict) else None
    return {"citations": {"enabled": enabled}} if isinstance(enabled, bool) else {}


def _has_text(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _is_text_block(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and {*block} == {"type", "text"}
        and block["type"] == "text"
        and _has_text(block["text"])
    )


def _write_calls(
    heads: Sequence[tuple[MessageSpeech, Sequence[NamedCall]]],
) -> list[str]:
    """Write all calls of one message; the first text begins with the speech."""
    texts = list[str]()
    for speech, uses in heads:
        blocks = map(dump_strict, [*speech.thoughts, *_build_blocks(speech)])
        texts.append(",".join([*blocks, *map(_write_call, uses)]))
    texts[0] = f'{{"role":"assistant","content":[{texts[0]}'
    texts[-1] += "]}"
    return texts


def _write_call(use: NamedCall) -> str:
    arguments = use.arguments
    if use.call.kind == "custom":
        arguments = dump_strict({"input": use.call.arguments})
    named = dump_strict({"type": "tool_use", "id": use.id, "name": use.name})
    point = (
        _get_cache_point(pieces.get_sent(use.call, "anthropic")) if use.cached else {}
    )
    # The arguments stay as they came, to the last digit.
    text = f'{named[:-1]},"input":{arguments}'
    return f"{text},{dump_strict(point)[1:]}" if point else text + "}"


def _write_answers(answers: Sequence[CallAnswer]) -> list[str]:
    texts = [dump_strict(_build_answer(each)) for each in answers]
    texts[0] = f'{{"role":"user","content":[{texts[0]}'
    texts[-1] += "]}"
    return texts


def _build_answer(answer: CallAnswer) -> Json:
    # The API takes only text from a failed tool.
    shown = [
        _build_block(part, answer, media=not answer.failed) for part in answer.parts
    ]
    blocks = [block for block in shown if block]
    content: Any = blocks
    if all({*block} == {"type", "text"} for block in blocks):
        content = pieces.render_parts(answer.parts)
    found: Json = {
        "type": "tool_result",
        "tool_use_id": answer.use.id,
        "content": content,
    }
    if answer.failed:
        found["is_error"] = True
    if answer.cached and answer.result:
        found |= _get_cache_point(pieces.get_sent(answer.result, "anthropic"))
    return found


def _list_aside(answer: CallAnswer) -> Sequence[MessagePart]:
    """Return no parts: results have blocks of all kinds."""
    return ()


def _parse_thought(sent: Any) -> Json | None:
    if not isinstance(sent, dict):
        return None
    found = {key: each for key, each in sent.items() if each is not None}
    if {*found} == {"type", "thinking", "signature"}:
        signed = found["type"] == "thinking" and isinstance(found["thinking"], str)
        return found if signed and _has_text(found["signature"]) else None
    redacted = {*found} == {"type", "data"} and found["type"] == "redacted_thinking"
    return found if redacted and _has_text(found["data"]) else None


def _build_tool(tool: Json) -> Json:
    called = pieces.get_function(tool)
    about = called.get("description")
    described = {"description": about} if about else {}
    found = {
        "name": called["name"],
        "input_schema": pieces.build_schema(called.get("parameters")),
    }
    return {**found, **described}


ANTHROPIC = MessageFormat(
    field="messages",
    message=_write_message,
    uses=_write_calls,
    answers=_write_answers,
    aside=_list_aside,
    thought=_parse_thought,
    tool=_build_tool,
    call_id=re.compile("[A-Za-z0-9_-]{1,64}"),
    apart=True,
    stubs=True,
)
