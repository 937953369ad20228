"""Tools that Anthropic's servers run: their calls, results and citations. Pure.

The API wants the blocks of a call and its result back as they came, in the assistant's
message: a result's text is encrypted, and citations point into it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from memoryhub.kernel.messages import media
from memoryhub.kernel.messages.anthropic import parse_citation
from memoryhub.kernel.messages.ids import RequestIds
from memoryhub.kernel.messages.message import Call, Message, MessagePart, Result
from memoryhub.kernel.messages.pieces import Json, get_sent
from memoryhub.kernel.messages.values import to_list
from memoryhub.kernel.messages.vendors import find_server_tool

_ID = re.compile("srvtoolu_[A-Za-z0-9_]+")
#: Members that the API takes beside the type.
_CALLED = frozenset({"type", "id", "name", "input", "caller", "cache_control"})
_ANSWERED = frozenset({"type", "tool_use_id", "content", "caller", "cache_control"})
_SPOKEN = frozenset({"type", "text", "citations", "cache_control"})
_FOUND = ("type", "title", "url", "encrypted_content")


def keep_blocks(
    message: Message, ids: RequestIds, seed: str, *, whole: bool
) -> Message:
    """Return a message with pairs of a server's call and its result as its parts.

    A pair that the API would refuse stays as it is, and loses the citations that point
    into it; so does every pair of a message that is not `whole`. `ids` holds the ids of
    pairs under the message's `seed`: no id is written twice. Cost: linear.
    """
    if message.role != "assistant":
        return message
    pairs = _find_pairs(message, ids, seed) if whole else {}
    urls = {
        found["url"]
        for _, block in pairs.values()
        if isinstance(block["content"], list)
        for found in block["content"]
    }
    parts = tuple(_keep_citations(part, urls) for part in message.parts)
    if not pairs:
        return message if parts == message.parts else replace(message, parts=parts)
    placed = [(c.place, c.step, pairs[c.id][0]) for c in message.calls if c.id in pairs]
    placed += (
        (r.place, r.step, pairs[r.id][1]) for r in message.results if r.id in pairs
    )
    blocks = (
        MessagePart(kind="data", words="", sent=sent, vendor="anthropic", step=step)
        for _, step, sent in sorted(placed, key=lambda each: each[0])
    )
    return replace(
        message,
        parts=(*parts, *blocks),
        calls=tuple(each for each in message.calls if each.id not in pairs),
        results=tuple(each for each in message.results if each.id not in pairs),
    )


def _find_pairs(
    message: Message, ids: RequestIds, seed: str
) -> dict[str | None, tuple[Json, Json]]:
    """Return the blocks of each whole pair by its id."""
    answers = {each.id: each for each in message.results}
    times = Counter(each.id for each in message.calls)
    times.update(each.id for each in message.results)
    found = dict[str | None, tuple[Json, Json]]()
    for call in message.calls:
        answer = answers.get(call.id)
        if not call.id or answer is None or times[call.id] != 2:
            continue
        if answer.place < call.place:
            continue
        use, result = _build_use(call), _build_result(answer)
        if not use or not result:
            continue
        by = {(each.get("caller") or {}).get("tool_id") for each in (use, result)}
        if by <= {None, *found} and ids.is_owner(call.id, f"{seed} server"):
            found[call.id] = use, result
    return found


def _build_use(call: Call) -> Json | None:
    sent = _drop_nulls(get_sent(call, "anthropic"))
    sound = (
        sent.get("type") == "server_tool_use"
        and isinstance(sent.get("input"), dict)
        and all(isinstance(sent.get(name), str) for name in ("id", "name"))
        and _ID.fullmatch(sent["id"])
    )
    return sent if sound and sent.keys() <= _CALLED and _has_caller(sent) else None


def _build_result(result: Result) -> Json | None:
    sent = _drop_nulls(get_sent(result, "anthropic"))
    content = sent.get("content")
    if isinstance(content, list):
        sound = all(map(_is_found, content))
    else:
        # Base64 would count as text.
        stated = isinstance(content, dict) and isinstance(content.get("type"), str)
        sound = stated and not _has_base64(content)
    named = find_server_tool(str(sent.get("type"))) and "tool_use_id" in sent
    taken = sent.keys() <= _ANSWERED and _has_caller(sent)
    return sent if named and sound and taken else None


def _drop_nulls(sent: Json) -> Json:
    return {name: each for name, each in sent.items() if each is not None}


def _has_caller(sent: Json) -> bool:
    caller = sent.get("caller", {})
    return isinstance(caller, dict) and isinstance(caller.get("tool_id", ""), str)


def _is_found(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and found.get("type") == "web_search_result"
        and all(isinstance(found.get(name), str) for name in _FOUND)
    )


def _has_base64(content: Any) -> bool:
    document = content.get("content")
    held = isinstance(document, dict) and media.find_medium("file", document)
    return bool(held and held.medium.base64)


def _keep_citations(part: MessagePart, urls: Collection[str]) -> MessagePart:
    """Return a part without citations of searches that are not sent.

    A text whose citations all stay is sent as it came.
    """
    sent = get_sent(part, "anthropic")
    cited = to_list(sent.get("citations")) if part.kind == "text" else []
    found = [*filter(None, map(parse_citation, cited))]
    if not any("encrypted_index" in each for each in found):
        return part
    kept = [each for each in found if "url" not in each or each["url"] in urls]
    text = sent.get("text")
    if (
        kept == cited
        and sent.keys() <= _SPOKEN
        and isinstance(text, str)
        and text.strip()
        and part.words.startswith(text)
    ):
        return replace(part, kind="data")
    return replace(part, sent={**sent, "citations": kept})
