from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import structlog
from django.contrib.auth.models import AnonymousUser
from django.db import (
    DatabaseError,
    Error,
    InterfaceError,
    OperationalError,
    connections,
)
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from inspector.web import shell
from inspector.web.visitors import Visitor
from memoryhub import errors
from memoryhub.kernel.text.names import remove_subject
from memoryhub.kernel.text.strict_json import JsonRefusedError

log = structlog.get_logger()

STATUS: dict[type[errors.Refusal], int] = {
    errors.NotFoundError: 404,
    errors.InvalidError: 422,
    errors.BeyondHeadError: 422,
    errors.BadCursorError: 400,
    errors.SubjectErasedError: 410,
    errors.ThreadErasedError: 410,
    errors.ContentErasedError: 410,
    errors.PageUnknownError: 404,
    errors.KeyNotFoundError: 404,
    errors.TaskNotFoundError: 404,
    errors.CheckpointUnknownError: 404,
    errors.FactUnknownError: 404,
    errors.NoModelError: 409,
    errors.SubjectFullError: 409,
    errors.TimelineFullError: 409,
    errors.ValueErasedError: 409,
    errors.NotRecordedError: 404,
    errors.PageErasedError: 410,
    errors.ProjectDeletedError: 410,
    errors.DerivedPageError: 409,
    errors.NoRoomError: 409,
    errors.PinnedError: 409,
    errors.PinBudgetError: 409,
    errors.NameTakenError: 409,
    errors.KeyExistsError: 409,
    errors.KeysFullError: 409,
    errors.CheckpointsFullError: 409,
    errors.StaleError: 409,
    errors.ThreadClosedError: 409,
    errors.ForkTooDeepError: 409,
    errors.ProjectFullError: 409,
    errors.SubjectRestrictedError: 409,
    errors.SubjectHeldError: 409,
    errors.CorruptError: 409,
    errors.NewerFormatError: 409,
    errors.ErasureInProgressError: 409,
    errors.NothingToEraseError: 409,
    errors.PlanExpiredError: 409,
    errors.PlanStaleError: 409,
    errors.CountMismatchError: 409,
    errors.AlreadyFencedError: 409,
    errors.NotCompleteError: 409,
    errors.NotErasedError: 409,
    errors.RangeTakenError: 409,
    errors.RangeOpenError: 409,
    errors.StaleEpochError: 409,
    errors.LogChangedError: 409,
    errors.ObserverOffError: 409,
    errors.ExportBusyError: 409,
    errors.ValueTooLargeError: 413,
    JsonRefusedError: 422,
    errors.RateError: 429,
    errors.UnavailableError: 503,
}
#: A form's own texts, by an InvalidError's code or field, or by a refusal's class.
Texts = Mapping[str | type[errors.Refusal], str]
_NO_TEXTS: Texts = MappingProxyType({})
TITLES = {
    400: "This link is not valid",
    403: "Not for your role",
    404: "Not found",
    405: "Only for forms",
    409: "That is not possible now",
    410: "Erased",
    413: "That is too large",
    422: "That value is not valid",
    429: "Too many tries",
    503: "Unavailable for a moment",
}
#: Routes of the pages with the form that reopens a thread, by the first word of the
#: routes of their forms.
_REOPENING = {
    "checkpoint": "checkpoints",
    "key": "keys",
    "keys": "keys",
    "observer": "observer",
    "task": "task",
}
#: Seconds of `Retry-After` on a 503.
RETRY_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """Links that lead out of an error page; each is empty if there is none."""

    page: str = ""
    #: Text of the button to the page.
    button: str = ""
    #: Address and title of the thread that the request found.
    thread: str = ""
    title: str = ""
    #: Address of the form that forks a closed thread, for editors.
    fork: str = ""


_NO_WAY_OUT = WayOut()


def keep_visitor(request: HttpRequest, visitor: Visitor | None) -> None:
    """Keep the visitor whom a view admitted, for an error page with the project."""
    request.visitor = visitor  # type: ignore[attr-defined]  # ours


def get_status(refusal: errors.Refusal | None) -> int:
    """Return the HTTP status of a refusal; 200 for None."""
    if refusal is None:
        return 200
    kinds = (kind for kind in type(refusal).__mro__ if kind in STATUS)
    kind = next(kinds, None)
    return STATUS[kind] if kind else 400


def get_error_text(
    refusal: errors.Refusal | None, texts: Texts = _NO_TEXTS, *, numbers: bool = False
) -> str:
    """Return a form's error text, from the form's own `texts` if they have one.

    Empty for None. `numbers` adds the numbers that go with the message.
    """
    if refusal is None:
        return ""
    plain = refusal.sentence if numbers else refusal.message
    keys: list[str | type[errors.Refusal]] = [type(refusal)]
    if isinstance(refusal, errors.InvalidError):
        keys = [refusal.invalid_code, refusal.loc, errors.InvalidError]
    return next((texts[key] for key in keys if key in texts), plain)


def render_refusal(
    request: HttpRequest, refusal: errors.Refusal, *, panel: bool = False
) -> HttpResponse:
    """Render a refusal as a page, or in the place of a panel."""
    return _render_or_unavailable(
        request,
        get_status(refusal),
        refusal.code,
        refusal.message,
        panel=panel,
        way=_find_way_out(request, refusal),
    )


def _find_way_out(request: HttpRequest, refusal: errors.Refusal) -> WayOut:
    """Find the links to the thread that the request found; none without a thread.

    An editor gets to the forms that reopen and fork a closed thread.
    """
    match, visitor = request.resolver_match, _get_visitor(request)
    if match is None or visitor is None or "thread" not in match.kwargs:
        return _NO_WAY_OUT
    if visitor.reading is None or not visitor.reading.shown:
        return _NO_WAY_OUT
    names = {name: match.kwargs[name] for name in ("project", "thread")}
    thread, title = reverse("thread", kwargs=names), names["thread"]
    subject = next(iter(visitor.reading.shown.values())).subject
    if subject is not None:
        title = remove_subject(title, subject)
    if not isinstance(refusal, errors.ThreadClosedError):
        return WayOut(page=thread, button="Open the thread", thread=thread, title=title)
    if not visitor.editor:
        return WayOut(page=thread, button="Show the thread", thread=thread, title=title)
    route = _REOPENING.get((match.url_name or "").partition("-")[0])
    return WayOut(
        page=f"{reverse(route, kwargs=names)}#reopen" if route else "",
        button="Reopen it…",
        thread=thread,
        title=title,
        fork=reverse("fork", kwargs=names),
    )


def render_forbidden(
    request: HttpRequest, role: str, *, panel: bool = False
) -> HttpResponse:
    match = request.resolver_match
    where = "this project" if match and "project" in match.kwargs else "a project"
    text = f"This needs the role {role} in {where}. Ask an owner for it."
    return _render_or_unavailable(request, 403, "role", text, panel=panel)


def render_only_posts(request: HttpRequest, *, page: str) -> HttpResponse:
    """Render the answer to a GET of a POST-only address; `page` has the form."""
    text = "This address accepts only a sent form. Open the page that has the form."
    answer = _render_or_unavailable(
        request,
        405,
        "only_posts",
        text,
        panel=False,
        way=WayOut(page=page, button="Open that page"),
    )
    answer.headers["Allow"] = "POST"
    return answer


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Render the answer to an unknown address."""
    try:
        return render_refusal(request, errors.NotFoundError())
    finally:
        # Without a view, Django renders this in one thread and cleans up in another.
        # The connection would stay open here, and stay broken once it breaks.
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()


def csrf(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Render the answer to a form from another site, or from an ended session."""
    text = "This form did not come from a page of this session. Open it again."
    return _render_or_unavailable(request, 403, "csrf", text, panel=False)


def render_signed_out(request: HttpRequest) -> HttpResponse:
    """Render a panel's answer after the session has ended."""
    text = "You are signed out. Sign in again to go on."
    return _render_or_unavailable(request, 401, "signed_out", text, panel=True)


def is_database_lost(failure: Exception) -> bool:
    """Tell whether the database does not answer, or cannot read its own file."""
    # SQLite reports a damaged file as a plain DatabaseError. Its subclasses are our own
    # mistakes, which must not look like a database that is away for a moment.
    gone = isinstance(failure, InterfaceError | OperationalError)
    return gone or type(failure) is DatabaseError


def render_unavailable(request: HttpRequest, failure: Exception) -> HttpResponse:
    """Render a page or panel without a database, and so without a session."""
    log.error("page.away", code=type(failure).__name__, method=request.method)
    # Neither user nor project can be looked up, and the page would try.
    request.user = AnonymousUser()
    keep_visitor(request, None)
    text = _AWAY if request.method in ("GET", "HEAD") else _AWAY_FROM_A_FORM
    return _render_error(
        request, 503, "unavailable", text, panel=bool(_get_panel_name(request))
    )


_AWAY = "The database does not answer. Nothing is lost; try again in a moment."
_AWAY_FROM_A_FORM = (
    "The database does not answer. Check whether your change was made before you "
    "send it again."
)


def _render_or_unavailable(
    request: HttpRequest,
    status: int,
    code: str,
    message: str,
    *,
    panel: bool,
    way: WayOut = _NO_WAY_OUT,
) -> HttpResponse:
    try:
        return _render_error(request, status, code, message, panel=panel, way=way)
    except Error as failure:
        # The page names the signed-in user, which may be the first query.
        if not is_database_lost(failure):
            raise
        return render_unavailable(request, failure)


def _render_error(
    request: HttpRequest,
    status: int,
    code: str,
    message: str,
    *,
    panel: bool,
    way: WayOut = _NO_WAY_OUT,
) -> HttpResponse:
    context = {
        "title": TITLES.get(status, "Refused"),
        "status": status,
        "code": code,
        "message": message,
        "way": way,
    }
    if panel:
        # The panel's id lets the next answer replace this error.
        context["panel"] = _get_panel_name(request)
        answer = render(request, "inspector/shared/_error.html", context, status=status)
        answer.headers["MH-Panel"] = "1"
    else:
        match, visitor = request.resolver_match, _get_visitor(request)
        answer = shell.render_page(
            request,
            "inspector/error.html",
            context,
            visitor=visitor,
            section="threads" if match and "thread" in match.kwargs else "",
            status=status,
        )
    if status == 503:
        answer.headers["Retry-After"] = str(RETRY_SECONDS)
    return answer


def _get_visitor(request: HttpRequest) -> Visitor | None:
    """Return the visitor whom the view admitted; None before that."""
    return getattr(request, "visitor", None)


def _get_panel_name(request: HttpRequest) -> str:
    """Return the name of the requested panel; empty for other URLs."""
    match = request.resolver_match
    return str(match.kwargs.get("panel", "")) if match else ""
