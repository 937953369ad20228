"""Erasures: plans and what became of them."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in, signed_in_panel
from inspector.forget import erasing, privacy_pages
from inspector.lists import screens
from inspector.lists.screens import Context, Export, ListRequest, Screen
from inspector.web import forgetting
from inspector.web.records import Record
from inspector.web.visitors import Visitor
from memoryhub.models.erasures import Erasure
from memoryhub.queries.forget import erasures
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.lists.cursors import Batch

STATES = tuple(Erasure.State.values)


def _lines(ask: ListRequest[Visitor]) -> Context:
    found = _batch(ask, ask.after, ask.limit)
    return screens.list_context(ask, found) | {
        "listed": [(line, forgetting.progress(line)) for line in found.items]
    }


def _batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> Batch[ErasureLine]:
    return erasures.list_erasures(
        ask.where.project.id,
        state=ask.parsed.options["state"] or None,
        after=after,
        limit=limit,
    )


def _record(_: str, line: ErasureLine) -> Record:
    return {
        "erasure": str(line.id),
        "subject": str(line.subject),
        "state": line.state,
        "waiting_on": line.waiting_on,
        "defect": line.defect,
        "scope": line.scope,
        "thread": str(line.thread) if line.thread else None,
        "seq": line.seq,
        "before": line.before.isoformat() if line.before else None,
        "reason": line.reason,
        "ticket": line.ticket,
        "actor": line.actor,
        "count": line.count,
        "created_at": line.created_at.isoformat(),
        "confirmed_at": line.confirmed_at.isoformat() if line.confirmed_at else None,
        "times": dict(line.times),
    }


SCREEN = Screen(
    folder="forget/erasures",
    scope=privacy_pages.CONSOLE,
    read=partial(screens.chosen, "state", STATES),
    around=lambda _: {"states": STATES},
    lines=_lines,
    export=Export(
        fields=(
            "erasure", "subject", "state", "waiting_on", "defect", "scope", "thread",
            "seq", "before", "reason", "ticket", "actor", "count", "created_at",
            "confirmed_at", "times",
        ),
        record=_record,
        batch=_batch,
        size=None,
    ),
)  # fmt: skip


@require_safe
@signed_in
def show(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Show a plan with what confirms it, or how far the erasing is."""
    visitor = privacy_pages.enter(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    return erasing.page(request, visitor, row)


@require_safe
@signed_in_panel
def panel(
    request: HttpRequest, project: str, erasure: UUID, panel: str
) -> HttpResponse:
    """Show how far it is, in the place of what was shown a second ago."""
    visitor = privacy_pages.enter(request, project)
    if panel != "erasure":
        raise Http404
    line = erasures.get_erasure(visitor.project.id, erasure)
    context: dict[str, Any] = {"visitor": visitor, **erasing.standing(line)}
    answer = render(request, "inspector/forget/erasures/_panel.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer
