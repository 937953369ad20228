"""Turns: the model calls of a thread, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import cells, chat, summaries
from inspector.drawing.chat import Block
from inspector.drawing.scenes import Scene
from inspector.lists import panels, screens
from inspector.lists.screens import Context, ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.web import shell
from memoryhub.errors import NotFoundError
from memoryhub.kernel.text import strict_json
from memoryhub.queries.turns import turn_faults, turns
from memoryhub.queries.turns.turns import Shown


def _lines(ask: ListRequest[Visit]) -> Context:
    visit = ask.where
    found = turns.list_turns(
        visit.row, up_to=visit.moment.at_seq, after=ask.after, limit=ask.limit
    )
    return screens.list_context(ask, found)


SCREEN = Screen(folder="turns", scope=screens.THREAD, lines=_lines)


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
def show(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """What a model call was given: its parts, their order, the exact bytes."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    if not 1 <= n <= row.turn_count:
        raise NotFoundError
    found, faults = turns.get_context(row, n), turn_faults.get_faults(row, n)
    whole = request.GET.get("content") == "all"
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row)),
        "n": n,
        "context": found,
        **(_drawn(found, whole=whole) if found else {}),
        "faults": faults,
        "fault_lines": [
            (fault, summaries.of_fault(fault.type, fault.body))
            for fault in (faults.faults if faults else ())
        ],
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
    context: dict[str, Any] = {
        "parts": cells.stacked((part.name, part.tokens) for part in found.parts),
        "used": [(ref, cells.included(ref.inclusion)) for ref in found.used],
        "readable": (),
        "raw": None,
    }
    if found.request is None:
        return context
    text = found.request.decode()
    shown = text if whole else text[:REQUEST_CHARS]
    cut = len(text) if len(shown) < len(text) else 0
    return context | {
        "readable": [_said(each, whole=whole) for each in _messages(found.request)],
        "raw": Block(kind="json", text=shown, cut=cut),
    }


def _messages(request: bytes) -> list[dict[str, Any]]:
    whole = strict_json.kept(request)
    head = whole.get("system")
    spoken = [{"role": "system", "content": head}] if head else []
    said: list[dict[str, Any]] = whole.get("input") or whole["messages"]
    return spoken + said


def _said(message: dict[str, Any], *, whole: bool) -> Said:
    content = message.get("content")
    plain = isinstance(content, str) and "tool_calls" not in message
    text = content if plain else chat.pretty(message)
    assert isinstance(text, str)
    shown = text if whole else text[:SAID_CHARS]
    role = message.get("role") or message.get("type", "")
    return Said(role=str(role), text=shown, size=len(text))
