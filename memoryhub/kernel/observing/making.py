"""Observations made of lines, ready to be kept, and slots for observers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from memoryhub.kernel.levels import costs, level_text, log_lines
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.messages import reading
from memoryhub.kernel.messages.words import words
from memoryhub.kernel.observing import lines
from memoryhub.kernel.observing.codes import codes
from memoryhub.kernel.observing.extractive import Spoken
from memoryhub.kernel.observing.lines import Line
from memoryhub.kernel.paging.page_commands import NewObservation
from memoryhub.kernel.state.page_events import ObservedBody
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.text import strict_json

#: Of a message's text, as the extractive observer tells it.
_REFERENCE: Final = 50
#: Characters of one message that a model is given.
MOST_READ: Final = 24_000


def spoken(
    index: int,
    role: str | None,
    at: datetime,
    content: Any,
    *,
    tokens: int,
    count: Count | None,
) -> Spoken:
    """Return a slot as an observer is told of it; `content` is its own.

    In short, by the counter; without one in whole, but for the middle of what is long.
    """
    message = reading.read(content)
    text = words(message).strip()
    found = () if count is None else codes(text)
    if count is None:
        half = MOST_READ // 2
        long = len(text) > MOST_READ
        text = f"{text[:half]}\n[…]\n{text[-half:]}" if long else text
    else:
        short = level_text.reference(text, label="", cap=_REFERENCE, count=count)
        text = lines.one_line(short or text[:_REFERENCE])
    return Spoken(
        index=index,
        role=role or message.role or "user",
        at=at,
        text=text,
        tokens=tokens,
        tools=tuple(call.name or "tool" for call in message.calls),
        error=any(result.failed for result in message.results),
        codes=found,
    )


def erased(index: int, role: str | None, at: datetime, *, tokens: int) -> Spoken:
    """Return a slot of which nothing is left."""
    return Spoken(index=index, role=role or "user", at=at, text=None, tokens=tokens)


def made(
    written: Sequence[Line],
    body: ObservedBody,
    *,
    sources: Sequence[Location],
    count: Count,
    current_task: str | None = None,
    suggested_response: str | None = None,
) -> NewObservation:
    """Return the observation of these lines, counted as `body` is to say it."""
    hints = {"current task": current_task, "suggested response": suggested_response}
    rows = [lines.written(written)]
    rows += [
        f"{log_lines.HINT}{name}: {lines.one_line(hint)}"
        for name, hint in hints.items()
        if hint
    ]
    content = {"text": "\n".join(rows)}
    opened = Opened(page_id="obs-0", type="summary", modality="text", content=content)
    shown = log_lines.tokens(opened, count=count)
    return NewObservation(
        observed=body.model_copy(update={"shown": shown}),
        payload=strict_json.as_sent({"content": content}),
        tokens=count(content["text"]),
        cost=costs.cost(opened, count=count),
        bytes=len(strict_json.as_sent(content)),
        sources=tuple(sources),
    )
