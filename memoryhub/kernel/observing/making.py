"""Observations built from lines, ready to be stored, and slots for observers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from memoryhub.kernel.context import costs, log_lines
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.messages import reading
from memoryhub.kernel.messages.message import Call
from memoryhub.kernel.messages.words import render_words
from memoryhub.kernel.observing import lines, sentences
from memoryhub.kernel.observing.codes import GAP, list_codes
from memoryhub.kernel.observing.extractive import ObservedSlot
from memoryhub.kernel.observing.lines import ObservationLine
from memoryhub.kernel.paging.page_commands import NewObservation
from memoryhub.kernel.state.page_events import ObservedBody
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.text import strict_json

#: Tokens of a message's line by the extractive observer, and more for rules and wishes.
_REFERENCE: Final = 50
_LASTING: Final = 160
#: Arguments that identify a call, in order of preference, and their most characters.
_TELLING: Final = (
    *("path", "file_path", "filepath", "filename", "file", "notebook_path"),
    *("command", "cmd", "query", "q", "pattern", "url", "id", "name", "title"),
)
_LONGEST: Final = 60
#: Words with which a failed result begins.
_FAILED: Final = re.compile(
    r"^\W*(?:error|fatal|traceback|exception|fail(?:ed|ure)|denied|refused|not found|"
    r"not (?:allowed|permitted)|cannot|can['’]t|could not|unable to|invalid|no such|"
    r"permission|"
    r"command not found|timed? ?out|exit (?:code|status) [1-9])\b"
    r"|Traceback \(most recent call last\)|\b[A-Z]\w+(?:Error|Exception)\b",
    re.IGNORECASE,
)
_HEAD: Final = 400
#: Most characters of one message that a model is given.
MOST_READ: Final = 24_000


def build_observed_slot(
    index: int,
    role: str | None,
    at: datetime,
    content: Any,
    *,
    tokens: int,
    count: Count | None,
) -> ObservedSlot:
    """Build a slot for an observer; `content` is the slot's own.

    With a counter the text is short; without one it is whole, except for the middle of
    a long text.
    """
    message = reading.read(content)
    text = render_words(message).strip()
    found = () if count is None else list_codes(text)
    if count is None:
        half = MOST_READ // 2
        long = len(text) > MOST_READ
        text = f"{text[:half]}\n[…]\n{text[-half:]}" if long else text
    else:
        text = lines.to_one_line(
            sentences.tell_message(text, _REFERENCE, _LASTING, count=count)
        )
    return ObservedSlot(
        index=index,
        role=role or message.role or "user",
        at=at,
        text=text,
        tokens=tokens,
        tools=tuple(call.name or "tool" for call in message.calls),
        arguments=tuple(map(_find_argument, message.calls)),
        error=any(result.failed for result in message.results)
        or (bool(message.results) and _FAILED.search(text[:_HEAD]) is not None),
        codes=found,
    )


def _find_argument(call: Call) -> str:
    """Return the most telling argument of a call, cut, or ""."""
    values = call.values or {}
    named = [values[name] for name in _TELLING if values.get(name)]
    named += [each for name, each in values.items() if name.endswith(("_id", "Id"))]
    named += [each for each in values.values() if isinstance(each, str)]
    text = next((str(each) for each in named if isinstance(each, str | int)), "")
    text = lines.to_one_line(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}{GAP}"


def build_erased_slot(
    index: int, role: str | None, at: datetime, *, tokens: int
) -> ObservedSlot:
    """Build an erased slot for an observer."""
    return ObservedSlot(
        index=index, role=role or "user", at=at, text=None, tokens=tokens
    )


def build_observation(
    written: Sequence[ObservationLine],
    body: ObservedBody,
    *,
    sources: Sequence[Location],
    count: Count,
    current_task: str | None = None,
    suggested_response: str | None = None,
) -> NewObservation:
    """Build the observation of these lines, with its size in `body` counted."""
    hints = {"current task": current_task, "suggested response": suggested_response}
    rows = [lines.render_lines(written)]
    rows += [
        f"{log_lines.HINT}{name}: {lines.to_one_line(hint)}"
        for name, hint in hints.items()
        if hint
    ]
    content = {"text": "\n".join(rows)}
    opened = OpenedPage(
        page_id="obs-0", type="summary", modality="text", content=content
    )
    shown = log_lines.count_tokens(opened, count=count)
    return NewObservation(
        observed=body.model_copy(update={"shown": shown}),
        payload=strict_json.dump_stored({"content": content}),
        tokens=count(content["text"]),
        cost=costs.compute_cost(opened, count=count),
        bytes=len(strict_json.dump_stored(content)),
        sources=tuple(sources),
    )
