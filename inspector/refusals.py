from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from inspector import shell
from memoryhub import errors

STATUS: dict[type[errors.Refusal], int] = {
    errors.NotFoundError: 404,
    errors.InvalidError: 422,
    errors.BeyondHeadError: 422,
    errors.BadCursorError: 400,
    errors.SubjectErasedError: 410,
    errors.ThreadErasedError: 410,
    errors.ContentErasedError: 410,
    errors.NameTakenError: 409,
    errors.StaleError: 409,
    errors.ThreadClosedError: 409,
    errors.ForkTooDeepError: 409,
    errors.ProjectFullError: 409,
    errors.SubjectRestrictedError: 409,
    errors.CorruptError: 409,
    errors.NewerFormatError: 409,
    errors.RateError: 429,
    errors.UnavailableError: 503,
}
TITLES = {
    400: "This link does not fit",
    403: "Not for your role",
    404: "Nothing here",
    409: "That is not possible now",
    410: "Erased",
    422: "That value does not fit",
    429: "Too many tries",
    503: "Away for a moment",
}


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
    return response(request, errors.NotFoundError())


def csrf(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that was not sent from a page of ours, or from a session that ended."""
    said = "This form did not come from a page of this session. Open it again."
    return _answer(request, 403, "csrf", said, panel=False)


def signed_out(request: HttpRequest) -> HttpResponse:
    """What a panel answers once the session has ended."""
    said = "You are signed out. Sign in again to go on."
    return _answer(request, 401, "signed_out", said, panel=True)


def _answer(
    request: HttpRequest, status: int, code: str, message: str, *, panel: bool
) -> HttpResponse:
    context = {
        "title": TITLES.get(status, "Refused"),
        "status": status,
        "code": code,
        "message": message,
    }
    if not panel:
        return shell.page(request, "inspector/error.html", context, status=status)
    # Under the panel's id, so that the next answer finds its place again.
    context["panel"] = _panel(request)
    answer = render(request, "inspector/shared/_error.html", context, status=status)
    answer.headers["MH-Panel"] = "1"
    return answer


def _panel(request: HttpRequest) -> str:
    """The panel that was asked for, if it is one that stands once on a page."""
    match = request.resolver_match
    return str(match.kwargs.get("panel", "")) if match else ""
