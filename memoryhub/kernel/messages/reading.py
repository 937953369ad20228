"""Reader of one message from any JSON, whatever the shape it came in.

Pure and total: any JSON can be read, in linear time, without losing a word. Tables give
the reader for an object of each kind; an object in no table is data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from memoryhub.kernel.messages import media
from memoryhub.kernel.messages.message import (
    Call,
    CallKind,
    Message,
    MessagePart,
    PartKind,
    Result,
    Thought,
    Vendor,
)
from memoryhub.kernel.messages.steps import Lengths, StepOrder
from memoryhub.kernel.messages.values import (
    CITED,
    STRUCTURE,
    find_first_id,
    has_content,
    is_empty,
    iter_strings,
    render_citations,
    to_id_text,
    to_list,
)
from memoryhub.kernel.messages.vendors import (
    ANSWERED,
    SIGNATURES,
    VENDORS,
    find_call_vendor,
    find_gemini,
    find_medium_vendor,
    find_run_vendor,
    find_server_tool,
    has_failed,
)
from memoryhub.kernel.state.events import Role
from memoryhub.kernel.text import json_text
from memoryhub.kernel.text.json_text import dump_json

Block = dict[str, Any]

#: Roles by the names that APIs use.
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
#: Priority of roles for a list with several speakers.
_FOR_ALL: tuple[Role, ...] = ("assistant", "user", "tool", "system")

#: Roles whose messages mostly have only content.
_PLAIN = {each: ROLES[each] for each in ("system", "developer", "user", "assistant")}
_NOT_PLAIN = frozenset({"data:", ""})

#: Members with data about a message: named in `extras`, not read.
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
_SEARCH_RESULT = ("title", "source", "content")
_CALL_ID = ("call_id", "toolCallId", "tool_call_id", "toolUseId")
_RESULT_ID = (*_CALL_ID, "tool_use_id", "approval_request_id")
_NAME = ("name", "toolName", "tool_name")
_ARGUMENTS = ("arguments", "args", "input")
_OUTPUT = ("errorText", "output", "result", "content", "response")
#: Objects that hold all of a call or result, with at most its type and id beside.
_WRAPPERS = (
    "function", "custom", "functionCall", "function_call", "toolUse",
    "functionResponse", "function_response", "toolResult", "toolInvocation",
)
# fmt: on
#: Members that are recognised only with values of these types.
_SCALAR = str | int | float
_EXPECTED: dict[str, Any] = {
    "refusal": str,
    "audio": dict,
    "is_error": bool,
    "thought": bool,
    **dict.fromkeys((*_NAME, *_RESULT_ID), _SCALAR),
}
#: Members of a hosted tool's call that are no part of its words.
_UNTOLD = frozenset({"type", "id", "call_id", "status", "encrypted_content"})
#: Thought types that people cannot read, and the members that hold them.
_SEALED = frozenset({"redacted_thinking", "reasoning.encrypted"})
_OPAQUE = STRUCTURE | {"data"}
_PHASES = ("commentary", "final_answer")
#: Deepest nesting of messages in messages; deeper ones are data.
_NESTED = 8


@dataclass(slots=True)
class _MessageReading:
    """State of a message while it is read."""

    #: Only parts are read, as in a result; all else becomes data.
    inside: bool = False
    nested: int = 0
    speakers: set[Role] = field(default_factory=set)
    name: str | None = None
    parts: list[MessagePart] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    order: StepOrder = field(default_factory=StepOrder)

    @property
    def lengths(self) -> Lengths:
        results = len(self.results)
        return len(self.thoughts), len(self.parts), len(self.calls), results

    def add_text(
        self, text: str, sent: Any = None, vendor: Vendor | None = None
    ) -> None:
        if found := media.find_data_url(text):
            self.parts.append(_build_part(found))
        elif text or vendor == "gemini":
            # Of a stream, a signature may stand in a part without text.
            words = media.remove_base64(text)
            part = MessagePart(
                kind="text", words=words, sent=sent if vendor else None, vendor=vendor
            )
            self.parts.append(part)

    def add_data(
        self, value: Any, about: str = "", vendor: Vendor | None = None
    ) -> None:
        bare = about and isinstance(value, str)
        words = media.remove_base64(value) if bare else media.render_json_words(value)
        part = MessagePart(kind="data", words=about + words, vendor=vendor)
        self.parts.append(replace(part, sent=value) if vendor else part)

    def add_rest(self, block: Block, taken: Collection[str] = ()) -> None:
        """Name the remaining members of an object, and keep their words."""
        for name, value in block.items():
            if name in STRUCTURE or is_empty(value):
                continue
            if name in taken and isinstance(value, _EXPECTED.get(name, object)):
                continue
            self.extras.append(name)
            if name not in _UNSAID and has_content(value):
                self.add_data(value, f"{name}: ")

    def join(self, other: _MessageReading) -> None:
        self.order.join(self.lengths, other.order, other.lengths)
        self.speakers |= other.speakers
        self.parts += other.parts
        by = sum(self.lengths[2:])
        self.calls += (replace(c, place=c.place + by) for c in other.calls)
        self.results += (replace(r, place=r.place + by) for r in other.results)
        self.refusals += other.refusals
        self.thoughts += other.thoughts
        self.extras += other.extras

    def build_message(self, type_: str, role: Role | None) -> Message:
        speech = next((each for each in _FOR_ALL if each in self.speakers), None)
        by_type = type_.startswith("chat.") and ROLES.get(type_[5:])
        order = self.order
        return Message(
            role=role or speech or by_type or ("tool" if self.results else None),
            name=self.name,
            parts=order.number_steps(self.parts, 1),
            calls=order.number_steps(self.calls, 2),
            results=order.number_steps(self.results, 3),
            refusal="\n".join(self.refusals) or None,
            thoughts=order.number_steps(self.thoughts, 0),
            extras=tuple(dict.fromkeys(self.extras)),
            phases=order.list_phases(),
        )


Reader = Callable[[_MessageReading, Block], None]
#: Members of a lone text. With others beside them, the object is an agent's own record.
_OF_TEXT = frozenset({"text", "thought", "cache_control", "annotations", "citations"})


def read(
    content: Any,
    type: str = "",  # noqa: A002  # what a slot calls it
    role: Role | None = None,
) -> Message:
    """Read a slot's content; `type` is the slot's type, `role` the client's role."""
    if isinstance(content, dict) and len(content) == 2:
        speech, speaker = content.get("content"), content.get("role")
        # Most messages have only role and content, and this path reads them much
        # faster.
        heard = _PLAIN.get(speaker) if isinstance(speaker, str) else None
        if heard and isinstance(speech, str) and speech[:5] not in _NOT_PLAIN:
            part = MessagePart(kind="text", words=media.remove_base64(speech))
            return Message(role=role or heard, parts=(part,))
    reading = _MessageReading()
    if isinstance(content, str):
        reading.add_text(content)
    elif isinstance(content, list) and any(map(_find_reader, content)):
        _read_content(reading, content)
    elif not _is_record(content) and (reader := _find_reader(content)):
        reader(reading, content)
    elif _is_message(content, type):
        _read_message(reading, content)
    else:
        reading.add_data(content)
    return reading.build_message(type, role)


def _is_record(content: Any) -> bool:
    """Return whether content is an agent's own data with a text in it."""
    return (
        isinstance(content, dict)
        and isinstance(content.get("text"), str)
        and not content.keys() <= _OF_TEXT
        and content.keys().isdisjoint({"type", "role"})
    )


def _is_message(content: Any, type_: str) -> bool:
    """Return whether an object without a role is a message, by its slot's type."""
    if not isinstance(content, dict) or "type" in content:
        return False
    speech = ("content", "parts", "refusal", *_CALLS)
    return type_.startswith("chat.") and not content.keys().isdisjoint(speech)


def _find_reader(item: Any, *, inside: bool = False) -> Reader | None:
    """Find the reader of an object; None if its kind is unknown."""
    if not isinstance(item, dict):
        return None
    kind = item.get("type")
    found = _PARTS.get(kind) if isinstance(kind, str) else None
    if inside or found:
        members = _PARTS_BY_MEMBER if kind is None else {}
    elif isinstance(item.get("role"), str) and str(kind) not in _ITEMS:
        return _read_message
    elif isinstance(kind, str):
        return _ITEMS.get(kind) or _find_family_reader(kind, item)
    else:
        members = _BY_MEMBER if kind is None else {}
    return found or next((members[n] for n in members if _has_member(item, n)), None)


def _find_family_reader(kind: str, item: Block) -> Reader | None:
    """Find the reader of a kind not known by name, by a member that the object has."""
    if kind in ROLES and ("content" in item or "data" in item):
        return _read_message
    if kind in {"function", "custom"} and isinstance(item.get(kind), dict):
        return _read_call
    if kind.endswith("_tool_result") and "tool_use_id" in item:
        return _read_result
    if kind.endswith(("_call", "_output")) and "call_id" in item:
        return _read_hosted_call if kind.endswith("_call") else _read_result
    return (
        _read_used_tool if kind.startswith("tool-") and "toolCallId" in item else None
    )


def _has_member(item: Block, name: str) -> bool:
    return isinstance(item.get(name), str if name in _TEXTS else dict)


def _read_content(reading: _MessageReading, value: Any) -> None:
    """Read the content of a message or a result."""
    inside = reading.inside or reading.nested > _NESTED
    several = isinstance(value, list)
    # A tool's object is its result, whatever its members are called.
    bare = not several and (inside or "tool" in reading.speakers)
    for each in value if several else [value]:
        before = reading.lengths
        reader = _find_reader(each, inside=inside or not several)
        if isinstance(each, str):
            reading.add_text(each)
        elif reader and not (bare and "type" not in each):
            reader(reading, each)
        elif each is not None:
            reading.add_data(each, vendor=find_run_vendor(each))
        # A message in a list tells its order by itself.
        if reader is not _read_message:
            reading.order.note(before, reading.lengths)


def _read_message(reading: _MessageReading, item: Block) -> None:
    item = _unwrap_langchain(item)
    sent = item.get("role", item.get("type"))
    role = ROLES.get(sent) if isinstance(sent, str) else None
    name = to_id_text(item.get("name"))
    if role is None and isinstance(item.get("role"), str):
        # Some agents have their own name as role.
        name = name or item["role"]
    inner = _MessageReading(
        speakers={role} if role else set(), nested=reading.nested + 1
    )
    _read_members(inner, item)
    if item.get("phase") in _PHASES and role == "assistant":
        inner.order.set_phase(item["phase"])
    # The message's own role wins over roles found in its content.
    inner.speakers = {role} if role else inner.speakers
    if role == "tool" and not inner.results:
        of_chat = item.get("role") == "tool" and "tool_call_id" in item
        result = Result(
            id=find_first_id(item, _RESULT_ID),
            name=find_first_id(item, _NAME),
            parts=tuple(inner.parts),
            failed=has_failed(item),
            sent=item if of_chat else None,
            vendor="chat" if of_chat else None,
        )
        inner.parts, inner.results, inner.order = [], [result], StepOrder()
    elif role != "tool":
        reading.name = reading.name or name
    reading.join(inner)


def _read_members(reading: _MessageReading, item: Block) -> None:
    """Read the members of a message, in order."""
    if "parts" in item and ("content" in item or "toolInvocations" in item):
        item = _remove_repeated(item)
    for name, value in item.items():
        if (reader := _OF_MESSAGE.get(name)) and not is_empty(value):
            reader(reading, value)
    if cited := render_citations(item):
        reading.parts.append(MessagePart(kind="data", words=cited))
    reading.add_rest(item, _MESSAGE)


def _remove_repeated(item: Block) -> Block:
    """Remove members that repeat the AI SDK's parts, which older versions had alone."""
    texts = [p.get("text") for p in to_list(item["parts"]) if isinstance(p, dict)]
    again = {"toolInvocations", "content"}
    if item.get("content") not in texts:
        again.remove("content")
    return {name: value for name, value in item.items() if name not in again}


def _read_thoughts(reading: _MessageReading, value: Any) -> None:
    for each in to_list(value):
        _read_thought(reading, each if isinstance(each, dict) else {"text": each})


def _read_calls(reading: _MessageReading, value: Any) -> None:
    for each in to_list(value):
        _read_call(reading, each) if isinstance(each, dict) else reading.add_data(each)


def _build_list_reader(kind: PartKind) -> Callable[[_MessageReading, Any], None]:
    def read_media(reading: _MessageReading, value: Any) -> None:
        for each in to_list(value):
            _PARTS[kind](reading, each if isinstance(each, dict) else {"data": each})

    return read_media


def _read_refused_text(reading: _MessageReading, value: Any) -> None:
    if isinstance(value, str):
        reading.refusals.append(value)


def _unwrap_langchain(item: Block) -> Block:
    """Return the message inside one that LangChain has dumped, or the item itself."""
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
    # The calls stand there a second time, as their model sent them.
    again = _CALLS if "tool_calls" in held else ()
    return {**{n: v for n, v in more.items() if n not in again}, **held}


def _read_text(reading: _MessageReading, block: Block) -> None:
    text = block.get("text")
    if block.get("thought") is True and not reading.inside:
        _read_thought(reading, block)
    elif isinstance(text, str):
        cited, vendor = render_citations(block), VENDORS.get(str(block.get("type")))
        if "type" in block and ("cache_control" in block or "citations" in block):
            vendor = vendor or "anthropic"
        if vendor is None and not SIGNATURES.isdisjoint(block):
            vendor = "gemini"
        reading.add_text(f"{text}\n{cited}" if cited else text, block, vendor)
        reading.add_rest(block, {"text", "thought", *CITED})
    elif text is None:
        reading.add_rest(block)
    else:
        reading.add_data(block)


def _read_refusal(reading: _MessageReading, block: Block) -> None:
    _read_refused_text(reading, block.get("refusal") or None)
    reading.add_rest(block, {"refusal"})


def _build_reader(kind: PartKind) -> Reader:
    def read_medium(reading: _MessageReading, block: Block) -> None:
        found = media.find_medium(kind, block)
        inner, shown = _MessageReading(inside=True), _MessageReading(inside=True)
        shown.add_text(found.medium.name or "")
        shown.add_text(found.words)
        for each in to_list(found.rest.pop("content", None)):
            # A document's own blocks: one level is read, deeper levels are data.
            text = each.get("text") if isinstance(each, dict) else each
            if isinstance(text, str) and "content" not in each:
                inner.add_text(text)
                inner.add_rest(each if isinstance(each, dict) else {}, {"text"})
                shown.add_text(text)
                continue
            inner.add_data(each)
            image = isinstance(each, dict) and each.get("type") == "image"
            is_flat = image and "content" not in each
            _PARTS["image"](shown, each) if is_flat else shown.add_data(each)
        inside = (each.words or media.render_line(each) for each in inner.parts)
        words = "\n".join(filter(None, [found.words, *inside]))
        vendor = find_medium_vendor(block)
        part = _build_part(found._replace(words=words), block, vendor)
        if any(each.medium for each in shown.parts):
            part = replace(part, inner=tuple(shown.parts))
        reading.parts.append(part)
        reading.add_rest(found.rest, {"citations", "source_type"})

    return read_medium


def _build_part(
    found: media.FoundMedium, sent: Any = None, vendor: Vendor | None = None
) -> MessagePart:
    return MessagePart(
        kind=found.kind,
        words=found.words,
        medium=found.medium,
        sent=sent if vendor else None,
        vendor=vendor,
    )


def _read_audio(reading: _MessageReading, value: Any) -> None:
    """Read an assistant's audio of chat completions; its id is a file's."""
    if isinstance(value, dict):
        found = media.find_medium(
            "audio", {**value, "file_id": to_id_text(value.get("id"))}
        )
        reading.parts.append(_build_part(found, value, "chat"))
        reading.add_rest(found.rest)


def _read_search_result(reading: _MessageReading, block: Block) -> None:
    words = "\n".join(iter_strings({n: block.get(n) for n in _SEARCH_RESULT}))
    reading.add_text(words, block, "anthropic")
    reading.add_rest(block, {*_SEARCH_RESULT, "citations"})


def _read_call(reading: _MessageReading, block: Block) -> None:
    whole, wrapper = _merge_wrapper(reading, block)
    argued = next((n for n in _ARGUMENTS if whole.get(n) is not None), "")
    sent, kind = whole.get(argued), str(block.get("type"))
    arguments = (
        sent if isinstance(sent, str) else "" if sent is None else dump_json(sent)
    )
    values = sent if isinstance(sent, dict) else json_text.read(arguments)
    vendor = find_call_vendor(block, kind, sent)
    call = Call(
        id=find_first_id(whole, (*_CALL_ID, "id")),
        name=find_first_id(whole, _NAME),
        arguments=arguments,
        values=values if isinstance(values, dict) else None,
        kind=_CALL_KINDS.get(kind, "function"),
        sent=block if vendor else None,
        vendor=vendor,
        place=sum(reading.lengths[2:]),
    )
    reading.calls.append(call)
    reading.speakers.add("assistant")
    reading.add_rest(whole, {wrapper, argued, *_CALL_ID, *_NAME})


def _merge_wrapper(reading: _MessageReading, block: Block) -> tuple[Block, str]:
    """Return a call or result merged with its wrapper's members, and the wrapper."""
    wrapper = next((n for n in _WRAPPERS if isinstance(block.get(n), dict)), "")
    if not wrapper:
        return block, ""
    inner = block[wrapper]
    reading.add_rest({n: v for n, v in block.items() if n in inner and v != inner[n]})
    return {**block, **inner}, wrapper


def _read_result(reading: _MessageReading, block: Block) -> None:
    whole, wrapper = _merge_wrapper(reading, block)
    kind = str(block.get("type"))
    given = next((n for n in _OUTPUT if whole.get(n) is not None), "")
    body, failed = whole.get(given), has_failed(whole)
    inner = _MessageReading(inside=True)
    if isinstance(body, dict):
        body_kind = str(body.get("type"))
        failed = (
            failed or body_kind.startswith("error-") or body_kind.endswith("_error")
        )
        if "value" in body and isinstance(body.get("type"), str):
            # The AI SDK puts the kind of an output beside its value.
            inner.add_rest(body, {"value"})
            body = body["value"]
    _read_content(inner, body)
    inner.add_rest(whole, {wrapper, given, *_RESULT_ID, *_NAME, "is_error", "isError"})
    vendor = VENDORS.get(kind)
    if kind.endswith("_tool_result"):
        vendor = "anthropic"
    vendor = vendor or find_gemini(block)
    result = Result(
        id=find_first_id(whole, (*_RESULT_ID, *(("id",) if wrapper else ()))),
        name=find_first_id(whole, _NAME) or find_server_tool(kind),
        parts=tuple(inner.parts),
        failed=failed,
        sent=block if vendor else None,
        vendor=vendor,
        place=sum(reading.lengths[2:]),
    )
    reading.results.append(result)
    reading.extras += inner.extras
    if vendor == "responses":
        reading.speakers.add("tool")


def _read_used_tool(reading: _MessageReading, block: Block) -> None:
    """Read a part of the AI SDK that is both a call and its result."""
    whole, _ = _merge_wrapper(reading, block)
    given = {n: v for n, v in whole.items() if n in _OUTPUT[:3] and v is not None}
    kind = str(block.get("type"))
    named = {"toolName": kind[5:]} if kind.startswith("tool-") else {}
    named |= {n: whole[n] for n in ("toolCallId", "toolName", "state") if n in whole}
    called = {n: v for n, v in whole.items() if n not in (*given, "toolInvocation")}
    _read_call(reading, called | named)
    if given:
        _read_result(reading, named | given)


def _read_thought(reading: _MessageReading, block: Block) -> None:
    vendor: Vendor | None = None
    kind = str(block.get("type"))
    if kind in {"thinking", "redacted_thinking"}:
        signed = block.get("signature" if kind == "thinking" else "data")
        vendor = VENDORS[kind] if isinstance(signed, str) and signed else None
    elif kind == "reasoning" and isinstance(block.get("summary"), list):
        vendor = "responses"
    elif block.get("thought") is True and not SIGNATURES.isdisjoint(block):
        vendor = "gemini"
    sealed = kind in _SEALED or vendor == "anthropic"
    words = "\n".join(iter_strings(block, _OPAQUE if sealed else STRUCTURE))
    if words or vendor:
        sent = block if vendor else None
        reading.thoughts.append(Thought(words=words, sent=sent, vendor=vendor))
    reading.speakers.add("assistant")


def _read_sealed(reading: _MessageReading, block: Block) -> None:
    """Read an item that only its own API can open, and the words that it has."""
    if isinstance(summary := block.get("content"), str):
        # Anthropic's compaction is a text that stands for the earlier messages.
        reading.add_text(summary, block, "anthropic")
    reading.thoughts.append(Thought(sent=block, vendor="responses"))
    reading.speakers.add("assistant")


def _read_hosted_call(reading: _MessageReading, block: Block) -> None:
    """Read the call of a tool that the API hosts; the call contains its result."""
    kind = str(block.get("type"))
    speech = {n: v for n, v in block.items() if n not in _UNTOLD and not is_empty(v)}
    if kind == "image_generation_call":
        found = media.find_medium("image", {"data": speech.get("result")})
        if found.medium.base64:
            reading.parts.append(_build_part(found))
            del speech["result"]
    only = next(iter(speech.values())) if len(speech) == 1 else speech
    arguments = only if isinstance(only, str) else media.render_json_words(only)
    values = only if isinstance(only, dict) else json_text.read(arguments)
    call = Call(
        id=find_first_id(block, (*_CALL_ID, "id")),
        name=find_first_id(block, _NAME) or kind.removesuffix("_call"),
        arguments=arguments if speech else "",
        values=values if isinstance(values, dict) else None,
        kind="server",
        sent=block,
        vendor="responses",
    )
    reading.calls.append(call)
    reading.speakers.add("assistant")


def _read_nothing(reading: _MessageReading, block: Block) -> None:
    reading.add_rest(block)


_PARTS: dict[str, Reader] = {
    **dict.fromkeys(("text", "input_text", "output_text", "text-plain"), _read_text),
    **dict.fromkeys(("image", "image_url", "input_image"), _build_reader("image")),
    **dict.fromkeys(("computer_screenshot",), _build_reader("image")),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), _build_reader("audio")),
    **dict.fromkeys(("video", "video_url", "input_video"), _build_reader("video")),
    **dict.fromkeys(("file", "input_file", "document", "media"), _build_reader("file")),
    **dict.fromkeys(("resource", "resource_link"), _build_reader("file")),
    "search_result": _read_search_result,
}
# fmt: off
_CALL_TYPES = (
    "tool_use", "mcp_tool_use", "server_tool_use", "tool-call", "tool_call",
    "function_call", "custom_tool_call",
)
_RESULT_TYPES = ("tool_result", "tool-result", "mcp_tool_result")
_HOSTED = (
    *ANSWERED[2:], "web_search_call", "file_search_call", "code_interpreter_call",
    "image_generation_call", "mcp_call", "mcp_list_tools", "mcp_approval_request",
    "tool_search_call",
)
# fmt: on
_THINKING = ("thinking", "redacted_thinking", "reasoning")
_ITEMS: dict[str, Reader] = {
    **dict.fromkeys(("message", "constructor"), _read_message),
    "refusal": _read_refusal,
    **dict.fromkeys(_CALL_TYPES, _read_call),
    **dict.fromkeys(_HOSTED, _read_hosted_call),
    **dict.fromkeys((*_RESULT_TYPES, "mcp_approval_response"), _read_result),
    **{f"{each}_output": _read_result for each in ANSWERED},
    **dict.fromkeys(("tool-invocation", "dynamic-tool"), _read_used_tool),
    **dict.fromkeys(_THINKING, _read_thought),
    **dict.fromkeys(("compaction", "item_reference"), _read_sealed),
    "step-start": _read_nothing,
}
#: Readers of a message's members.
_OF_MESSAGE: dict[str, Callable[[_MessageReading, Any], None]] = {
    **dict.fromkeys(("content", "parts", "toolInvocations"), _read_content),
    **dict.fromkeys(_THOUGHTS, _read_thoughts),
    **dict.fromkeys(_CALLS, _read_calls),
    **dict.fromkeys(
        ("attachments", "experimental_attachments"), _build_list_reader("file")
    ),
    "images": _build_list_reader("image"),
    "audio": _read_audio,
    "refusal": _read_refused_text,
}
_MESSAGE = frozenset({*_OF_MESSAGE, *_NAME, *_RESULT_ID, *CITED, "is_error"})
#: Readers of an object without a type, by the first of these members it has.
_PARTS_BY_MEMBER: dict[str, Reader] = {
    "text": _read_text,
    "image": _build_reader("image"),
    **dict.fromkeys(("inlineData", "inline_data", "document"), _build_reader("file")),
    **dict.fromkeys(("fileData", "file_data"), _build_reader("file")),
    "video": _build_reader("video"),
    "audio": _build_reader("audio"),
    **dict.fromkeys(("base64", "mime_type"), _build_reader("file")),
}
_BY_MEMBER: dict[str, Reader] = {
    **dict.fromkeys(
        ("functionResponse", "function_response", "toolResult"), _read_result
    ),
    **dict.fromkeys(
        ("functionCall", "function_call", "toolUse", "function"), _read_call
    ),
    "toolCallId": _read_used_tool,
    "reasoningContent": _read_thought,
    **_PARTS_BY_MEMBER,
}
#: Members of the two tables above that are texts; the others are objects.
_TEXTS = frozenset({"text", "base64", "mime_type", "toolCallId"})
_CALL_KINDS: dict[str, CallKind] = {
    **dict.fromkeys(("custom", "custom_tool_call"), "custom"),
    **dict.fromkeys(("server_tool_use", "mcp_tool_use"), "server"),
}
