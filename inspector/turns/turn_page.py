"""The page of a turn: what it was asked, what it saw, what was missing, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in, signed_in_panel
from inspector.drawing import chat, first_words, lifelines
from inspector.drawing.chat import Block
from inspector.drawing.first_words import FirstWords, Pieces
from inspector.drawing.lifelines import LifeLine
from inspector.lists import panels, visits
from inspector.lists.screens import Context
from inspector.lists.visits import Visit
from inspector.turns import request_rows, turn_changes, turn_words
from inspector.turns.turns import ROW_CHARS, turn_rows
from inspector.web import asof
from inspector.web.asof import AsOf
from memoryhub.errors import NotFoundError
from memoryhub.kernel.messages import media
from memoryhub.kernel.packing import selection
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text import strict_json
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.threads.slots import SlotLine
from memoryhub.queries.turns import (
    exchanges,
    inclusions,
    matches,
    missing,
    turn_faults,
    turns,
    verdicts,
)
from memoryhub.queries.turns.exchanges import Exchange
from memoryhub.queries.turns.matches import Matches
from memoryhub.queries.turns.missing import OFFERED, Missing, MissingPage
from memoryhub.queries.turns.turn_faults import Fault
from memoryhub.queries.turns.turns import Shown, TurnLine

#: What the page of a turn fetches once it stands.
PANELS = ("prefix",)
#: Turns that are listed before the one at hand, and after it.
BEFORE, AFTER = missing.TURNS, 4
#: Of the best matches that were not in, so many are told at length.
LONG = 3
#: Turns before the one at hand that are named for how little of theirs was as before.
WEAK = 2
#: Characters of a question or an answer that stand on top, and of a question that is
#: looked for elsewhere.
SPEECH_CHARS, LOOKED_FOR = 1_200, 500
#: Texts whose places are listed at once.
PLACES = 100
#: Messages of a request that a page shows unasked, of its beginning and its end.
FIRST, LAST = 20, 80
#: Characters of one message of a request, of all of them, and of its exact bytes, that
#: a page shows unasked.
MESSAGE_CHARS, READABLE_CHARS, EXACT_CHARS = 12_000, 40_000, 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """Hold a message of the exchange, as it stands on top."""

    slot: SlotLine
    excerpt: FirstWords | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Hold a page that was not in, with how that is shown."""

    page: MissingPage
    #: Its role, or its type; and the role that colours it.
    who: str
    hue: str
    excerpt: FirstWords | None
    #: Of what fits the question: the part of it that does.
    marked: Pieces | None
    line: LifeLine
    why: str
    #: Why it was refused lately; empty if it was not.
    refusal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMessage:
    """Hold a message of a request, as the model reads it."""

    role: str
    text: str
    size: int

    @property
    def cut(self) -> bool:
        return self.size > len(self.text)


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """Show a turn: its question, its answer, what was in its request and what not."""
    visit, lines = _find(request, project, thread, n)
    shown = turns.get_context(visit.row, n)
    line = next(each for each in lines if each.n == n)
    context = _around(visit, lines, line) | {"n": n, "shown": shown}
    if shown is not None:
        context |= _request(request, visit, shown, lines)
    elif not line.inherited:
        state = replay.state_at(visit.row, line.seq).state
        context |= _spoken(visit, exchanges.get_exchange(visit.row, state, n), n)
    answer = visits.page(
        request,
        "inspector/turns/show.html",
        visit,
        context,
        status=410 if shown and shown.missing else 200,
    )
    # A page that waits for the answer of its turn takes it from here.
    answer.headers["MH-Panel"] = "1"
    return answer


@require_safe
@signed_in_panel
def panel(
    request: HttpRequest, project: str, thread: str, n: int, panel: str
) -> HttpResponse:
    """Show what the page of a turn fetches once it stands: what ended the prefix."""
    if panel not in PANELS:
        raise Http404
    visit = visits.find(request, project, thread)
    if not 1 <= n <= visit.row.turn_count:
        raise NotFoundError
    at_seq = visit.moment.at_seq
    context = panels.shared(visit.scene) | turn_changes.get_prefix(visit.row, n)
    context |= {"n": n, "then": "" if at_seq is None else f"?at_seq={at_seq}"}
    answer = render(request, f"inspector/turns/panels/_{panel}.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer


@require_safe
@signed_in
def read(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """Show the request itself: as the model read it, and byte for byte."""
    visit, _ = _find(request, project, thread, n)
    shown = turns.get_context(visit.row, n, with_ranges=True)
    whole = request.GET.get("content") == "all"
    context: Context = {"n": n, "shown": shown, "readable": (), "raw": None}
    if shown is not None:
        context |= _places(visit, shown, asof.number(request, "from") or 1)
    if shown is not None and shown.request is not None:
        text = shown.request.decode()
        exact = text if whole else text[:EXACT_CHARS]
        cut = len(text) if len(exact) < len(text) else 0
        context |= {
            "readable": _readable(shown.request, whole=whole),
            "hidden": _hidden(shown.request, whole=whole),
            "first": FIRST,
            "raw": Block(kind="json", text=exact, cut=cut),
        }
    return visits.page(
        request,
        "inspector/turns/request.html",
        visit,
        context,
        live=False,
        status=410 if shown and shown.missing else 200,
    )


def _places(visit: Visit, shown: Shown, first: int) -> Context:
    """Gather a stretch of the texts with where they stand."""
    end = first - 1 + PLACES
    own = shown.recorded.home.id == visit.row.id
    return {
        "window": shown.used[first - 1 : end],
        "more": end + 1 if end < len(shown.used) else 0,
        "then": f"?at_seq={shown.event.as_of_seq}" if own else "",
    }


def _find(
    request: HttpRequest, project: str, thread: str, n: int
) -> tuple[Visit, list[TurnLine]]:
    """Find a turn with those around it, as of its end. Raises NotFoundError."""
    visit = visits.find(request, project, thread)
    lines = turns.list_around(visit.row, n, before=BEFORE, after=AFTER)
    line = next(each for each in lines if each.n == n)
    if not line.inherited:
        end, head = replay.seq_at_turn(visit.row, n), visit.row.head_seq
        last = visit.row.turn_count
        moment = AsOf(seq=end, head=head, live=False, turn=n, turns=last)
        visit = Visit(visitor=visit.visitor, row=visit.row, moment=moment)
    return visit, lines


def _around(visit: Visit, lines: list[TurnLine], line: TurnLine) -> Context:
    """Gather what stands around the request: its time, the turns before and after."""
    began = turns.how_began([line])[line.n]
    before = next((each for each in lines if each.n == line.n - 1), None)
    return {
        "line": line,
        "before": before,
        "began": began,
        "rows": turn_rows(visit.row, lines),
        "faults": None,
    }


def _spoken(visit: Visit, exchange: Exchange, n: int) -> Context:
    """Gather the exchange of the turn, and what was fetched in it."""
    faults = turn_faults.get_faults(visit.row, n, first=exchange.first)
    return {
        "exchange": exchange,
        "nth": turn_words.ordinal(n - exchange.first + 1),
        "question": exchange.question and _speech(exchange.question),
        "answers": [_speech(slot) for slot in exchange.answers[-2:]],
        "faults": faults,
        "served": [each for each in _faults(faults) if not each.refused],
        "refused": [each for each in _faults(faults) if each.refused],
        "fault_lines": [(f, turn_words.of_fault(f)) for f in _faults(faults)],
    }


def _faults(found: turn_faults.TurnFaults | None) -> tuple[Fault, ...]:
    return found.faults if found else ()


def _speech(slot: SlotLine) -> Speech:
    excerpt = None
    if not slot.erased:
        excerpt = first_words.message_words(slot.content, slot.role, chars=SPEECH_CHARS)
    return Speech(slot=slot, excerpt=excerpt)


def _request(
    request: HttpRequest, visit: Visit, shown: Shown, lines: list[TurnLine]
) -> Context:
    """Gather what the request held, what it did not, and the verdict."""
    row, n, own = visit.row, shown.event.turn, shown.recorded.home.id == visit.row.id
    exchange = exchanges.get_exchange(row, shown.state, n)
    spoken = _spoken(visit, exchange, n)
    best = matches.get_matches(row, shown, exchange)
    lacking = missing.get_missing(row, shown, since=lines[0], matches=best)
    began = next(each.seq for each in lines if each.n == n)
    chosen = asof.number(request, "from")
    return {
        **spoken,
        "own": own,
        "then": f"?at_seq={shown.event.as_of_seq}" if own else "",
        **_inside(row, shown, chosen, began=began, own=own),
        "whole_pages": len(lacking.whole),
        "fetches": selection.policies_of(shown.state.paging),
        "missing": lacking,
        "absences": group_absences(lacking),
        "matches": best,
        "match_words": turn_words.standing(best),
        "looked_for": exchange.question_text[:LOOKED_FOR],
        **_verdict(row, lacking, best, _faults(spoken["faults"])),
        "weak": [each for each in lines if each.n < n and _is_weak(each)][-WEAK:],
    }


def _inside(
    row: Thread, shown: Shown, chosen: int | None, *, began: int, own: bool
) -> Context:
    """Gather what the request held: its bar, its sections, a stretch of its texts."""
    first, window = request_rows.window_of(shown, chosen)
    seqs = request_rows.cause_seqs(window)
    causes = inclusions.get_causes(shown.recorded.home.id, seqs)
    rows = request_rows.list_rows(
        shown, window, causes, began=began, own=own, turns=row.turn_count
    )
    end, brought = first + len(window), [used for used in shown.used if used.source]
    return {
        "brought": brought,
        "brought_used": sum(used.used for used in brought),
        "groups": request_rows.list_groups(shown),
        "cells": request_rows.draw_bar(shown, rows),
        "rows_by_section": request_rows.group_by_section(rows),
        "first_place": first + 1,
        "earlier": max(1, first + 1 - request_rows.ROWS) if first else None,
        "later": end + 1 if end < len(shown.used) else 0,
    }


def _verdict(
    row: Thread, lacking: Missing, best: Matches, faults: Sequence[Fault]
) -> Context:
    verdict = verdicts.judge(lacking, best, faults)
    fault, first = verdict.fault, verdict.first
    return {
        "verdict": verdict,
        "verdict_words": turn_words.headline(verdict, best),
        "verdict_text": first and _absence(lacking, first),
        "refusal": turn_words.refusal(fault),
        "fitting": fault and turn_faults.get_fitting(row, fault),
    }


def group_absences(lacking: Missing) -> Context:
    """Divide what was not in: what fits the question, what left lately, the rest."""
    drawn = [_absence(lacking, page) for page in lacking.pages]
    away = [each for each in drawn if each.page.used is None]
    ranked = [each for each in away if each.page.match is not None]
    others = [each for each in away if each.page.match is None]
    short = [each for each in drawn if each.page.used is not None]
    lately = [each for each in others if each.page.urgency < OFFERED]
    # Of one that is in, but not as the model wanted it, both are told.
    lately += [each for each in short if each.page.refused is not None]
    fresh = [each for each in short if not _long_shortened(lacking, each.page)]
    return {
        "long": ranked[:LONG],
        "brief": ranked[LONG:],
        "lately": lately,
        "folded": [each for each in others if each.page.urgency == OFFERED],
        "short": fresh,
        "standing": len(short) - len(fresh),
    }


def _long_shortened(lacking: Missing, page: MissingPage) -> bool:
    """Tell whether it has been so since before what is looked back to."""
    step = page.shortened
    return page.match is None and step is not None and step.turn < lacking.since


def _absence(lacking: Missing, page: MissingPage) -> Absence:
    entry, excerpt = page.entry, None
    if page.text is not None:
        excerpt = first_words.page_words(page.text, FULL, chars=ROW_CHARS)
    role = entry.role if entry else None
    return Absence(
        page=page,
        who=role or (entry.type if entry else "page"),
        hue=role if role in request_rows.ROLES else "system",
        excerpt=excerpt,
        marked=first_words.excerpt_pieces(page.match.excerpt) if page.match else None,
        line=lifelines.draw(page.life, head=lacking.head, here=lacking.clock),
        why=turn_words.leaving(page.left or page.shortened, page.newcomer),
        refusal=turn_words.refusal(page.refused),
    )


def _is_weak(line: TurnLine) -> bool:
    """Tell whether less than half of a request began as the one before it."""
    packed = line.packed
    kept = None if packed is None or line.n == 1 else packed.prefix_tokens
    return packed is not None and kept is not None and 2 * kept < packed.tokens


def _readable(request: bytes, *, whole: bool) -> list[RequestMessage]:
    """Give the messages: the first and the last, as much as a page has room for."""
    room, found = READABLE_CHARS, list[RequestMessage]()
    messages = _messages(request)
    if not whole and len(messages) > FIRST + LAST:
        messages = [*messages[:FIRST], *messages[-LAST:]]
    for message in messages:
        content = message.get("content")
        if isinstance(content, str) and "tool_calls" not in message:
            text = media.without_base64(content)
        else:
            text = chat.readable(message)
        shown = text if whole else text[: max(0, min(MESSAGE_CHARS, room))]
        room -= len(shown)
        role = message.get("role") or message.get("type", "")
        found.append(RequestMessage(role=str(role), text=shown, size=len(text)))
    return found


def _hidden(request: bytes, *, whole: bool) -> int:
    """Count the messages between the first and the last that are not shown."""
    return 0 if whole else max(0, len(_messages(request)) - FIRST - LAST)


def _messages(request: bytes) -> list[dict[str, Any]]:
    whole = strict_json.kept(request)
    head = whole.get("system")
    system = [{"role": "system", "content": head}] if head else []
    messages: list[dict[str, Any]] = whole.get("input") or whole["messages"]
    return system + messages
