"""Costs: the tokens a page takes up in a request, framing and escapes included.

Pure. A cost is the most the page can take, in whichever part of the request it stands,
so that the costs of pages add up to no less than the request. By a tokenizer whose
counts do not add up that is near enough to choose by: packing counts the whole again.
"""

from __future__ import annotations

from memoryhub.kernel.levels import lines
from memoryhub.kernel.levels.lines import shown_text
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count, estimate
from memoryhub.kernel.messages.media import weights
from memoryhub.kernel.messages.message import Call
from memoryhub.kernel.state.pages import FULL, SYSTEM_PROMPT
from memoryhub.kernel.text.json_text import dumped, in_string


def cost(opened: Opened, *, level: int = FULL, count: Count = estimate) -> int:
    """Count the tokens of the whole page at this level. Linear."""
    if instructs(opened):
        return count(prose(opened, level=level))
    line = count(in_line(opened, level=level))
    if opened.slot is None:
        return line
    if level > FULL:
        return max(line, count(_message(shown_text(opened, level=level))))
    media = [*weights(opened.message)]
    spoken = count(_message(shown_text(opened))) + sum(weight for _, weight in media)
    if not isinstance(opened.content, dict | list) or any(m.base64 for m, _ in media):
        return max(line, spoken)
    wrapped = sum(_wrapping(call, count) for call in opened.message.calls)
    return max(line, spoken, count(dumped(opened.content) + ",") + wrapped)


def _wrapping(call: Call, count: Count) -> int:
    """Count what arguments that are no object need more, to stand in one."""
    if call.values is not None or not call.arguments:
        return 0
    wrapped = dumped({"input": call.arguments})
    return count(in_string(wrapped)) - count(in_string(call.arguments)) + 1


def _message(text: str) -> str:
    return dumped({"role": "assistant", "content": text}) + ","


def instructs(opened: Opened) -> bool:
    """Return whether the page belongs to the system prompt."""
    return opened.role == "system" or opened.page_id == SYSTEM_PROMPT


def in_line(
    opened: Opened,
    *,
    level: int,
    cut: int | None = None,
    part: tuple[int, int] | None = None,
) -> str:
    """Return the page's line in the request's JSON, as long as it can get."""
    # A page's cost must not change when it is fetched back.
    line = lines.line(opened, level=level, recalled=True, cut=cut, part=part)
    return in_string(line + "\n")


def prose(opened: Opened, *, level: int, cut: int | None = None) -> str:
    """Return the page's part of the system prompt in the request's JSON."""
    return in_string(lines.prose(opened, level=level, cut=cut) + "\n\n")
