"""Acts on several chosen threads at once, each thread independently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_http_methods, require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import policy
from inspector.threads.threads import REASONS
from inspector.web import exports, records, refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.access.operators import Membership
from memoryhub.models.projects import MOST_IDLE_DAYS
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.threads import catalogue
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.services.threads import operator_threads

#: Threads of one form, a little below the limit of a form's fields.
MOST = 150
#: Function that performs the act on one thread. Raises Refusal.
Deed = Callable[[Thread], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRefusal:
    """Chosen thread whose act was refused, and why."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenOutcome:
    """Outcome of an act on chosen threads: the number done, and the refusals."""

    done: int
    refused: tuple[ChosenRefusal, ...]


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def act(request: HttpRequest, project: str) -> HttpResponse:
    """Show a preview of an act on the chosen threads; a POST performs the act."""
    visitor = access.require_visitor(request, project)
    visitor.require_role(Membership.Role.EDITOR)
    form = request.POST if request.method == "POST" else request.GET
    verb = form.get("act", "")
    if verb and verb not in _DEEDS:
        raise InvalidError(loc="act")
    names = _parse_names(form)
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
        return _render_page(request, visitor, context)
    try:
        deed = _DEEDS[verb](visitor, form)
    except Refusal as refusal:
        return _render_page(request, visitor, context, refusal=refusal)
    outcome = _perform_deed(rows, deed, _build_texts(visitor))
    return _render_page(request, visitor, context | {"outcome": outcome})


@require_safe
@require_signed_in
def export(
    request: HttpRequest,
    project: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """Send the chosen threads as data."""
    visitor = access.require_visitor(request, project)
    names = _parse_names(request.GET)
    rows = catalogue.list_named(visitor.project, names, restricted=visitor.officer)
    lines = tuple(ThreadLine.from_row(row) for row in rows)
    return exports.answer(
        request,
        kind,
        f"{project}-chosen-threads",
        heading=records.THREAD,
        record=records.build_thread_record,
        part=lambda: ListBatch(items=lines, next=None),
        parts=lambda: [lines],
    )


def _parse_names(form: QueryDict) -> list[str]:
    """Parse the names of the chosen threads. Raises InvalidError for too many."""
    names = form.getlist("thread")
    if len(names) > MOST:
        raise InvalidError(code="limit", loc="thread")
    return names


def _build_texts(visitor: Visitor) -> refusals.Texts:
    return {
        "reason": "Choose why they are closed.",
        InvalidError: policy.render_days_help(owner=visitor.owner),
    }


def _perform_deed(
    rows: Sequence[Thread], deed: Deed, texts: refusals.Texts
) -> ChosenOutcome:
    """Perform the act on one thread after the other; one refusal stops no other."""
    refused = []
    for row in rows:
        try:
            deed(row)
        except Refusal as refusal:
            text = refusals.get_error_text(refusal, texts) or refusal.message
            refused.append(ChosenRefusal(name=row.name, text=text))
    return ChosenOutcome(done=len(rows) - len(refused), refused=tuple(refused))


def _prepare_close(visitor: Visitor, form: QueryDict) -> Deed:
    reason = next((each for each in REASONS if each == form.get("reason")), None)
    if reason is None:
        raise InvalidError(loc="reason")
    return lambda row: operator_threads.close(row, actor=visitor.actor, reason=reason)


def _prepare_keep(visitor: Visitor, form: QueryDict) -> Deed:
    days = policy.read(form.get(policy.FIELD, ""))
    return lambda row: operator_threads.set_retention(
        row, actor=visitor.actor, idle_days=days, owner=visitor.owner
    )


_DEEDS: dict[str, Callable[[Visitor, QueryDict], Deed]] = {
    "close": _prepare_close,
    "keep": _prepare_keep,
}


def _render_page(
    request: HttpRequest,
    visitor: Visitor,
    context: shell.Context,
    *,
    refusal: Refusal | None = None,
) -> HttpResponse:
    problem = refusals.get_error_text(refusal, _build_texts(visitor))
    return shell.render_page(
        request,
        "inspector/threads/chosen/show.html",
        {"problem": problem, "outcome": None, **context},
        visitor=visitor,
        section="threads",
        status=refusals.get_status(refusal),
    )
