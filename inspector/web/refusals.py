from __future__ import annotations

from collections.abc import Mapping
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
from memoryhub import errors
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
#: A form's own words, by the code of an InvalidError, its field, or a refusal's class.
Texts = Mapping[str | type[errors.Refusal], str]
_NO_TEXTS: Texts = MappingProxyType({})
TITLES = {
    400: "This link does not fit",
    403: "Not for your role",
    404: "Nothing here",
    405: "Nothing to read here",
    409: "That is not possible now",
    410: "Erased",
    413: "That is too large",
    422: "That value does not fit",
    429: "Too many tries",
    503: "Away for a moment",
}
#: After this long it makes sense to ask again for what is away.
RETRY_SECONDS = 5


def status_of(refusal: errors.Refusal | None) -> int:
    """Give the HTTP status of a refusal; 200 where nothing was refused."""
    if refusal is None:
        return 200
    kinds = (kind for kind in type(refusal).__mro__ if kind in STATUS)
    kind = next(kinds, None)
    return STATUS[kind] if kind else 400


def error_text(
    refusal: errors.Refusal | None, texts: Texts = _NO_TEXTS, *, numbers: bool = False
) -> str:
    """Word what a form says beside its fields, in its own words if it has some.

    Empty where nothing was refused. `numbers` adds those that go with the message.
    """
    if refusal is None:
        return ""
    plain = refusal.sentence if numbers else refusal.message
    keys: list[str | type[errors.Refusal]] = [type(refusal)]
    if isinstance(refusal, errors.InvalidError):
        keys = [refusal.invalid_code, refusal.loc, errors.InvalidError]
    return next((texts[key] for key in keys if key in texts), plain)


def response(
    request: HttpRequest, refusal: errors.Refusal, *, panel: bool = False
) -> HttpResponse:
    """Show a refusal as a page, or in the place of a panel."""
    return _answer(
        request,
        status_of(refusal),
        refusal.code,
        refusal.message,
        panel=panel,
        page=_way_out(request, refusal),
    )


def _way_out(request: HttpRequest, refusal: errors.Refusal) -> str:
    """Find where a thread that is closed can be reopened; empty for all else."""
    match = request.resolver_match
    if match is None or not isinstance(refusal, errors.ThreadClosedError):
        return ""
    names = {name: match.kwargs[name] for name in ("project", "thread")}
    return reverse("thread", kwargs=names)


def forbidden(request: HttpRequest, role: str, *, panel: bool = False) -> HttpResponse:
    match = request.resolver_match
    where = "this project" if match and "project" in match.kwargs else "a project"
    text = f"This needs the role {role} in {where}. Ask an owner for it."
    return _answer(request, 403, "role", text, panel=panel)


def only_posts(request: HttpRequest, *, page: str) -> HttpResponse:
    """Answer whoever reads what is only posted to; its form stands on `page`."""
    text = "This address takes what a form sends. Open the page that has the form."
    answer = _answer(request, 405, "only_posts", text, panel=False, page=page)
    answer.headers["Allow"] = "POST"
    return answer


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an address that no page has."""
    try:
        return response(request, errors.NotFoundError())
    finally:
        # Without a view Django draws this in any thread, and tidies up in another: a
        # connection would stay here, and stay broken once it breaks.
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()


def csrf(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form that came from no page of ours, or from a session that ended."""
    text = "This form did not come from a page of this session. Open it again."
    return _answer(request, 403, "csrf", text, panel=False)


def signed_out(request: HttpRequest) -> HttpResponse:
    """Answer a panel once the session has ended."""
    text = "You are signed out. Sign in again to go on."
    return _answer(request, 401, "signed_out", text, panel=True)


def lost(failure: Exception) -> bool:
    """Tell whether a database does not answer, or can't read what it keeps."""
    # Of the plain class is what SQLite says of a damaged file; others derived from it
    # are mistakes of ours, which must not look like a moment's absence.
    gone = isinstance(failure, InterfaceError | OperationalError)
    return gone or type(failure) is DatabaseError


def away(request: HttpRequest, failure: Exception) -> HttpResponse:
    """Answer a page or a panel without a database, so without a session."""
    log.error("page.away", code=type(failure).__name__, method=request.method)
    # Who asks can't be looked up, and the page would try.
    request.user = AnonymousUser()
    text = _AWAY if request.method in ("GET", "HEAD") else _AWAY_FROM_A_FORM
    return _drawn(request, 503, "unavailable", text, panel=bool(_panel(request)))


_AWAY = "The database does not answer. Nothing is lost; ask again in a moment."
_AWAY_FROM_A_FORM = (
    "The database does not answer. Look whether what you sent was done before you "
    "send it again."
)


def _answer(
    request: HttpRequest,
    status: int,
    code: str,
    message: str,
    *,
    panel: bool,
    page: str = "",
) -> HttpResponse:
    try:
        return _drawn(request, status, code, message, panel=panel, page=page)
    except Error as failure:
        # The page names who is signed in, and nobody has asked for that before.
        if not lost(failure):
            raise
        return away(request, failure)


def _drawn(
    request: HttpRequest,
    status: int,
    code: str,
    message: str,
    *,
    panel: bool,
    page: str = "",
) -> HttpResponse:
    context = {
        "title": TITLES.get(status, "Refused"),
        "status": status,
        "code": code,
        "message": message,
        "page": page,
    }
    if panel:
        # Under the panel's id, so that the next answer finds its place again.
        context["panel"] = _panel(request)
        answer = render(request, "inspector/shared/_error.html", context, status=status)
        answer.headers["MH-Panel"] = "1"
    else:
        answer = shell.page(request, "inspector/error.html", context, status=status)
    if status == 503:
        answer.headers["Retry-After"] = str(RETRY_SECONDS)
    return answer


def _panel(request: HttpRequest) -> str:
    """Name the panel that is wanted, if it is one that stands once on a page."""
    match = request.resolver_match
    return str(match.kwargs.get("panel", "")) if match else ""
