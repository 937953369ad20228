"""Responses: how they take messages, as items of their input. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from memoryhub.kernel.messages import pieces
from memoryhub.kernel.messages.message import Medium, Part
from memoryhub.kernel.messages.pieces import Answer, Format, Json, Speech, Use, written

_STATUSES = ("in_progress", "completed", "incomplete")
_REASONING = {"type", "id", "summary", "content", "encrypted_content", "status"}


def _message(speech: Speech) -> str:
    # Parts of an assistant's message would need the id that it had there.
    assistant = speech.role == "assistant"
    content = pieces.spoken(speech) if assistant else _content(speech.parts)
    message = [written({"role": speech.role, "content": content})] if content else []
    return ",".join([*map(written, speech.thoughts), *message])


def _content(parts: Sequence[Part]) -> str | list[Json]:
    return pieces.content(parts, _medium, text="input_text")


def _medium(part: Part) -> Json | None:
    medium = part.medium
    if medium is None:
        return None
    stored = medium.file_id if part.vendor in pieces.OPENAI else None
    if part.kind == "image":
        detail = medium.detail if medium.detail in pieces.DETAILS else "auto"
        if stored:
            return {"type": "input_image", "file_id": stored, "detail": detail}
        url = pieces.image_url(medium)
        found = {"type": "input_image", "image_url": url, "detail": detail}
        return found if url else None
    file = _file(medium, stored) if part.kind == "file" else None
    return {"type": "input_file", **file} if file else None


def _file(medium: Medium, stored: str | None) -> Json | None:
    if stored:
        return {"file_id": stored}
    if data := pieces.pdf_data(medium):
        return {"filename": medium.name or "file.pdf", "file_data": data}
    url = pieces.web_url(medium)
    return {"file_url": url} if url else None


def _uses(heads: Sequence[tuple[Speech, Sequence[Use]]]) -> list[str]:
    return [
        ",".join(filter(None, [_message(speech), *map(_use, uses)]))
        for speech, uses in heads
    ]


def _use(use: Use) -> str:
    named = {"call_id": use.id, "name": use.name}
    if use.call.kind == "custom":
        found = {"type": "custom_tool_call", **named, "input": use.call.arguments}
    else:
        found = {"type": "function_call", **named, "arguments": use.arguments}
    return written(found)


def _answers(answers: Sequence[Answer]) -> list[str]:
    return [written(_answer(each)) for each in answers]


def _answer(answer: Answer) -> Json:
    custom = answer.use.call.kind == "custom"
    kind = "custom_tool_call_output" if custom else "function_call_output"
    content = _content(answer.parts)
    if isinstance(content, str):
        content = pieces.answered(answer)
    elif answer.failed:
        content = [{"type": "input_text", "text": "[failed]"}, *content]
    return {"type": kind, "call_id": answer.use.id, "output": content}


def _aside(answer: Answer) -> Sequence[Part]:
    """None: results have parts of all kinds."""
    return ()


def _thought(sent: Any) -> Json | None:
    """Another server knows an item only by what is encrypted in it."""
    if not isinstance(sent, dict) or sent.get("type") != "reasoning":
        return None
    found = {key: each for key, each in sent.items() if each is not None}
    signed = found.get("encrypted_content")
    sound = isinstance(signed, str) and isinstance(found.get("id"), str)
    sound = sound and found.get("status", "completed") in _STATUSES
    texts = _texts(found.get("summary"), "summary_text")
    texts = texts and _texts(found.get("content", []), "reasoning_text")
    return found if signed and sound and texts and {*found} <= _REASONING else None


def _texts(parts: Any, kind: str) -> bool:
    return isinstance(parts, list) and all(
        isinstance(part, dict)
        and {*part} == {"type", "text"}
        and part["type"] == kind
        and isinstance(part["text"], str)
        for part in parts
    )


def _tool(tool: Json) -> Json:
    # Without a word servers take a pieces.schema for a strict one.
    flat = {"type": "function", "strict": False, **pieces.function(tool)}
    return {**flat, "parameters": pieces.schema(flat.get("parameters"))}


RESPONSES = Format(
    field="input",
    message=_message,
    uses=_uses,
    answers=_answers,
    aside=_aside,
    thought=_thought,
    tool=_tool,
    call_id=re.compile("[!-~]{1,64}"),
)
