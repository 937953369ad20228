from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector import access, asof, cells, chat, panels, shell
from inspector.access import signed_in
from inspector.chat import Block
from inspector.panels import Scene
from memoryhub.errors import NotFoundError
from memoryhub.queries import turns
from memoryhub.queries.turns import Shown

#: Characters of one message of a request, and of all of it, that a page shows unasked.
SAID_CHARS, REQUEST_CHARS = 24_000, 64_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message of a request, as the model reads it."""

    role: str
    text: str
    size: int

    @property
    def cut(self) -> bool:
        return self.size > len(self.text)


@require_safe
@signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The model calls of a thread, newest first."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    moment = asof.read(request, row)
    found = turns.list_turns(
        row,
        up_to=moment.at_seq,
        after=request.GET.get("after") or None,
        limit=asof.limit(request),
    )
    kept = {"at_seq": str(moment.seq)} if not moment.live else {}
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row, at_seq=moment.at_seq)),
        "moved": moment,
        "newer": moment.head - moment.seq,
        "listed": found.items,
        "more": urlencode({**kept, "after": found.next}) if found.next else "",
    }
    return shell.page(
        request,
        "inspector/turns/index.html",
        context,
        place=place,
        section="threads",
        live=True,
    )


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """What a model call was given: its parts, their order, the exact bytes."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    if not 1 <= n <= row.turn_count:
        raise NotFoundError
    found = turns.get_context(row, n)
    whole = request.GET.get("content") == "all"
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row)),
        "n": n,
        "context": found,
        **(_drawn(found, whole=whole) if found else {}),
        "own": found is not None and found.recorded.home.id == row.id,
    }
    return shell.page(
        request,
        "inspector/turns/show.html",
        context,
        place=place,
        section="threads",
        status=410 if found and found.missing else 200,
    )


def _drawn(found: Shown, *, whole: bool) -> dict[str, Any]:
    parts = cells.stacked((part.name, part.tokens) for part in found.parts)
    if found.request is None:
        return {"parts": parts, "readable": (), "raw": None}
    text = found.request.decode()
    shown = text if whole else text[:REQUEST_CHARS]
    cut = len(text) if len(shown) < len(text) else 0
    return {
        "parts": parts,
        "readable": [_said(each, whole=whole) for each in _messages(found.request)],
        "raw": Block(kind="json", text=shown, cut=cut),
    }


def _messages(request: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = orjson.loads(request)["messages"]
    return found


def _said(message: dict[str, Any], *, whole: bool) -> Said:
    content = message.get("content")
    plain = isinstance(content, str) and "tool_calls" not in message
    text = content if plain else chat.pretty(message)
    assert isinstance(text, str)
    shown = text if whole else text[:SAID_CHARS]
    return Said(role=str(message.get("role", "")), text=shown, size=len(text))
