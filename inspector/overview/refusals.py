from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.overview import charts
from inspector.overview.screen import read_range
from inspector.web import shell
from memoryhub.kernel.text import names
from memoryhub.models.server.clock import clock
from memoryhub.queries.overview import refusals, series

_WORD = re.compile(r"[a-z_]{1,40}")


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show the refusals of a range of time, by code, thread and hour."""
    visitor = access.require_visitor(request, project)
    now, chosen = clock.now(), read_range(request)
    code, name = request.GET.get("code", ""), request.GET.get("thread", "")
    if (code and not _WORD.fullmatch(code)) or (name and not names.is_valid(name)):
        raise Http404
    # The page shows no content, so the look is not recorded as a read.
    unread = replace(visitor, reading=None)
    row = access.require_thread(unread, name) if name else None
    counted = series.get_series(visitor.project.id, series.RANGES[chosen], now=now)
    context: dict[str, Any] = {
        "ranges": {word: each.word for word, each in series.RANGES.items()},
        "range": chosen,
        "code": code,
        "of_thread": row,
        "keys": charts.list_code_keys(counted.whole.refusals),
        "plot": charts.draw_refusals(counted, ()),
        "found": refusals.get_refusals(
            visitor.project, counted, code=code, thread=row.id if row else None
        ),
    }
    return shell.render_page(
        request,
        "inspector/overview/refusals.html",
        context,
        visitor=visitor,
        section="overview",
    )
