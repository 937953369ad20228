from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST

from inspector import access, refusals, shell
from inspector.tries import Tries
from memoryhub.errors import Refusal
from memoryhub.kernel import names
from memoryhub.models.operators import Operator
from memoryhub.services import operators

THEMES = ("light", "dark")
_YEAR_SECONDS = 31_536_000
#: Guesses at links from one address in a minute.
tries = Tries(allowed=10)
#: Wrong passwords from one address in an hour, whatever the names.
failures = Tries(allowed=50, seconds=3600.0)
#: Stands for what can be nobody's name; it is no name that an operator can have.
NOBODY = "?"
MAX_NAME, MAX_PASSWORD_BYTES = 64, 4096

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def _or_refused(view: View[P]) -> View[P]:
    """Answers refusals where there is no session yet whose guard could."""

    @wraps(view)
    def guarded(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Refusal as refusal:
            return refusals.response(request, refusal)

    return guarded


@require_http_methods(["GET", "HEAD", "POST"])
@_or_refused
def by_password(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form(request)
    address = request.META.get("REMOTE_ADDR", "")
    # Counted before the hash, so that many at once are no way around it.
    if not failures.take(address):
        return _form(request, problem="tries", status=429)
    operator = authenticate(request, **_credentials(request))
    if getattr(request, "axes_locked_out", False):
        # Our page answers, not the plain text that axes would put in its place.
        request.axes_locked_out = False  # type: ignore[attr-defined]  # set by axes
        return _form(request, problem="locked", status=429)
    if not isinstance(operator, Operator):
        return _form(request, problem="password", status=422)
    failures.give_back(address)
    return _begin(request, operator)


@require_http_methods(["GET", "HEAD", "POST"])
@_or_refused
def by_link(request: HttpRequest, token: str) -> HttpResponse:
    """Opening a link changes nothing: mail programs open links too. Posting uses it."""
    context = {"token": token, "next": _next(request)}
    if request.method != "POST":
        return shell.page(request, "inspector/sign_in/link.html", context, place=None)
    if not tries.take(request.META.get("REMOTE_ADDR", "")):
        return _form(request, problem="tries", status=429)
    operator = operators.use_link(token)
    if operator is None:
        return _form(request, problem="link", status=422)
    return _begin(request, operator)


@require_POST
def out(request: HttpRequest) -> HttpResponse:
    logout(request)
    answer = HttpResponseRedirect(settings.LOGIN_URL)
    answer.headers["Clear-Site-Data"] = '"cache", "storage"'
    return answer


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Remember light or dark in a cookie; anything else follows the system."""
    answer = HttpResponseRedirect(_next(request) or "/")
    chosen = request.POST.get("theme", "")
    if chosen in THEMES:
        answer.set_cookie(
            "mh_theme",
            chosen,
            max_age=_YEAR_SECONDS,
            secure=settings.TLS,
            httponly=True,
            samesite="Lax",
        )
    else:
        answer.delete_cookie("mh_theme", samesite="Lax")
    return answer


def _credentials(request: HttpRequest) -> dict[str, str]:
    """What was sent; in the place of what can't be right, what is as wrong as any.

    So it is counted and takes as long, and reaches neither the hash nor a column.
    """
    username = request.POST.get("username", "")
    password = request.POST.get("password", "")
    if not names.valid(username) or len(username) > MAX_NAME:
        username = NOBODY
    if "\0" in password or len(password.encode()) > MAX_PASSWORD_BYTES:
        password = ""
    return {"username": username, "password": password}


def _begin(request: HttpRequest, operator: Operator) -> HttpResponse:
    login(request, operator, backend="django.contrib.auth.backends.ModelBackend")
    access.note_sign_in(request, operator)
    return HttpResponseRedirect(_next(request) or "/")


def _form(
    request: HttpRequest, *, problem: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "problem": problem,
        "next": _next(request),
        "old": request.GET.get("why") == "old",
    }
    return shell.page(
        request, "inspector/sign_in/form.html", context, place=None, status=status
    )


def _next(request: HttpRequest) -> str:
    """Where to go on: a page of ours, or nothing."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts=None, require_https=request.is_secure()
    )
    return wanted if ours else ""
