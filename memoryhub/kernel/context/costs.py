"""Costs: the tokens a page takes up in a request, framing and escapes included.

Pure. A cost is the most the page can take in any part of the request, so that the sum
of the costs is no less than the request. With a tokenizer whose counts do not add up,
the costs are only near enough to choose by: packing counts the whole again.
"""

from __future__ import annotations

from memoryhub.kernel.context import lines
from memoryhub.kernel.context.lines import render_shown_text
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import Count, estimate_tokens
from memoryhub.kernel.messages.media import iter_weights
from memoryhub.kernel.messages.message import Call
from memoryhub.kernel.state.pages import FULL, SYSTEM_PROMPT
from memoryhub.kernel.text.json_text import dump_json, escape_for_string


def compute_cost(
    opened: OpenedPage, *, level: int = FULL, count: Count = estimate_tokens
) -> int:
    """Count the tokens of the whole page at this level. Linear."""
    if is_instruction(opened):
        return count(render_prose_json(opened, level=level))
    line = count(render_line_json(opened, level=level))
    if opened.slot is None:
        return line
    if level > FULL:
        return max(line, count(_render_message(render_shown_text(opened, level=level))))
    media = [*iter_weights(opened.message)]
    spoken = count(_render_message(render_shown_text(opened))) + sum(
        weight for _, weight in media
    )
    if not isinstance(opened.content, dict | list) or any(m.base64 for m, _ in media):
        return max(line, spoken)
    wrapped = sum(_count_wrapping(call, count) for call in opened.message.calls)
    return max(line, spoken, count(dump_json(opened.content) + ",") + wrapped)


def _count_wrapping(call: Call, count: Count) -> int:
    """Count the extra tokens that wrap arguments which are no JSON object into one."""
    if call.values is not None or not call.arguments:
        return 0
    wrapped = dump_json({"input": call.arguments})
    return (
        count(escape_for_string(wrapped)) - count(escape_for_string(call.arguments)) + 1
    )


def _render_message(text: str) -> str:
    return dump_json({"role": "assistant", "content": text}) + ","


def is_instruction(opened: OpenedPage) -> bool:
    """Return whether the page belongs to the system prompt."""
    return opened.role == "system" or opened.page_id == SYSTEM_PROMPT


def render_line_json(
    opened: OpenedPage,
    *,
    level: int,
    cut: int | None = None,
    part: tuple[int, int] | None = None,
) -> str:
    """Render the page's line in the request's JSON, at its greatest length."""
    # A page's cost must not change when it is fetched back.
    line = lines.render_line(opened, level=level, recalled=True, cut=cut, part=part)
    return escape_for_string(line + "\n")


def render_prose_json(opened: OpenedPage, *, level: int, cut: int | None = None) -> str:
    """Render the page's part of the system prompt in the request's JSON."""
    return escape_for_string(lines.render_prose(opened, level=level, cut=cut) + "\n\n")
