from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.overview import charts
from inspector.overview.screen import read_range
from inspector.web import shell
from memoryhub.kernel.text import names
from memoryhub.models.server.clock import clock
from memoryhub.queries.overview import refusals, series

_WORD = re.compile(r"[a-z_]{1,40}")


@require_safe
@signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show what was refused in a range of time, by code, thread and hour."""
    visitor = access.find_visitor(request, project)
    now, chosen = clock.now(), read_range(request)
    code, name = request.GET.get("code", ""), request.GET.get("thread", "")
    if (code and not _WORD.fullmatch(code)) or (name and not names.valid(name)):
        raise Http404
    # Nothing of its content is shown, so nobody reads it.
    unread = replace(visitor, reading=None)
    row = access.find_thread(unread, name) if name else None
    counted = series.get_series(visitor.project.id, series.RANGES[chosen], now=now)
    context: dict[str, Any] = {
        "ranges": {word: each.word for word, each in series.RANGES.items()},
        "range": chosen,
        "code": code,
        "of_thread": row,
        "keys": charts.code_keys(counted.whole.refusals),
        "plot": charts.small(counted, (), spent="tokens")["refusals"],
        "found": refusals.get_refusals(
            visitor.project, counted, code=code, thread=row.id if row else None
        ),
    }
    return shell.page(
        request,
        "inspector/overview/refusals.html",
        context,
        visitor=visitor,
        section="overview",
    )
