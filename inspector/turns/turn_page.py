"""Page of a turn: question, answer, request, missing pages, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in, require_signed_in_panel
from inspector.drawing import chat, first_words
from inspector.drawing.chat import ChatBlock
from inspector.drawing.first_words import FirstWords
from inspector.lists import panels, visits
from inspector.lists.screens import Context
from inspector.lists.visits import Visit
from inspector.turns import request_rows, turn_changes, turn_missing, turn_words
from inspector.turns.turns import list_turn_rows
from inspector.web import asof
from inspector.web.asof import ShownMoment
from memoryhub.errors import NotFoundError
from memoryhub.kernel.messages import media
from memoryhub.kernel.messages.words import render_content_words
from memoryhub.kernel.packing import selection
from memoryhub.kernel.text import strict_json
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.threads.slots import SlotLine
from memoryhub.queries.turns import (
    citations,
    exchanges,
    inclusions,
    marks,
    missing,
    own_calls,
    turn_faults,
    turns,
)
from memoryhub.queries.turns.exchanges import Exchange
from memoryhub.queries.turns.turn_faults import TurnFault
from memoryhub.queries.turns.turns import ShownRequest, TurnLine
from memoryhub.services.turns.marks import MAX_COMMENT_CHARS

#: Panels that the page of a turn fetches after it has loaded.
PANELS = ("missing", "prefix")
#: Turns listed before the shown turn, and after it.
BEFORE, AFTER = missing.TURNS, 4
#: Earlier turns with a weak prefix that the page names.
WEAK = 2
#: Characters of a question or an answer at the top.
SPEECH_CHARS = 1_200
#: Texts whose places the page lists at once.
PLACES = 100
#: Messages at the beginning and at the end of a request that the page shows by default.
FIRST, LAST = 20, 80
#: Characters of one message, of all messages, and of the exact bytes of a request that
#: the page shows by default.
MESSAGE_CHARS, READABLE_CHARS, EXACT_CHARS = 12_000, 40_000, 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeMessage:
    """Message of the exchange, as shown at the top."""

    slot: SlotLine
    excerpt: FirstWords | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMessage:
    """Message of a request, as the model reads it."""

    role: str
    #: The beginning, on one line.
    first_words: str
    text: str
    size: int

    @property
    def cut(self) -> bool:
        return self.size > len(self.text)


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """Show a turn: question, answer, mark, and the request's texts."""
    return render_turn(request, project, thread, n)


def render_turn(
    request: HttpRequest,
    project: str,
    thread: str,
    n: int,
    *,
    form: Context | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page of a turn, with the form of its mark as typed if refused."""
    visit, lines = _require_turn(request, project, thread, n)
    shown = turns.get_context(visit.row, n)
    line = next(each for each in lines if each.n == n)
    context = _build_surroundings(visit, lines, line) | {"n": n, "shown": shown}
    context |= form or {}
    if shown is not None:
        context |= _build_request(request, visit, shown, lines)
    elif not line.inherited:
        state = replay.load_state_at(visit.row, line.seq).state
        context |= _build_exchange(
            visit, exchanges.get_exchange(visit.row, state, n), line
        )
    context["answered_in"] = _find_answer_time(context)
    context["goes_on_to"] = _find_last_turn(context)
    answer = visits.render_page(
        request,
        "inspector/turns/show.html",
        visit,
        context,
        status=410 if shown and shown.missing else status,
    )
    # A page that waits for its turn's answer fetches this page as a panel.
    answer.headers["MH-Panel"] = "1"
    return answer


@require_safe
@require_signed_in_panel
def show_panel(
    request: HttpRequest, project: str, thread: str, n: int, panel: str
) -> HttpResponse:
    """Show a panel of the page of a turn: missing pages, or what ended the prefix."""
    if panel not in PANELS:
        raise Http404
    if panel == "missing":
        visit, context = _build_missing(request, project, thread, n)
    else:
        visit = visits.find(request, project, thread)
        if not 1 <= n <= visit.row.turn_count:
            raise NotFoundError
        at_seq = visit.moment.at_seq
        context = turn_changes.get_prefix(visit.row, n)
        context |= {"n": n, "then": "" if at_seq is None else f"?at_seq={at_seq}"}
    context |= {"visitor": visit.visitor}
    context = panels.build_shared_context(visit.scene) | context
    answer = render(request, f"inspector/turns/panels/_{panel}.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


@require_safe
@require_signed_in
def show_missing(
    request: HttpRequest, project: str, thread: str, n: int
) -> HttpResponse:
    """Show what the request of a turn lacks, on a page of its own."""
    visit, context = _build_missing(request, project, thread, n)
    shown = context["shown"]
    return visits.render_page(
        request,
        "inspector/turns/missing.html",
        visit,
        context | {"alone": True},
        live=False,
        status=410 if shown and shown.missing else 200,
    )


def _build_missing(
    request: HttpRequest, project: str, thread: str, n: int
) -> tuple[Visit, Context]:
    """Build the missing pages of a turn, if its request was recorded."""
    visit, lines = _require_turn(request, project, thread, n)
    shown = turns.get_context(visit.row, n)
    context: Context = {"n": n, "shown": shown, "alone": False}
    if shown is not None:
        context |= turn_missing.build_missing(visit.row, shown, lines[0])
    return visit, context


@require_safe
@require_signed_in
def show_request(
    request: HttpRequest, project: str, thread: str, n: int
) -> HttpResponse:
    """Show the request itself: readable, and byte for byte."""
    visit, _ = _require_turn(request, project, thread, n)
    shown = turns.get_context(visit.row, n, with_ranges=True)
    whole = request.GET.get("content") == "all"
    context: Context = {"n": n, "shown": shown, "readable": (), "raw": None}
    if shown is not None:
        context |= _list_places(visit, shown, asof.read_number(request, "from") or 1)
    if shown is not None and shown.request is not None:
        text = shown.request.decode()
        exact = text if whole else text[:EXACT_CHARS]
        cut = len(text) if len(exact) < len(text) else 0
        context |= {
            "readable": _list_readable(shown.request, whole=whole),
            "hidden": _count_hidden(shown.request, whole=whole),
            "first": FIRST,
            "all_open": request.GET.get("open") == "all",
            "whole": whole,
            "raw": ChatBlock(kind="json", text=exact, cut=cut),
        }
    return visits.render_page(
        request,
        "inspector/turns/request.html",
        visit,
        context,
        live=False,
        status=410 if shown and shown.missing else 200,
    )


def _list_places(visit: Visit, shown: ShownRequest, first: int) -> Context:
    """Build a window of the request's texts with their places."""
    end = first - 1 + PLACES
    own = shown.recorded.home.id == visit.row.id
    return {
        "window": shown.used[first - 1 : end],
        "more": end + 1 if end < len(shown.used) else 0,
        "then": f"?at_seq={shown.event.as_of_seq}" if own else "",
    }


def _require_turn(
    request: HttpRequest, project: str, thread: str, n: int
) -> tuple[Visit, list[TurnLine]]:
    """Return a turn with the turns around it, as of its end. Raises NotFoundError."""
    visit = visits.find(request, project, thread)
    lines = turns.list_around(visit.row, n, before=BEFORE, after=AFTER)
    line = next(each for each in lines if each.n == n)
    if not line.inherited:
        end, head = replay.get_turn_end(visit.row, n), visit.row.head_seq
        last = visit.row.turn_count
        moment = ShownMoment(seq=end, head=head, live=False, turn=n, turns=last)
        visit = Visit(visitor=visit.visitor, row=visit.row, moment=moment)
    return visit, lines


def _build_surroundings(visit: Visit, lines: list[TurnLine], line: TurnLine) -> Context:
    """Build the surroundings of the request: its time, the turns before and after."""
    began = turns.get_starts([line])[line.n]
    packed_at = turns.find_packed_at(line)
    before = next((each for each in lines if each.n == line.n - 1), None)
    # A mark is said of the answer later, and counts whatever the page shows as of.
    found = marks.list_current_marks(visit.row, [each.n for each in lines])
    by_turn = {mark.turn: mark for mark in found}
    mark = by_turn.get(line.n)
    rows = list_turn_rows(
        visit.row, lines, {n: each.mark for n, each in by_turn.items()}
    )
    return {
        "line": line,
        "before": before,
        "spent": next(each for each in rows if each.line.n == line.n),
        "packed_at": packed_at,
        "prepared_in": packed_at and packed_at - began.at,
        "began": began,
        "rows": rows,
        "mark": mark,
        "typed": {
            "mark": mark.mark if mark else "",
            "comment": mark.comment if mark else "",
        },
        "problem": "",
        "markable": visit.visitor.editor and visit.row.status in ("open", "closed"),
        "most": MAX_COMMENT_CHARS,
        "faults": None,
    }


def _build_exchange(visit: Visit, exchange: Exchange, line: TurnLine) -> Context:
    """Build the exchange of the turn, with its page faults, own calls and citations."""
    n = line.n
    faults = turn_faults.get_faults(visit.row, n, first=exchange.first)
    served = [each for each in _list_faults(faults) if not each.refused]
    calls = own_calls.list_calls(visit.row, n)
    return {
        "calls": calls,
        "call_lines": [
            (call, turn_words.describe_guard(call))
            for call in (calls.calls if calls else ())
        ],
        "exchange": exchange,
        "nth": turn_words.render_ordinal(n - exchange.first + 1),
        "question": exchange.question and _build_speech(exchange.question),
        "answers": [_build_speech(slot) for slot in exchange.answers[-2:]],
        "citations": citations.get_citations(visit.row, line.seq, exchange.answers),
        "faults": faults,
        "served": served,
        "served_pages": list(dict.fromkeys(each.body["page_id"] for each in served)),
        "refused": [each for each in _list_faults(faults) if each.refused],
        "fault_lines": [
            (f, turn_words.describe_fault(f)) for f in _list_faults(faults)
        ],
    }


def _find_answer_time(context: Context) -> timedelta | None:
    """Find the time from the packed request to the model's first message."""
    exchange, packed_at = context.get("exchange"), context["packed_at"]
    if not exchange or not exchange.answers or packed_at is None:
        return None
    time: timedelta = exchange.answers[0].at - packed_at
    return time


def _find_last_turn(context: Context) -> int | None:
    """Find the last listed turn of an exchange that goes on after a call; else None."""
    answers, last = context.get("answers"), None
    if not answers or not (answers[-1].excerpt and answers[-1].excerpt.title):
        return None
    for row in context["rows"]:
        if row.line.n > context["n"]:
            if row.begins:
                break
            last = row.line.n
    return last


def _list_faults(found: turn_faults.TurnFaults | None) -> tuple[TurnFault, ...]:
    return found.faults if found else ()


def _build_speech(slot: SlotLine) -> ExchangeMessage:
    excerpt = None
    if not slot.erased:
        excerpt = first_words.build_message_words(
            slot.content, slot.role, chars=SPEECH_CHARS
        )
    return ExchangeMessage(slot=slot, excerpt=excerpt)


def _build_request(
    request: HttpRequest, visit: Visit, shown: ShownRequest, lines: list[TurnLine]
) -> Context:
    """Build the request's contents, and the exchange of the turn."""
    row, n, own = visit.row, shown.event.turn, shown.recorded.home.id == visit.row.id
    exchange = exchanges.get_exchange(row, shown.state, n)
    line = next(each for each in lines if each.n == n)
    chosen = asof.read_number(request, "from")
    return {
        **_build_exchange(visit, exchange, line),
        "own": own,
        "then": f"?at_seq={shown.event.as_of_seq}" if own else "",
        **_build_contents(row, shown, chosen, began=line.seq, own=own),
        "whole_pages": len(missing.list_whole(shown)),
        "free": missing.count_free(shown),
        "fetches": selection.build_policies(shown.state.paging),
        "weak": [each for each in lines if each.n < n and _is_weak(each)][-WEAK:],
    }


def _build_contents(
    row: Thread, shown: ShownRequest, chosen: int | None, *, began: int, own: bool
) -> Context:
    """Build the request's contents: its bar, its sections, a window of its texts."""
    first, window = request_rows.choose_window(shown, chosen)
    seqs = request_rows.iter_cause_seqs(window)
    causes = inclusions.get_causes(shown.recorded.home.id, seqs)
    rows = request_rows.list_rows(
        shown, window, causes, began=began, own=own, turns=row.turn_count
    )
    end, brought = first + len(window), [used for used in shown.used if used.source]
    return {
        "brought": brought,
        "brought_used": sum(used.used for used in brought),
        "groups": request_rows.list_groups(shown),
        "in_groups": sum(part.tokens for part in shown.parts),
        "cells": request_rows.draw_bar(shown, rows),
        "rows_by_section": request_rows.group_by_section(rows),
        "first_place": first + 1,
        "earlier": max(1, first + 1 - request_rows.ROWS) if first else None,
        "later": end + 1 if end < len(shown.used) else 0,
    }


def _is_weak(line: TurnLine) -> bool:
    """Tell whether less than half of a request repeats the beginning of the last."""
    packed = line.packed
    kept = None if packed is None or line.n == 1 else packed.prefix_tokens
    return packed is not None and kept is not None and 2 * kept < packed.tokens


def _list_readable(request: bytes, *, whole: bool) -> list[RequestMessage]:
    """List the first and the last messages, within the characters of a page."""
    room, found = READABLE_CHARS, list[RequestMessage]()
    messages = _parse_messages(request)
    if not whole and len(messages) > FIRST + LAST:
        messages = [*messages[:FIRST], *messages[-LAST:]]
    for message in messages:
        content = message.get("content")
        if isinstance(content, str) and "tool_calls" not in message:
            text = media.remove_base64(content)
        else:
            text = chat.render_readable_json(message)
        shown = text if whole else text[: max(0, min(MESSAGE_CHARS, room))]
        room -= len(shown)
        role = message.get("role") or message.get("type", "")
        words = first_words.cut_to_line(render_content_words(message) or text)
        found.append(
            RequestMessage(
                role=str(role), first_words=words, text=shown, size=len(text)
            )
        )
    return found


def _count_hidden(request: bytes, *, whole: bool) -> int:
    """Count the hidden messages between the first and the last."""
    return 0 if whole else max(0, len(_parse_messages(request)) - FIRST - LAST)


def _parse_messages(request: bytes) -> list[dict[str, Any]]:
    whole = strict_json.parse_stored(request)
    head = whole.get("system")
    system = [{"role": "system", "content": head}] if head else []
    messages: list[dict[str, Any]] = whole.get("input") or whole["messages"]
    return system + messages
