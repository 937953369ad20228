"""Writer of messages as input items of the Responses API. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from memoryhub.kernel.messages import pieces
from memoryhub.kernel.messages.message import Medium, MessagePart
from memoryhub.kernel.messages.pieces import (
    CallAnswer,
    Json,
    MessageFormat,
    MessageSpeech,
    NamedCall,
    dump_strict,
)

_STATUSES = ("in_progress", "completed", "incomplete")
_REASONING = {"type", "id", "summary", "content", "encrypted_content", "status"}


def _write_message(speech: MessageSpeech) -> str:
    # Parts of an assistant's message would need their original id.
    assistant = speech.role == "assistant"
    content = (
        pieces.render_speech(speech) if assistant else _build_content(speech.parts)
    )
    phase = {"phase": speech.phase} if assistant and speech.phase else {}
    fields = {"role": speech.role, "content": content, **phase}
    message = [dump_strict(fields)] if content else []
    return ",".join([*map(dump_strict, speech.thoughts), *message])


def _build_content(parts: Sequence[MessagePart]) -> str | list[Json]:
    return pieces.build_content(parts, _build_medium, text="input_text")


def _build_medium(part: MessagePart) -> Json | None:
    medium = part.medium
    if medium is None:
        return None
    stored = medium.file_id if part.vendor in pieces.OPENAI else None
    if part.kind == "image":
        detail = medium.detail if medium.detail in pieces.DETAILS else "auto"
        if stored:
            return {"type": "input_image", "file_id": stored, "detail": detail}
        url = pieces.build_image_url(medium)
        found = {"type": "input_image", "image_url": url, "detail": detail}
        return found if url else None
    file = _build_file(medium, stored) if part.kind == "file" else None
    return {"type": "input_file", **file} if file else None


def _build_file(medium: Medium, stored: str | None) -> Json | None:
    if stored:
        return {"file_id": stored}
    if data := pieces.build_pdf_url(medium):
        return {"filename": medium.name or "file.pdf", "file_data": data}
    url = pieces.get_web_url(medium)
    return {"file_url": url} if url else None


def _write_calls(
    heads: Sequence[tuple[MessageSpeech, Sequence[NamedCall]]],
) -> list[str]:
    return [
        ",".join(filter(None, [_write_message(speech), *map(_write_call, uses)]))
        for speech, uses in heads
    ]


def _write_call(use: NamedCall) -> str:
    named = {"call_id": use.id, "name": use.name}
    if use.call.kind == "custom":
        found = {"type": "custom_tool_call", **named, "input": use.call.arguments}
    else:
        found = {"type": "function_call", **named, "arguments": use.arguments}
    return dump_strict(found)


def _write_answers(answers: Sequence[CallAnswer]) -> list[str]:
    return [dump_strict(_build_answer(each)) for each in answers]


def _build_answer(answer: CallAnswer) -> Json:
    custom = answer.use.call.kind == "custom"
    kind = "custom_tool_call_output" if custom else "function_call_output"
    content = _build_content(answer.parts)
    if isinstance(content, str):
        content = pieces.render_answer(answer)
    elif answer.failed:
        content = [{"type": "input_text", "text": "[failed]"}, *content]
    return {"type": kind, "call_id": answer.use.id, "output": content}


def _list_aside(answer: CallAnswer) -> Sequence[MessagePart]:
    """Return no parts: results have parts of all kinds."""
    return ()


def _parse_thought(sent: Any) -> Json | None:
    """Return a reasoning item that may be sent back; None for any other.

    Another server recognises an item only by its encrypted content.
    """
    if not isinstance(sent, dict) or sent.get("type") != "reasoning":
        return None
    found = {key: each for key, each in sent.items() if each is not None}
    signed = found.get("encrypted_content")
    sound = isinstance(signed, str) and isinstance(found.get("id"), str)
    sound = sound and found.get("status", "completed") in _STATUSES
    texts = _has_text_parts(found.get("summary"), "summary_text")
    texts = texts and _has_text_parts(found.get("content", []), "reasoning_text")
    return found if signed and sound and texts and {*found} <= _REASONING else None


def _has_text_parts(parts: Any, kind: str) -> bool:
    return isinstance(parts, list) and all(
        isinstance(part, dict)
        and {*part} == {"type", "text"}
        and part["type"] == kind
        and isinstance(part["text"], str)
        for part in parts
    )


def _build_tool(tool: Json) -> Json:
    # Servers take a schema as strict unless told otherwise.
    flat = {"type": "function", "strict": False, **pieces.get_function(tool)}
    return {**flat, "parameters": pieces.build_schema(flat.get("parameters"))}


RESPONSES = MessageFormat(
    field="input",
    message=_write_message,
    uses=_write_calls,
    answers=_write_answers,
    aside=_list_aside,
    thought=_parse_thought,
    tool=_build_tool,
    call_id=re.compile("[!-~]{1,64}"),
)
