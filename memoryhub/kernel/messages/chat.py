"""Writer of messages for chat completions. Pure.

Tool messages have text only: pictures of a result stand in a user's message after it.
"""

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

_SOUNDS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def _write_message(speech: MessageSpeech) -> str:
    content = (
        _build_speech(speech) if speech.role == "assistant" else _build_content(speech)
    )
    if not content:
        return ""
    named = {"name": speech.name} if speech.name else {}
    return dump_strict({"role": speech.role, "content": content, **named})


def _build_content(speech: MessageSpeech) -> str | list[Json]:
    return pieces.build_content(speech.parts, _build_medium, text="text")


def _build_speech(speech: MessageSpeech) -> str | list[Json]:
    if not speech.refusal:
        return pieces.render_speech(speech)
    text = pieces.render_speech(speech._replace(refusal=None))
    first = [{"type": "text", "text": text}] if text else []
    return [*first, {"type": "refusal", "refusal": speech.refusal}]


def _build_medium(part: MessagePart) -> Json | None:
    """Build a part for a medium; None if a user's message cannot have it."""
    medium = part.medium
    if medium is None:
        return None
    if part.kind == "image" and (url := pieces.build_image_url(medium)):
        stated = medium.detail in pieces.DETAILS
        # Responses require a detail; chat completions default to auto.
        stated &= medium.detail != "auto" or part.vendor == "chat"
        detail = {"detail": medium.detail} if stated else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    if (
        part.kind == "audio"
        and (found := pieces.get_encoded(medium))
        and found[0] in _SOUNDS
    ):
        sound = {"data": found[1], "format": _SOUNDS[found[0]]}
        return {"type": "input_audio", "input_audio": sound}
    if part.kind == "file" and (file := _build_file(medium, part.vendor)):
        return {"type": "file", "file": file}
    return None


def _build_file(medium: Medium, vendor: str | None) -> Json | None:
    if medium.file_id and vendor in pieces.OPENAI:
        return {"file_id": medium.file_id}
    data = pieces.build_pdf_url(medium)
    return {"file_data": data, "filename": medium.name or "file.pdf"} if data else None


def _write_calls(
    heads: Sequence[tuple[MessageSpeech, Sequence[NamedCall]]],
) -> list[str]:
    """Write all calls of one message; the first text begins with the speech."""
    texts = [",".join(_write_call(use) for use in uses) for _, uses in heads]
    speech = heads[0][0]
    opened: Json = {"role": "assistant", "content": _build_speech(speech) or None}
    if speech.name:
        opened["name"] = speech.name
    texts[0] = f'{dump_strict(opened)[:-1]},"tool_calls":[{texts[0]}'
    texts[-1] += "]}"
    return texts


def _write_call(use: NamedCall) -> str:
    found: Json = {"id": use.id, "type": "function"}
    if use.call.kind == "custom":
        found["type"] = "custom"
        found["custom"] = {"name": use.name, "input": use.call.arguments}
    else:
        found["function"] = {"name": use.name, "arguments": use.arguments}
    # Some providers keep the signature of a thought here.
    extra = pieces.get_sent(use.call, "chat").get("extra_content")
    if use.signed and isinstance(extra, dict) and extra:
        found["extra_content"] = extra
    return dump_strict(found)


def _write_answers(answers: Sequence[CallAnswer]) -> list[str]:
    return [
        dump_strict(
            {
                "role": "tool",
                "tool_call_id": each.use.id,
                "content": pieces.render_answer(each),
            }
        )
        for each in answers
    ]


def _list_aside(answer: CallAnswer) -> Sequence[MessagePart]:
    media = [part for part in answer.parts if _build_medium(part)]
    about = MessagePart(kind="text", words=f"[from the result of {answer.use.name}]")
    return [about, *media] if media else ()


def _parse_thought(sent: Any) -> Json | None:
    """Return None: chat completions have no signed thoughts."""
    return None


def _build_tool(tool: Json) -> Json:
    return {"type": "function", "function": pieces.get_function(tool)}


CHAT = MessageFormat(
    field="messages",
    message=_write_message,
    uses=_write_calls,
    answers=_write_answers,
    aside=_list_aside,
    thought=_parse_thought,
    tool=_build_tool,
    # Servers have refused longer ids.
    call_id=re.compile("[!-~]{1,40}"),
)
