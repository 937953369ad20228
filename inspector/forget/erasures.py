"""Screens of erasures: plans, and the progress of each."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in, require_signed_in_panel
from inspector.forget import erasing, privacy_pages
from inspector.lists import screens
from inspector.lists.screens import Context, ListRequest, Screen, ScreenExport
from inspector.web import forgetting
from inspector.web.records import Record
from inspector.web.visitors import Visitor
from memoryhub.models.erasures import Erasure
from memoryhub.queries.forget import erasures
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.lists.cursors import ListBatch

STATES = tuple(Erasure.State.values)


def _build_list(ask: ListRequest[Visitor]) -> Context:
    found = _list_batch(ask, ask.after, ask.limit)
    return screens.build_list_context(ask, found) | {
        "listed": [(line, forgetting.build_progress(line)) for line in found.items]
    }


def _list_batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> ListBatch[ErasureLine]:
    return erasures.list_erasures(
        ask.where.project.id,
        state=ask.parsed.options["state"] or None,
        after=after,
        limit=limit,
    )


def _build_record(_: str, line: ErasureLine) -> Record:
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
        "clock": line.clock,
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
    read=partial(screens.read_choice, "state", STATES),
    around=lambda _: {"states": STATES},
    lines=_build_list,
    export=ScreenExport(
        fields=(
            "erasure", "subject", "state", "waiting_on", "defect", "scope", "thread",
            "seq", "before", "clock", "reason", "ticket", "actor", "count",
            "created_at", "confirmed_at", "times",
        ),
        record=_build_record,
        batch=_list_batch,
        size=None,
    ),
)  # fmt: skip


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, erasure: UUID) -> HttpResponse:
    """Show a plan with its confirmation form, or the progress of its erasure."""
    visitor = privacy_pages.require_officer(request, project)
    row = erasures.get_row(visitor.project.id, erasure)
    return erasing.render_page(request, visitor, row)


@require_safe
@require_signed_in_panel
def show_panel(
    request: HttpRequest, project: str, erasure: UUID, panel: str
) -> HttpResponse:
    """Show the progress of an erasure, for the page to replace each second.

    See decision 27.
    """
    visitor = privacy_pages.require_officer(request, project)
    if panel != "erasure":
        raise Http404
    line = erasures.get_erasure(visitor.project.id, erasure)
    context: dict[str, Any] = {"visitor": visitor, **erasing.build_progress(line)}
    answer = render(request, "inspector/forget/erasures/_pushed.html", context)
    answer.headers["MH-Panel"] = "1"
    return answer
