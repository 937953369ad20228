from __future__ import annotations

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
    errors.ExportBusyError: 409,
    errors.ValueTooLargeError: 413,
    JsonRefusedError: 422,
    errors.RateError: 429,
    errors.UnavailableError: 503,
}
TITLES = {
    400: "This link does not fit",
    403: "Not for your role",
    404: "Nothing here",
    409: "That is not possible now",
    410: "Erased",
    413: "That is too large",
    422: "That value does not fit",
    429: "Too many tries",
    503: "Away for a moment",
}
#: After this long it makes sense to ask again for what is away.
RETRY_SECONDS = 5


def status_of(refusal: errors.Refusal) -> int:
    kinds = (kind for kind in type(refusal).__mro__ if kind in STATUS)
    kind = next(kinds, None)
    return STATUS[kind] if kind else 400


def response(
    request: HttpRequest, refusal: errors.Refusal, *, panel: bool = False
) -> HttpResponse:
    """A refusal as a page, or in the place of a panel."""
    return _answer(
        request, status_of(refusal), refusal.code, refusal.message, panel=panel
    )


def forbidden(request: HttpRequest, role: str, *, panel: bool = False) -> HttpResponse:
    said = f"This needs the role {role} in this project. Ask an owner for it."
    return _answer(request, 403, "role", said, panel=panel)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An address that no page has."""
    try:
        return response(request, errors.NotFoundError())
    finally:
        # Without a view Django draws this in any thread, and tidies up in another: a
        # connection would stay here, and stay broken once it breaks.
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()


def csrf(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that was not sent from a page of ours, or from a session that ended."""
    said = "This form did not come from a page of this session. Open it again."
    return _answer(request, 403, "csrf", said, panel=False)


def signed_out(request: HttpRequest) -> HttpResponse:
    """What a panel answers once the session has ended."""
    said = "You are signed out. Sign in again to go on."
    return _answer(request, 401, "signed_out", said, panel=True)


def lost(failure: Exception) -> bool:
    """Whether a database does not answer, or can't read what it keeps."""
    # Of the plain class is what SQLite says of a damaged file; others derived from it
    # are mistakes of ours, which must not look like a moment's absence.
    gone = isinstance(failure, InterfaceError | OperationalError)
    return gone or type(failure) is DatabaseError


def away(request: HttpRequest, failure: Exception) -> HttpResponse:
    """What a page or a panel answers without a database, so without a session."""
    log.error("page.away", code=type(failure).__name__, method=request.method)
    # Who asks can't be looked up, and the page would try.
    request.user = AnonymousUser()
    said = _AWAY if request.method in ("GET", "HEAD") else _AWAY_FROM_A_FORM
    return _drawn(request, 503, "unavailable", said, panel=bool(_panel(request)))


_AWAY = "The database does not answer. Nothing is lost; ask again in a moment."
_AWAY_FROM_A_FORM = (
    "The database does not answer. Look whether what you sent was done before you "
    "send it again."
)


def _answer(
    request: HttpRequest, status: int, code: str, message: str, *, panel: bool
) -> HttpResponse:
    try:
        return _drawn(request, status, code, message, panel=panel)
    except Error as failure:
        # The page names who is signed in, and nobody has asked for that before.
        if not lost(failure):
            raise
        return away(request, failure)


def _drawn(
    request: HttpRequest, status: int, code: str, message: str, *, panel: bool
) -> HttpResponse:
    context = {
        "title": TITLES.get(status, "Refused"),
        "status": status,
        "code": code,
        "message": message,
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
    """The panel that was asked for, if it is one that stands once on a page."""
    match = request.resolver_match
    return str(match.kwargs.get("panel", "")) if match else ""
