"""Reading: one message of any JSON, whatever the shape it came in.

Pure and total: all JSON has a reading, in linear time, and no word of it is lost. A
table tells what reads an object of each kind; what is in none is data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from memoryhub.kernel.messages import media
from memoryhub.kernel.messages.message import (
    Call,
    CallKind,
    Message,
    Part,
    PartKind,
    Result,
    Thought,
    Vendor,
)
from memoryhub.kernel.messages.values import (
    STRUCTURE,
    first_id,
    id_text,
    is_empty,
    listed,
    says_something,
    strings,
)
from memoryhub.kernel.state.events import Role
from memoryhub.kernel.text import json_text
from memoryhub.kernel.text.json_text import dumped

Block = dict[str, Any]

#: What speakers are called to what they are here.
ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "tool": "tool",
    "function": "tool",
}
#: Whose role is that of a list with several speakers, the first that is there.
_FOR_ALL: tuple[Role, ...] = ("assistant", "user", "tool", "system")

#: Who has nothing but what is said, as most messages are.
_PLAIN = {each: ROLES[each] for each in ("system", "developer", "user", "assistant")}
_NOT_PLAIN = frozenset({"data:", ""})

#: Members about a message that nobody says: named, not read.
_UNSAID = frozenset({
    *("usage", "model", "provider", "created", "created_at", "createdAt", "timestamp"),
    *("at", "logprobs", "finish_reason", "stop_reason", "stop_sequence"),
    *("response_metadata", "usage_metadata", "expires_at"),
    *("provider_specific_fields", "providerMetadata", "providerOptions"),
})  # fmt: skip

# fmt: off
_THOUGHTS = (
    "reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks"
)
_CALLS = ("tool_calls", "invalid_tool_calls", "function_call")
_CITED = ("annotations", "citations")
_SEARCH_RESULT = ("title", "source", "content")
_CALL_ID = ("call_id", "toolCallId", "tool_call_id", "toolUseId")
_RESULT_ID = (*_CALL_ID, "tool_use_id", "approval_request_id")
_NAME = ("name", "toolName", "tool_name")
_ARGUMENTS = ("arguments", "args", "input")
_OUTPUT = ("errorText", "output", "result", "content", "response")
#: Objects that hold all of a call or result, and its type and id beside at most.
_WRAPPERS = (
    "function", "custom", "functionCall", "function_call", "toolUse",
    "functionResponse", "function_response", "toolResult", "toolInvocation",
)
# fmt: on
#: Members that are known only as what they should be.
_SCALAR = str | int | float
_EXPECTED: dict[str, Any] = {
    "refusal": str,
    "audio": dict,
    "is_error": bool,
    "thought": bool,
    **dict.fromkeys((*_NAME, *_RESULT_ID), _SCALAR),
}
#: What the call of a hosted tool has that is not of its words.
_UNTOLD = frozenset({"type", "id", "call_id", "status", "encrypted_content"})
#: Thoughts that nobody reads, and the members that they stand in.
_SEALED = frozenset({"redacted_thinking", "reasoning.encrypted"})
_OPAQUE = STRUCTURE | {"data"}
#: Messages in messages, each in the other: deeper ones are data.
_NESTED = 8


@dataclass(slots=True)
class _Reading:
    """A message while it is read."""

    #: Only parts are read, as in a result; all else is data.
    inside: bool = False
    nested: int = 0
    speakers: set[Role] = field(default_factory=set)
    name: str | None = None
    parts: list[Part] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)

    def text(self, text: str, sent: Any = None, vendor: Vendor | None = None) -> None:
        if found := media.of_address(text):
            self.parts.append(_medium_part(found))
        elif text:
            words = media.without_base64(text)
            part = Part(
                kind="text", words=words, sent=sent if vendor else None, vendor=vendor
            )
            self.parts.append(part)

    def data(self, value: Any, about: str = "") -> None:
        bare = about and isinstance(value, str)
        words = media.without_base64(value) if bare else media.json_words(value)
        self.parts.append(Part(kind="data", words=about + words))

    def rest(self, block: Block, taken: Collection[str] = ()) -> None:
        """Name what is left of an object, and keep the words in it."""
        for name, value in block.items():
            if name in STRUCTURE or is_empty(value):
                continue
            if name in taken and isinstance(value, _EXPECTED.get(name, object)):
                continue
            self.extras.append(name)
            if name not in _UNSAID and says_something(value):
                self.data(value, f"{name}: ")

    def join(self, other: _Reading) -> None:
        self.speakers |= other.speakers
        self.parts += other.parts
        self.calls += other.calls
        self.results += other.results
        self.refusals += other.refusals
        self.thoughts += other.thoughts
        self.extras += other.extras

    def message(self, type_: str, role: Role | None) -> Message:
        speech = next((each for each in _FOR_ALL if each in self.speakers), None)
        by_type = type_.startswith("chat.") and ROLES.get(type_[5:])
        return Message(
            role=role or speech or by_type or ("tool" if self.results else None),
            name=self.name,
            parts=tuple(self.parts),
            calls=tuple(self.calls),
            results=tuple(self.results),
            refusal="\n".join(self.refusals) or None,
            thoughts=tuple(self.thoughts),
            extras=tuple(dict.fromkeys(self.extras)),
        )


Reader = Callable[[_Reading, Block], None]
#: Members of a lone text; with others beside them it is a record of the agent's own.
_OF_TEXT = frozenset({"text", "thought", "cache_control", "annotations", "citations"})


def read(
    content: Any,
    type: str = "",  # noqa: A002  # what a slot calls it
    role: Role | None = None,
) -> Message:
    """Read what a slot's content says; `type` is the slot's, `role` its client's."""
    if isinstance(content, dict) and len(content) == 2:
        speech, speaker = content.get("content"), content.get("role")
        # Most are no more than this, and are read in a fraction of the time.
        heard = _PLAIN.get(speaker) if isinstance(speaker, str) else None
        if heard and isinstance(speech, str) and speech[:5] not in _NOT_PLAIN:
            part = Part(kind="text", words=media.without_base64(speech))
            return Message(role=role or heard, parts=(part,))
    reading = _Reading()
    if isinstance(content, str):
        reading.text(content)
    elif isinstance(content, list) and any(map(_reader, content)):
        _content(reading, content)
    elif not _is_record(content) and (reader := _reader(content)):
        reader(reading, content)
    elif _is_message(content, type):
        _message(reading, content)
    else:
        reading.data(content)
    return reading.message(type, role)


def _is_record(content: Any) -> bool:
    """Whether it is data of an agent's own, which has a text among other things."""
    return (
        isinstance(content, dict)
        and isinstance(content.get("text"), str)
        and not content.keys() <= _OF_TEXT
        and content.keys().isdisjoint({"type", "role"})
    )


def _is_message(content: Any, type_: str) -> bool:
    """Whether an object without a role is the message of a slot that has one."""
    if not isinstance(content, dict) or "type" in content:
        return False
    speech = ("content", "parts", "refusal", *_CALLS)
    return type_.startswith("chat.") and not content.keys().isdisjoint(speech)


def _reader(item: Any, *, inside: bool = False) -> Reader | None:
    """Return what reads an object; None for what is of no kind we know."""
    if not isinstance(item, dict):
        return None
    kind = item.get("type")
    found = _PARTS.get(kind) if isinstance(kind, str) else None
    if inside or found:
        members = _PARTS_BY_MEMBER if kind is None else {}
    elif isinstance(item.get("role"), str) and str(kind) not in _ITEMS:
        return _message
    elif isinstance(kind, str):
        return _ITEMS.get(kind) or _reader_of_family(kind, item)
    else:
        members = _BY_MEMBER if kind is None else {}
    return found or next((members[n] for n in members if _holds(item, n)), None)


def _reader_of_family(kind: str, item: Block) -> Reader | None:
    """Kinds that are not all known by name, told by a member that they have."""
    if kind in ROLES and ("content" in item or "data" in item):
        return _message
    if kind in {"function", "custom"} and isinstance(item.get(kind), dict):
        return _call
    if kind.endswith("_tool_result") and "tool_use_id" in item:
        return _result
    if kind.endswith(("_call", "_output")) and "call_id" in item:
        return _hosted if kind.endswith("_call") else _result
    return _used_tool if kind.startswith("tool-") and "toolCallId" in item else None


def _holds(item: Block, name: str) -> bool:
    return isinstance(item.get(name), str if name in _TEXTS else dict)


def _content(reading: _Reading, value: Any) -> None:
    """Read the content of a message or a result."""
    inside = reading.inside or reading.nested > _NESTED
    several = isinstance(value, list)
    # A tool's object is what it gave back, whatever its members are called.
    bare = not several and (inside or "tool" in reading.speakers)
    for each in value if several else [value]:
        if isinstance(each, str):
            reading.text(each)
            continue
        reader = _reader(each, inside=inside or not several)
        if reader and not (bare and "type" not in each):
            reader(reading, each)
        elif each is not None:
            reading.data(each)


def _message(reading: _Reading, item: Block) -> None:
    item = _unwrapped(item)
    sent = item.get("role", item.get("type"))
    role = ROLES.get(sent) if isinstance(sent, str) else None
    name = id_text(item.get("name"))
    if role is None and isinstance(item.get("role"), str):
        # Agents that speak under their own names.
        name = name or item["role"]
    inner = _Reading(speakers={role} if role else set(), nested=reading.nested + 1)
    _read_members(inner, item)
    # Who speaks says so, whatever stands in what is said.
    inner.speakers = {role} if role else inner.speakers
    if role == "tool" and not inner.results:
        of_chat = item.get("role") == "tool" and "tool_call_id" in item
        result = Result(
            id=first_id(item, _RESULT_ID),
            name=first_id(item, _NAME),
            parts=tuple(inner.parts),
            failed=_failed(item),
            sent=item if of_chat else None,
            vendor="chat" if of_chat else None,
        )
        inner.parts, inner.results = [], [result]
    elif role != "tool":
        reading.name = reading.name or name
    reading.join(inner)


def _read_members(reading: _Reading, item: Block) -> None:
    """Read the members of a message, in their order."""
    if "parts" in item and ("content" in item or "toolInvocations" in item):
        item = _once(item)
    for name, value in item.items():
        if (reader := _OF_MESSAGE.get(name)) and not is_empty(value):
            reader(reading, value)
    if cited := _cited(item):
        reading.parts.append(Part(kind="data", words=cited))
    reading.rest(item, _MESSAGE)


def _once(item: Block) -> Block:
    """Leave out what the AI SDK's parts say a second time, as they once did alone."""
    texts = [p.get("text") for p in listed(item["parts"]) if isinstance(p, dict)]
    again = {"toolInvocations", "content"}
    if item.get("content") not in texts:
        again.remove("content")
    return {name: value for name, value in item.items() if name not in again}


def _thoughts(reading: _Reading, value: Any) -> None:
    for each in listed(value):
        _thought(reading, each if isinstance(each, dict) else {"text": each})


def _calls(reading: _Reading, value: Any) -> None:
    for each in listed(value):
        _call(reading, each) if isinstance(each, dict) else reading.data(each)


def _media(kind: PartKind) -> Callable[[_Reading, Any], None]:
    def reader(reading: _Reading, value: Any) -> None:
        for each in listed(value):
            _PARTS[kind](reading, each if isinstance(each, dict) else {"data": each})

    return reader


def _refused(reading: _Reading, value: Any) -> None:
    if isinstance(value, str):
        reading.refusals.append(value)


def _unwrapped(item: Block) -> Block:
    """Return the message that stands in one that LangChain has dumped, or the same."""
    inner = item.get("kwargs", item.get("data"))
    if isinstance(inner, dict) and "role" not in item and "content" not in item:
        path = item.get("id")
        last = path[-1] if isinstance(path, list) and path else item.get("type")
        kind = str(last).removesuffix("Chunk").removesuffix("Message").lower()
        outer = {n: v for n, v in item.items() if n not in {"kwargs", "data", "name"}}
        item = {**outer, **inner, "type": kind}
    more = item.get("additional_kwargs")
    if not isinstance(more, dict):
        return item
    held = {
        n: v for n, v in item.items() if n != "additional_kwargs" and not is_empty(v)
    }
    # The calls stand there a second time, as their model has sent them.
    again = _CALLS if "tool_calls" in held else ()
    return {**{n: v for n, v in more.items() if n not in again}, **held}


def _text(reading: _Reading, block: Block) -> None:
    text = block.get("text")
    if block.get("thought") is True and not reading.inside:
        _thought(reading, block)
    elif isinstance(text, str):
        cited, vendor = _cited(block), _VENDORS.get(str(block.get("type")))
        if "type" in block and ("cache_control" in block or "citations" in block):
            vendor = vendor or "anthropic"
        reading.text(f"{text}\n{cited}" if cited else text, block, vendor)
        reading.rest(block, {"text", "thought", *_CITED})
    elif text is None:
        reading.rest(block)
    else:
        reading.data(block)


def _refusal(reading: _Reading, block: Block) -> None:
    _refused(reading, block.get("refusal") or None)
    reading.rest(block, {"refusal"})


def _medium(kind: PartKind) -> Reader:
    def reader(reading: _Reading, block: Block) -> None:
        found = media.find(kind, block)
        inner = _Reading(inside=True)
        for each in listed(found.rest.pop("content", None)):
            # A document's own blocks: one level is read, what lies deeper is data.
            text = each.get("text") if isinstance(each, dict) else each
            if isinstance(text, str) and "content" not in each:
                inner.text(text)
                inner.rest(each if isinstance(each, dict) else {}, {"text"})
            else:
                inner.data(each)
        inside = (each.words or media.line(each) for each in inner.parts)
        words = "\n".join(filter(None, [found.words, *inside]))
        vendor = _medium_vendor(block)
        reading.parts.append(_medium_part(found._replace(words=words), block, vendor))
        reading.rest(found.rest, {"citations", "source_type"})

    return reader


def _medium_part(
    found: media.Found, sent: Any = None, vendor: Vendor | None = None
) -> Part:
    return Part(
        kind=found.kind,
        words=found.words,
        medium=found.medium,
        sent=sent if vendor else None,
        vendor=vendor,
    )


def _medium_vendor(block: Block) -> Vendor | None:
    kind = str(block.get("type"))
    if kind in {"image", "document"}:
        return "anthropic" if isinstance(block.get("source"), dict) else None
    if kind in {"image_url", "input_audio", "file"}:
        return "chat" if isinstance(block.get(kind), dict) else None
    return _VENDORS.get(kind)


def _audio(reading: _Reading, value: Any) -> None:
    """Read what an assistant has spoken in chat completions; its id is a file's."""
    if isinstance(value, dict):
        found = media.find("audio", {**value, "file_id": id_text(value.get("id"))})
        reading.parts.append(_medium_part(found, value, "chat"))
        reading.rest(found.rest)


def _search_result(reading: _Reading, block: Block) -> None:
    words = "\n".join(strings({n: block.get(n) for n in _SEARCH_RESULT}))
    reading.text(words, block, "anthropic")
    reading.rest(block, {*_SEARCH_RESULT, "citations"})


def _call(reading: _Reading, block: Block) -> None:
    whole, wrapper = _whole(reading, block)
    argued = next((n for n in _ARGUMENTS if whole.get(n) is not None), "")
    sent, kind = whole.get(argued), str(block.get("type"))
    arguments = sent if isinstance(sent, str) else "" if sent is None else dumped(sent)
    values = sent if isinstance(sent, dict) else json_text.read(arguments)
    vendor = _call_vendor(block, kind, sent)
    call = Call(
        id=first_id(whole, (*_CALL_ID, "id")),
        name=first_id(whole, _NAME),
        arguments=arguments,
        values=values if isinstance(values, dict) else None,
        kind=_CALL_KINDS.get(kind, "function"),
        sent=block if vendor else None,
        vendor=vendor,
    )
    reading.calls.append(call)
    reading.speakers.add("assistant")
    reading.rest(whole, {wrapper, argued, *_CALL_ID, *_NAME})


def _whole(reading: _Reading, block: Block) -> tuple[Block, str]:
    """Return a call or result with what its one wrapper holds, and the wrapper."""
    wrapper = next((n for n in _WRAPPERS if isinstance(block.get(n), dict)), "")
    if not wrapper:
        return block, ""
    inner = block[wrapper]
    reading.rest({n: v for n, v in block.items() if n in inner and v != inner[n]})
    return {**block, **inner}, wrapper


def _call_vendor(block: Block, kind: str, sent: Any) -> Vendor | None:
    if kind in {"function", "custom"}:
        sound = isinstance(block.get(kind), dict) and isinstance(sent, str)
    else:
        sound = isinstance(sent, dict if kind.endswith("tool_use") else str)
    return _VENDORS.get(kind) if sound else None


def _result(reading: _Reading, block: Block) -> None:
    whole, wrapper = _whole(reading, block)
    kind = str(block.get("type"))
    given = next((n for n in _OUTPUT if whole.get(n) is not None), "")
    body, failed = whole.get(given), _failed(whole)
    inner = _Reading(inside=True)
    if isinstance(body, dict):
        body_kind = str(body.get("type"))
        failed = (
            failed or body_kind.startswith("error-") or body_kind.endswith("_error")
        )
        if "value" in body and isinstance(body.get("type"), str):
            # The AI SDK names the kind of its output beside it.
            inner.rest(body, {"value"})
            body = body["value"]
    _content(inner, body)
    inner.rest(whole, {wrapper, given, *_RESULT_ID, *_NAME, "is_error", "isError"})
    vendor = _VENDORS.get(kind)
    if kind.endswith("_tool_result"):
        vendor = "anthropic"
    result = Result(
        id=first_id(whole, (*_RESULT_ID, *(("id",) if wrapper else ()))),
        name=first_id(whole, _NAME) or _server(kind),
        parts=tuple(inner.parts),
        failed=failed,
        sent=block if vendor else None,
        vendor=vendor,
    )
    reading.results.append(result)
    reading.extras += inner.extras
    if vendor == "responses":
        reading.speakers.add("tool")


def _server(kind: str) -> str | None:
    """Return the name of Anthropic's own tool whose result is of this kind."""
    name = kind.removesuffix("_tool_result")
    return name if name not in {kind, "mcp"} else None


def _failed(item: Block) -> bool:
    return (
        item.get("is_error") is True
        or item.get("isError") is True
        or item.get("status") == "error"
        or item.get("state") == "output-error"
    )


def _used_tool(reading: _Reading, block: Block) -> None:
    """Read a part of the AI SDK that is a call and what it gave back."""
    whole, _ = _whole(reading, block)
    given = {n: v for n, v in whole.items() if n in _OUTPUT[:3] and v is not None}
    kind = str(block.get("type"))
    named = {"toolName": kind[5:]} if kind.startswith("tool-") else {}
    named |= {n: whole[n] for n in ("toolCallId", "toolName", "state") if n in whole}
    called = {n: v for n, v in whole.items() if n not in (*given, "toolInvocation")}
    _call(reading, called | named)
    if given:
        _result(reading, named | given)


def _thought(reading: _Reading, block: Block) -> None:
    vendor: Vendor | None = None
    kind = str(block.get("type"))
    if kind in {"thinking", "redacted_thinking"}:
        signed = block.get("signature" if kind == "thinking" else "data")
        vendor = _VENDORS[kind] if isinstance(signed, str) and signed else None
    elif kind == "reasoning" and isinstance(block.get("summary"), list):
        vendor = "responses"
    sealed = kind in _SEALED or vendor == "anthropic"
    words = "\n".join(strings(block, _OPAQUE if sealed else STRUCTURE))
    if words or vendor:
        sent = block if vendor else None
        reading.thoughts.append(Thought(words=words, sent=sent, vendor=vendor))
    reading.speakers.add("assistant")


def _sealed(reading: _Reading, block: Block) -> None:
    """Keep an item that only its own API can open."""
    reading.thoughts.append(Thought(sent=block, vendor="responses"))
    reading.speakers.add("assistant")


def _hosted(reading: _Reading, block: Block) -> None:
    """Read the call of a tool that its API has: what it gave back stands in it."""
    kind = str(block.get("type"))
    speech = {n: v for n, v in block.items() if n not in _UNTOLD and not is_empty(v)}
    if kind == "image_generation_call":
        found = media.find("image", {"data": speech.get("result")})
        if found.medium.base64:
            reading.parts.append(_medium_part(found))
            del speech["result"]
    only = next(iter(speech.values())) if len(speech) == 1 else speech
    arguments = only if isinstance(only, str) else media.json_words(only)
    values = only if isinstance(only, dict) else json_text.read(arguments)
    call = Call(
        id=first_id(block, (*_CALL_ID, "id")),
        name=first_id(block, _NAME) or kind.removesuffix("_call"),
        arguments=arguments if speech else "",
        values=values if isinstance(values, dict) else None,
        kind="server",
        sent=block,
        vendor="responses",
    )
    reading.calls.append(call)
    reading.speakers.add("assistant")


def _nothing(reading: _Reading, block: Block) -> None:
    reading.rest(block)


def _cited(block: Block) -> str:
    """Return a line of what is cited, by annotations or citations."""
    if not ("annotations" in block or "citations" in block):
        return ""
    texts = dict.fromkeys(strings([block.get(name) for name in _CITED]))
    return f"[cited: {', '.join(texts)}]" if texts else ""


_PARTS: dict[str, Reader] = {
    **dict.fromkeys(("text", "input_text", "output_text", "text-plain"), _text),
    **dict.fromkeys(("image", "image_url", "input_image"), _medium("image")),
    **dict.fromkeys(("computer_screenshot",), _medium("image")),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), _medium("audio")),
    **dict.fromkeys(("video", "video_url", "input_video"), _medium("video")),
    **dict.fromkeys(("file", "input_file", "document", "media"), _medium("file")),
    **dict.fromkeys(("resource", "resource_link"), _medium("file")),
    "search_result": _search_result,
}
# fmt: off
_CALL_TYPES = (
    "tool_use", "mcp_tool_use", "server_tool_use", "tool-call", "tool_call",
    "function_call", "custom_tool_call",
)
_RESULT_TYPES = ("tool_result", "tool-result", "mcp_tool_result")
#: Calls of Responses whose outputs are items of their own, the first two not hosted.
_ANSWERED = (
    "function_call", "custom_tool_call", "computer_call", "local_shell_call",
    "shell_call", "apply_patch_call",
)
_HOSTED = (
    *_ANSWERED[2:], "web_search_call", "file_search_call", "code_interpreter_call",
    "image_generation_call", "mcp_call", "mcp_list_tools", "mcp_approval_request",
    "tool_search_call",
)
# fmt: on
_THINKING = ("thinking", "redacted_thinking", "reasoning")
_ITEMS: dict[str, Reader] = {
    **dict.fromkeys(("message", "constructor"), _message),
    "refusal": _refusal,
    **dict.fromkeys(_CALL_TYPES, _call),
    **dict.fromkeys(_HOSTED, _hosted),
    **dict.fromkeys((*_RESULT_TYPES, "mcp_approval_response"), _result),
    **{f"{each}_output": _result for each in _ANSWERED},
    **dict.fromkeys(("tool-invocation", "dynamic-tool"), _used_tool),
    **dict.fromkeys(_THINKING, _thought),
    **dict.fromkeys(("compaction", "item_reference"), _sealed),
    "step-start": _nothing,
}
#: What reads the members of a message.
_OF_MESSAGE: dict[str, Callable[[_Reading, Any], None]] = {
    **dict.fromkeys(("content", "parts", "toolInvocations"), _content),
    **dict.fromkeys(_THOUGHTS, _thoughts),
    **dict.fromkeys(_CALLS, _calls),
    **dict.fromkeys(("attachments", "experimental_attachments"), _media("file")),
    "images": _media("image"),
    "audio": _audio,
    "refusal": _refused,
}
_MESSAGE = frozenset({*_OF_MESSAGE, *_NAME, *_RESULT_ID, *_CITED, "is_error"})
#: Read of an object without a type, by the first of these members that it has.
_PARTS_BY_MEMBER: dict[str, Reader] = {
    "text": _text,
    "image": _medium("image"),
    **dict.fromkeys(("inlineData", "inline_data", "document"), _medium("file")),
    **dict.fromkeys(("fileData", "file_data"), _medium("file")),
    "video": _medium("video"),
    "audio": _medium("audio"),
    **dict.fromkeys(("base64", "mime_type"), _medium("file")),
}
_BY_MEMBER: dict[str, Reader] = {
    **dict.fromkeys(("functionResponse", "function_response", "toolResult"), _result),
    **dict.fromkeys(("functionCall", "function_call", "toolUse", "function"), _call),
    "toolCallId": _used_tool,
    "reasoningContent": _thought,
    **_PARTS_BY_MEMBER,
}
#: Of those members the ones that are texts; the others are objects.
_TEXTS = frozenset({"text", "base64", "mime_type", "toolCallId"})
_VENDORS: dict[str, Vendor] = {
    **dict.fromkeys(("function", "custom"), "chat"),
    **dict.fromkeys(("tool_use", "mcp_tool_use", "server_tool_use"), "anthropic"),
    **dict.fromkeys(("tool_result", "mcp_tool_result"), "anthropic"),
    **dict.fromkeys(("thinking", "redacted_thinking"), "anthropic"),
    **dict.fromkeys(("input_text", "output_text", "input_image"), "responses"),
    **dict.fromkeys(("input_file", "mcp_approval_response"), "responses"),
    **dict.fromkeys(("function_call", "custom_tool_call"), "responses"),
    **{f"{each}_output": "responses" for each in _ANSWERED},
}
_CALL_KINDS: dict[str, CallKind] = {
    **dict.fromkeys(("custom", "custom_tool_call"), "custom"),
    **dict.fromkeys(("server_tool_use", "mcp_tool_use"), "server"),
}
