"""Writer of messages as contents of Gemini's `generateContent`, v1beta. Pure.

A call must stand right after a content of the user: contents of the model that would
follow one another are joined.
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

#: Signature that Gemini's documentation gives for a call that no Gemini model made.
UNSIGNED = "skip_thought_signature_validator"
_ROLES = {"user": "user", "assistant": "model"}
_MODEL = '{"role":"model","parts":['
_SIGNATURE = re.compile("[A-Za-z0-9+/_-]+={0,2}")
#: Parts of code that Gemini ran: other names, and members that a part must have.
_RUNS = {
    "executableCode": ("executable_code", ("language", "code")),
    "codeExecutionResult": ("code_execution_result", ("outcome",)),
}
# fmt: off
_MEDIA = frozenset({
    "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif",
    "audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg",
    "audio/flac",
    "video/mp4", "video/mpeg", "video/mov", "video/quicktime", "video/avi",
    "video/x-flv", "video/mpg", "video/webm", "video/wmv", "video/3gpp",
    pieces.PDF,
})
# fmt: on


def _write_plain(role: str, text: str) -> str:
    return f'{{"role":"{_ROLES[role]}","parts":[{{"text":{text}}}]}}'


def _write_message(speech: MessageSpeech) -> str:
    parts = _build_parts(speech)
    found = {"role": _ROLES[speech.role], "parts": parts}
    return dump_strict(found) if parts else ""


def _build_parts(speech: MessageSpeech) -> list[Json]:
    speaks = speech.role == "assistant"
    parts = [*speech.thoughts]
    parts += filter(None, (_build_part(each, speaks=speaks) for each in speech.parts))
    if speech.refusal:
        parts.append({"text": speech.refusal})
    if speaks and parts and {*parts[-1]} == {"text"}:
        parts[-1] = {"text": parts[-1]["text"].rstrip()}
    return parts


def _build_part(part: MessagePart, *, speaks: bool) -> Json | None:
    sent = pieces.get_sent(part, "gemini")
    signed = _get_signature(sent) if speaks else {}
    # A model has only the media that it made, which it knows by their signatures.
    if (signed or not speaks) and (medium := _build_medium(part)):
        return {**medium, **signed}
    if speaks and part.kind == "data" and (run := _build_run(sent)):
        return {**run, **signed}
    text = pieces.render_part(part)
    signed = signed if sent.get("text") == text else {}
    return {"text": text, **signed} if text.strip() or signed else None


def _build_run(sent: Json) -> Json | None:
    """Build a part with code that Gemini ran, or with what came of it."""
    for name, (other, members) in _RUNS.items():
        value = sent.get(name, sent.get(other))
        if isinstance(value, dict):
            texts = all(isinstance(each, str) for each in value.values())
            has_members = {*members} <= value.keys() <= {*members, "id", "output"}
            return {name: value} if texts and has_members else None
    return None


def _build_medium(part: MessagePart) -> Json | None:
    medium = part.medium
    if medium is None:
        return None
    if found := pieces.get_encoded(medium):
        kind, data = found
        inline = {"mimeType": kind, "data": data}
        return {"inlineData": inline} if kind in _MEDIA else None
    # Gemini reads its own store, and no other address.
    url = pieces.get_web_url(medium) if part.vendor == "gemini" else None
    if not url:
        return None
    kinds = {"mimeType": medium.mime_type} if medium.mime_type else {}
    return {"fileData": {**kinds, "fileUri": url}}


def _get_signature(sent: Json) -> Json:
    """Return the signature of a part, which goes back with this very part."""
    signed = sent.get("thoughtSignature", sent.get("thought_signature"))
    sound = isinstance(signed, str) and _SIGNATURE.fullmatch(signed)
    return {"thoughtSignature": signed} if sound else {}


def _write_calls(
    heads: Sequence[tuple[MessageSpeech, Sequence[NamedCall]]],
) -> list[str]:
    """Write all calls of one content; the first text begins with the speech."""
    texts, first = list[str](), True
    for speech, uses in heads:
        parts = [*map(dump_strict, _build_parts(speech))]
        for use in uses:
            parts.append(_write_call(use, first=first))
            first = False
        texts.append(",".join(parts))
    texts[0] = f"{_MODEL}{texts[0]}"
    texts[-1] += "]}"
    return texts


def _write_call(use: NamedCall, *, first: bool) -> str:
    """Write a call; the first of a step has a signature, or its request is refused."""
    arguments = use.arguments
    if use.call.kind == "custom":
        arguments = dump_strict({"input": use.call.arguments})
    named = dump_strict({"id": use.id, "name": use.name})
    signed = _get_signature(pieces.get_sent(use.call, "gemini"))
    if first and not signed:
        signed = {"thoughtSignature": UNSIGNED}
    # The arguments stay as they came, to the last digit.
    text = f'{{"functionCall":{named[:-1]},"args":{arguments}}}'
    return f"{text},{dump_strict(signed)[1:]}" if signed else text + "}"


def _write_answers(answers: Sequence[CallAnswer]) -> list[str]:
    texts = [*map(_write_answer, answers)]
    texts[0] = f'{{"role":"user","parts":[{texts[0]}'
    texts[-1] += "]}"
    return texts


def _write_answer(answer: CallAnswer) -> str:
    named = dump_strict({"id": answer.use.id, "name": answer.use.name})
    response = _get_response(answer)
    if response is None:
        outcome = "error" if answer.failed else "output"
        response = dump_strict({outcome: pieces.render_parts(answer.parts)})
    return f'{{"functionResponse":{named[:-1]},"response":{response}}}}}'


def _get_response(answer: CallAnswer) -> str | None:
    """Return the whole object that came as a `response`, as text; else None."""
    came = answer.result is not None and answer.result.vendor == "gemini"
    if not came or len(answer.parts) != 1 or answer.parts[0].kind != "data":
        return None
    text = answer.parts[0].words
    return text if pieces.is_object(text) else None


def _list_aside(answer: CallAnswer) -> Sequence[MessagePart]:
    """Return the media: only Gemini 3 takes them in a result."""
    media = [part for part in answer.parts if _build_medium(part)]
    about = MessagePart(kind="text", words=f"[from the result of {answer.use.name}]")
    return [about, *media] if media else ()


def _parse_thought(sent: Any) -> Json | None:
    """Return a summary with the signature that stands in it; None without one."""
    text = sent.get("text") if isinstance(sent, dict) else None
    if not isinstance(text, str) or not (signed := _get_signature(sent)):
        return None
    return {"text": text, "thought": True, **signed}


def _build_tool(tool: Json) -> Json:
    called = pieces.get_function(tool)
    return {
        "name": called["name"],
        # A declaration without a description is refused.
        "description": called.get("description") or called["name"],
        "parametersJsonSchema": pieces.build_schema(called.get("parameters")),
    }


def _join_contents(texts: Sequence[str]) -> list[str]:
    """Return the texts of a request, with contents of the model in a row as one."""
    found, speaks = [*texts], False
    for at, text in enumerate(texts):
        if speaks and text.startswith(_MODEL):
            found[at] = text[len(_MODEL) :]
            found[at - 1] = found[at - 1][: -len("]}")]
        elif text.startswith('{"role":'):
            speaks = text.startswith(_MODEL)
    return found


GEMINI = MessageFormat(
    field="contents",
    message=_write_message,
    uses=_write_calls,
    answers=_write_answers,
    aside=_list_aside,
    thought=_parse_thought,
    tool=_build_tool,
    call_id=re.compile("[!-~]{1,64}"),
    apart=True,
    head=('"systemInstruction":{"parts":[{"text":', "}]}"),
    plain=_write_plain,
    join=_join_contents,
    tools="functionDeclarations",
    lettered=True,
)
