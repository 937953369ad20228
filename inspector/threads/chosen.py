"""Chosen threads: what is done with several at once, each for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import policy
from inspector.threads.threads import REASONS
from inspector.web import exports, records, refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.models.projects import MOST_IDLE_DAYS
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.threads import catalogue
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.services.threads import operator_threads

#: Threads of one order: a form may have little more fields.
MOST = 150
#: Does it to one thread. Raises what refuses it.
Deed = Callable[[Thread], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Hold a thread that it was not done to, and why."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Hold to how many threads it was done, and to which not."""

    done: int
    refused: tuple[Refused, ...]


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def act(request: HttpRequest, project: str) -> HttpResponse:
    """Show what is about to be done to the chosen threads; done, show to which not."""
    visitor = access.find_visitor(request, project)
    visitor.require(Membership.Role.EDITOR)
    form = request.POST if request.method == "POST" else request.GET
    verb = form.get("act", "")
    if verb and verb not in _DEEDS:
        raise InvalidError(loc="act")
    names = _names(form)
    rows = catalogue.list_named(visitor.project, names, restricted=visitor.officer)
    context = {
        "verb": verb if rows else "",
        "rows": rows,
        "absent": sorted({*names} - {row.name for row in rows}),
        "reasons": REASONS,
        "most": MOST_IDLE_DAYS,
        "text": form.get(policy.FIELD, ""),
    }
    if request.method != "POST" or not verb:
        return _page(request, visitor, context)
    try:
        deed = _DEEDS[verb](visitor, form)
    except Refusal as refusal:
        return _page(request, visitor, context, refusal=refusal)
    outcome = _do(rows, deed, _texts(visitor))
    return _page(request, visitor, context | {"outcome": outcome})


@require_safe
@signed_in
def export(
    request: HttpRequest,
    project: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """Send the chosen threads as data."""
    visitor = access.find_visitor(request, project)
    names = _names(request.GET)
    rows = catalogue.list_named(visitor.project, names, restricted=visitor.officer)
    lines = tuple(ThreadLine.of(row) for row in rows)
    return exports.answer(
        request,
        kind,
        f"{project}-chosen-threads",
        heading=records.THREAD,
        record=records.thread,
        part=lambda: Batch(items=lines, next=None),
        parts=lambda: [lines],
    )


def _names(form: QueryDict) -> list[str]:
    """Read which are chosen. Raises InvalidError for too many."""
    names = form.getlist("thread")
    if len(names) > MOST:
        raise InvalidError(code="limit", loc="thread")
    return names


def _texts(visitor: Visitor) -> refusals.Texts:
    return {
        "reason": "Say why they are closed.",
        InvalidError: policy.days_text(owner=visitor.owner),
    }


def _do(rows: Sequence[Thread], deed: Deed, texts: refusals.Texts) -> Outcome:
    """Do it to one after the other; what refuses one leaves the others be."""
    refused = []
    for row in rows:
        try:
            deed(row)
        except Refusal as refusal:
            text = refusals.error_text(refusal, texts) or refusal.message
            refused.append(Refused(name=row.name, text=text))
    return Outcome(done=len(rows) - len(refused), refused=tuple(refused))


def _closing(visitor: Visitor, form: QueryDict) -> Deed:
    reason = next((each for each in REASONS if each == form.get("reason")), None)
    if reason is None:
        raise InvalidError(loc="reason")
    return lambda row: operator_threads.close(row, actor=visitor.actor, reason=reason)


def _keeping(visitor: Visitor, form: QueryDict) -> Deed:
    days = policy.read(form.get(policy.FIELD, ""))
    return lambda row: operator_threads.keep(
        row, actor=visitor.actor, idle_days=days, owner=visitor.owner
    )


_DEEDS: dict[str, Callable[[Visitor, QueryDict], Deed]] = {
    "close": _closing,
    "keep": _keeping,
}


def _page(
    request: HttpRequest,
    visitor: Visitor,
    context: shell.Context,
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    problem = refusals.error_text(refusal, _texts(visitor))
    return shell.page(
        request,
        "inspector/threads/chosen/show.html",
        {"problem": problem, "outcome": None, **context},
        visitor=visitor,
        section="threads",
        status=refusals.status_of(refusal),
    )
