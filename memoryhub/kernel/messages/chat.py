"""Chat completions: how they take messages. Pure.

Tools speak text only there: their pictures stand in a user's message after them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from memoryhub.kernel.messages import pieces
from memoryhub.kernel.messages.message import Medium, Part
from memoryhub.kernel.messages.pieces import Answer, Format, Json, Speech, Use, written

_SOUNDS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def _message(speech: Speech) -> str:
    content = _speech(speech) if speech.role == "assistant" else _content(speech)
    if not content:
        return ""
    named = {"name": speech.name} if speech.name else {}
    return written({"role": speech.role, "content": content, **named})


def _content(speech: Speech) -> str | list[Json]:
    return pieces.content(speech.parts, _medium, text="text")


def _speech(speech: Speech) -> str | list[Json]:
    if not speech.refusal:
        return pieces.spoken(speech)
    text = pieces.spoken(speech._replace(refusal=None))
    first = [{"type": "text", "text": text}] if text else []
    return [*first, {"type": "refusal", "refusal": speech.refusal}]


def _medium(part: Part) -> Json | None:
    """A part of its own kind, if a user's message may have it."""
    medium = part.medium
    if medium is None:
        return None
    if part.kind == "image" and (url := pieces.image_url(medium)):
        stated = medium.detail in pieces.DETAILS
        # Responses want one in any case; here that goes without saying.
        stated &= medium.detail != "auto" or part.vendor == "chat"
        detail = {"detail": medium.detail} if stated else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    if (
        part.kind == "audio"
        and (found := pieces.encoded(medium))
        and found[0] in _SOUNDS
    ):
        sound = {"data": found[1], "format": _SOUNDS[found[0]]}
        return {"type": "input_audio", "input_audio": sound}
    if part.kind == "file" and (file := _file(medium, part.vendor)):
        return {"type": "file", "file": file}
    return None


def _file(medium: Medium, vendor: str | None) -> Json | None:
    if medium.file_id and vendor in pieces.OPENAI:
        return {"file_id": medium.file_id}
    data = pieces.pdf_data(medium)
    return {"file_data": data, "filename": medium.name or "file.pdf"} if data else None


def _uses(heads: Sequence[tuple[Speech, Sequence[Use]]]) -> list[str]:
    """All calls are of one message, whose first text has what is said beside them."""
    texts = [",".join(_use(use) for use in uses) for _, uses in heads]
    speech = heads[0][0]
    opened: Json = {"role": "assistant", "content": _speech(speech) or None}
    if speech.name:
        opened["name"] = speech.name
    texts[0] = f'{written(opened)[:-1]},"tool_calls":[{texts[0]}'
    texts[-1] += "]}"
    return texts


def _use(use: Use) -> str:
    found: Json = {"id": use.id, "type": "function"}
    if use.call.kind == "custom":
        found["type"] = "custom"
        found["custom"] = {"name": use.name, "input": use.call.arguments}
    else:
        found["function"] = {"name": use.name, "arguments": use.arguments}
    # Where some providers keep the signature of a thought.
    extra = pieces.sent_in(use.call, "chat").get("extra_content")
    if use.signed and isinstance(extra, dict) and extra:
        found["extra_content"] = extra
    return written(found)


def _answers(answers: Sequence[Answer]) -> list[str]:
    return [
        written(
            {
                "role": "tool",
                "tool_call_id": each.use.id,
                "content": pieces.answered(each),
            }
        )
        for each in answers
    ]


def _aside(answer: Answer) -> Sequence[Part]:
    media = [part for part in answer.parts if _medium(part)]
    about = Part(kind="text", words=f"[from the result of {answer.use.name}]")
    return [about, *media] if media else ()


def _thought(sent: Any) -> Json | None:
    """None is signed there."""
    return None


def _tool(tool: Json) -> Json:
    return {"type": "function", "function": pieces.function(tool)}


CHAT = Format(
    field="messages",
    message=_message,
    uses=_uses,
    answers=_answers,
    aside=_aside,
    thought=_thought,
    tool=_tool,
    # Servers have refused longer ones.
    call_id=re.compile("[!-~]{1,40}"),
)
