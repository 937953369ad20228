"""A scripted model behind four APIs, each as strict as the real one.

What the SDK's own type of a request does not allow is refused with a 400; so are calls
without results, results without calls, and thoughts that are not those of the running
exchange as they were signed. What each request shows is printed. Gemini signs parts,
whose signatures may stand in later exchanges as well.
"""

# ruff: noqa: T201
from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import scripted
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

Json = dict[str, Any]
#: For calls that Gemini has not made.
UNSIGNED = "skip_thought_signature_validator"
_PLATFORM = re.compile(r"platform (\d+)")


@dataclass
class Step:
    """What a request says, whatever its API: text, picture, thought, call, result."""

    kind: str
    role: str = ""
    text: str = ""
    id: str = ""


@dataclass
class Reply:
    thought: str
    text: str
    calls: Sequence[tuple[str, Json]] = ()


def serve(kind: Any, body: Callable[[int, Reply], Json], *, keeps: bool = False) -> str:
    """Start a model whose requests are of that kind; `body` writes what it replies.

    `keeps` says whether thoughts of earlier exchanges may stand in a request.
    """
    adapter = TypeAdapter(list[kind], config=ConfigDict(extra="forbid"))
    #: By the question whose exchange they are of.
    thoughts = defaultdict[str, list[str]](list)
    numbers = count(1)

    def answer(request: Json) -> Json:
        try:
            # To JSON, as what is only iterable is validated no sooner.
            to_jsonable_python(adapter.validate_python([request]))
        except ValidationError as invalid:
            raise scripted.RefusedError(str(invalid)) from None
        fields = ("messages", "input", "contents")
        messages = next(request[name] for name in fields if name in request)
        steps = [step for each in messages for step in read_message(each)]
        require_pairs(steps)
        exchange = since_question(steps)
        signed = thoughts[exchange[0].text]
        shown = exchange if keeps else steps
        if signed != [step.text for step in shown if step.kind == "thought"]:
            raise scripted.RefusedError("Thoughts must be those of the exchange.")
        print(f"  ({counts(steps)})")
        reply = body(next(numbers), play(steps, exchange))
        parts = reply.get("output") or reply.get("content") or []
        parts = [each["content"] for each in reply.get("candidates", ())] or parts
        made = [step for part in parts for step in read_message(part)]
        signed.extend(step.text for step in made if step.kind == "thought")
        return reply

    return scripted.serve(answer)


def read_message(item: Json) -> Iterator[Step]:
    """Read a message or item of any of the four APIs."""
    if "parts" not in item:
        yield from read(item)
    for part in item.get("parts", ()):
        yield from read_part(part, "user" if item["role"] == "user" else "assistant")


def read(item: Any, role: str = "") -> Iterator[Step]:
    """Read a message, item, part or block of any API but Gemini's."""
    match item:
        case str(text):
            yield Step("text", role, text)
        case {"type": "text" | "input_text", "text": text}:
            yield Step("text", role, text)
        case {"type": "image" | "image_url" | "input_image"}:
            yield Step("picture", role)
        case {"type": "thinking" | "reasoning"}:
            yield Step("thought", "assistant", written(item))
        case (
            {"type": "function", "id": id_, "function": {"name": name}}
            | {"type": "function_call", "call_id": id_, "name": name}
            | {"type": "tool_use", "id": id_, "name": name}
        ):
            yield Step("call", "assistant", name, id_)
        case (
            {"role": "tool", "tool_call_id": id_, "content": content}
            | {"type": "function_call_output", "call_id": id_, "output": content}
            | {"type": "tool_result", "tool_use_id": id_, "content": content}
        ):
            yield Step("result", "tool", content, id_)
        case {"role": role, "content": content}:
            parts = content if isinstance(content, list) else [content or []]
            for each in [*parts, *item.get("tool_calls", ())]:
                yield from read(each, role)


def read_part(part: Json, role: str) -> Iterator[Step]:
    """Read a part of Gemini's."""
    signed = part.get("thoughtSignature", UNSIGNED)
    if signed != UNSIGNED:
        yield Step("thought", role, signed)
    match part:
        case {"functionCall": {"name": name} as call}:
            yield Step("call", "assistant", name, call.get("id", ""))
        case {"functionResponse": {"id": id_, "response": response}}:
            yield Step("result", "tool", "".join(response.values()), id_)
        case {"inlineData": _}:
            yield Step("picture", role)
        case {"text": text}:
            yield Step("text", role, text)


def require_pairs(steps: list[Step]) -> None:
    """Refuse calls that are not answered, each once, before anything else is said."""
    waiting = set[str]()
    for step in [*steps, Step("end")]:
        if step.kind == "call":
            waiting.add(step.id)
        elif step.kind == "result":
            if step.id not in waiting:
                raise scripted.RefusedError(f"A result without its call: {step.id}")
            waiting.remove(step.id)
        elif waiting:
            raise scripted.RefusedError(f"Calls without results: {sorted(waiting)}")
    if steps[-1].role == "assistant":
        raise scripted.RefusedError("The last message must not be the assistant's.")


def since_question(steps: list[Step]) -> list[Step]:
    """Return the running exchange: the user's newest text, and what followed."""
    at = max(n for n, s in enumerate(steps) if (s.kind, s.role) == ("text", "user"))
    return steps[at:]


def counts(steps: list[Step]) -> str:
    kinds = [step.kind for step in steps]
    shown = ("picture", "thought", "call", "result")
    return ", ".join(f"{kind}s: {kinds.count(kind)}" for kind in shown)


def play(steps: list[Step], exchange: list[Step]) -> Reply:
    """What the model says to these steps, by its script."""
    question = exchange[0].text
    names = {step.id: step.text for step in steps if step.kind == "call"}
    results = {names[s.id]: s.text for s in exchange if s.kind == "result"}
    if "?" not in question:
        return Reply("Nothing to do.", "Noted.")
    if "picture" in question:
        if not any(step.kind == "picture" for step in exchange):
            return Reply("No picture.", "I see no picture.")
        if not {"departures", "weather"} <= results.keys():
            place = {"place": "Harbour"}
            calls = [("departures", place), ("weather", place)]
            return Reply("A sign of Harbour.", "Let me look.", calls)
        return Reply("One of two.", " ".join([*results.values()][-2:]))
    shown = " ".join(step.text for step in steps if step.kind in ("text", "result"))
    if found := _PLATFORM.search(shown):
        return Reply("There it is.", f"It was platform {found[1]}.")
    if "page_fault" in results:
        return Reply("Not there.", "I could not find it.")
    # Memory lists what has left, each page with a hint.
    pages = json.loads(next(s.text for s in steps if "available_pages" in s.text))
    page = next(p for p in pages["available_pages"] if "Harbour" in p["hint"])
    fetch = {"page_id": page["page_id"], "target_level": 0}
    return Reply("It has left.", "", [("page_fault", fetch)])


def chat(number: int, reply: Reply) -> Json:
    """A completion."""
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for at, (name, arguments) in enumerate(reply.calls)
        ]
    reason = "tool_calls" if reply.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    named = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "model": "scripted",
    }
    return {**named, "created": 0, "choices": [choice]}


def responses(number: int, reply: Reply) -> Json:
    """A response, which begins with a sealed item of reasoning."""
    summary = [{"type": "summary_text", "text": reply.thought}]
    sealed = {"summary": summary, "encrypted_content": f"gAAAA{number}"}
    output: list[Json] = [{"type": "reasoning", "id": f"rs_{number}", **sealed}]
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        spoken = {"role": "assistant", "status": "completed", "content": [part]}
        output.append({"type": "message", "id": f"msg_{number}", **spoken})
    for at, (name, arguments) in enumerate(reply.calls):
        call = {"call_id": f"call_{number}_{at}", "name": name}
        call |= {"arguments": json.dumps(arguments), "status": "completed"}
        output.append({"type": "function_call", "id": f"fc_{number}_{at}", **call})
    named = {"id": f"resp_{number}", "object": "response", "model": "scripted"}
    return {**named, "created_at": 0, "status": "completed", "output": output}


def anthropic(number: int, reply: Reply) -> Json:
    """A message, which begins with a signed block of thinking."""
    thought = {"thinking": reply.thought, "signature": f"EqQB{number}"}
    content: list[Json] = [{"type": "thinking", **thought}]
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for at, (name, arguments) in enumerate(reply.calls):
        named = {"id": f"toolu_{number}_{at}", "name": name, "input": arguments}
        content.append({"type": "tool_use", **named})
    named = {"id": f"msg_{number}", "type": "message", "model": "scripted"}
    spoken = {"role": "assistant", "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1}
    reason = "tool_use" if reply.calls else "end_turn"
    return {**named, **spoken, "stop_reason": reason, "usage": usage}


def gemini(number: int, reply: Reply) -> Json:
    """An answer whose last text or first call is signed; older models give no ids."""
    parts: list[Json] = [{"text": reply.text}] if reply.text else []
    called = [{"functionCall": {"name": n, "args": args}} for n, args in reply.calls]
    signed = (called or parts[-1:])[0]
    signed["thoughtSignature"] = f"CiQB{number:04}"
    content = {"role": "model", "parts": [*parts, *called]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


def written(block: Json) -> str:
    return json.dumps(block, sort_keys=True)
