"""Observations made of lines, ready to be kept, and slots for observers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from memoryhub.kernel.levels import costs, log_lines
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.messages import reading
from memoryhub.kernel.messages.message import Call
from memoryhub.kernel.messages.words import words
from memoryhub.kernel.observing import lines, sentences
from memoryhub.kernel.observing.codes import GAP, codes
from memoryhub.kernel.observing.extractive import Spoken
from memoryhub.kernel.observing.lines import Line
from memoryhub.kernel.paging.page_commands import NewObservation
from memoryhub.kernel.state.page_events import ObservedBody
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.text import strict_json

#: Tokens of a message, as the extractive observer tells it: of rules and wishes more.
_REFERENCE: Final = 50
_LASTING: Final = 160
#: Arguments that tell a call, the first of them that it has; and their characters.
_TELLING: Final = (
    *("path", "file_path", "filepath", "filename", "file", "notebook_path"),
    *("command", "cmd", "query", "q", "pattern", "url", "id", "name", "title"),
)
_LONGEST: Final = 60
#: Words with which a result that failed begins.
_FAILED: Final = re.compile(
    r"^\W*(?:error|fatal|traceback|exception|fail(?:ed|ure)|denied|refused|not found|"
    r"not (?:allowed|permitted)|cannot|can['’]t|could not|unable to|invalid|no such|"
    r"permission|"
    r"command not found|timed? ?out|exit (?:code|status) [1-9])\b"
    r"|Traceback \(most recent call last\)|\b[A-Z]\w+(?:Error|Exception)\b",
    re.IGNORECASE,
)
_HEAD: Final = 400
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
        text = lines.one_line(
            sentences.tell_message(text, _REFERENCE, _LASTING, count=count)
        )
    return Spoken(
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
    """Return the argument that tells most of a call, cut, or nothing."""
    values = call.values or {}
    named = [values[name] for name in _TELLING if values.get(name)]
    named += [each for name, each in values.items() if name.endswith(("_id", "Id"))]
    named += [each for each in values.values() if isinstance(each, str)]
    text = next((str(each) for each in named if isinstance(each, str | int)), "")
    text = lines.one_line(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}{GAP}"


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
