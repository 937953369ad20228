from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec

from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from inspector.access import access, webauthn
from inspector.access.backends import NOBODY
from inspector.web import read_audit, refusals, shell
from inspector.web.methods import require_post
from inspector.web.rate_limit import RateLimit
from memoryhub.errors import InvalidError, Refusal
from memoryhub.journal.audit import PURPOSES
from memoryhub.kernel.text import names
from memoryhub.models.access.operators import Operator
from memoryhub.services.access import audit, operators, passkeys, sign_ins

THEMES = ("light", "dark")
_YEAR_SECONDS = 31_536_000
#: Guesses at links from one address in a minute.
link_limit = RateLimit(allowed=10)
MAX_NAME, MAX_PASSWORD_BYTES, MAX_CODE = 64, 4096, 16

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def or_refused(view: View[P]) -> View[P]:
    """Answer refusals where there is no session yet whose guard could."""

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
@or_refused
def by_password(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return form(request)
    answer = admit(request, partial(_credentials, request), problem="password")
    if isinstance(answer, Operator):
        return enter(
            request, answer, purpose=chosen_purpose(request), onward=next_page(request)
        )
    return answer


def admit(
    request: HttpRequest, credentials: Callable[[], dict[str, Any]], *, problem: str
) -> Operator | HttpResponse:
    """Find whose credentials they are; else the form says a problem, alike for all."""
    given = credentials()
    name = None if given["username"] == NOBODY else given["username"]
    begun = sign_ins.begin(name, request.META.get("REMOTE_ADDR", ""))
    if begun is None:
        return form(request, problem="locked", status=429)
    operator = authenticate(request, **given)
    if not isinstance(operator, Operator):
        return form(request, problem=problem, status=422)
    sign_ins.succeed(begun)
    return operator


@require_http_methods(["GET", "HEAD", "POST"])
@or_refused
def by_link(request: HttpRequest, token: str) -> HttpResponse:
    """Sign in by a link once it is posted: mail programs open links, which uses none.

    Where others could look as well, nobody is signed in before they have seen for what.
    """
    if request.method != "POST":
        context = {
            "token": token,
            "next": next_page(request),
            "send": access.near(request),
        }
        template = "inspector/access/sign_in/link.html"
        return shell.page(request, template, _purposes(request) | context, visitor=None)
    if not link_limit.take(request.META.get("REMOTE_ADDR", "")):
        return form(request, problem="tries", status=429)
    # Before the link is used up.
    chosen = chosen_purpose(request)
    operator = operators.use_link(token)
    if operator is None:
        return form(request, problem="link", status=422)
    return enter(request, operator, purpose=chosen, onward=next_page(request))


@require_post
@or_refused
def out(request: HttpRequest) -> HttpResponse:
    if isinstance(request.user, Operator):
        purpose = read_audit.purpose_of(request.session)
        audit.record_operator(request.user, "sign_out", purpose=purpose)
    logout(request)
    answer = HttpResponseRedirect(settings.LOGIN_URL)
    answer.headers["Clear-Site-Data"] = '"cache", "storage"'
    return answer


@require_post
def theme(request: HttpRequest) -> HttpResponse:
    """Remember light or dark in a cookie; anything else follows the system."""
    answer = HttpResponseRedirect(next_page(request) or "/")
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


def _credentials(request: HttpRequest) -> dict[str, Any]:
    """Read what was sent; what can't be right becomes something as wrong as any.

    So it is counted and takes as long, and reaches neither the hash nor a column.
    """
    username = request.POST.get("username", "")
    password = request.POST.get("password", "")
    if not names.valid(username) or len(username) > MAX_NAME:
        username = NOBODY
    if "\0" in password or len(password.encode()) > MAX_PASSWORD_BYTES:
        password = ""
    code, passkey = request.POST.get("code", "")[:MAX_CODE], None
    if answer := request.POST.get("passkey"):
        passkey = _shown(request, answer)
        # Whoever means to show a device is not let in without it.
        password = password if passkey else ""
    return {
        "username": username,
        "password": password,
        "code": code,
        "passkey": passkey,
    }


def _shown(request: HttpRequest, answer: str) -> passkeys.Shown | None:
    state = webauthn.take(request, webauthn.ENTERING)
    if state is None:
        return None
    return passkeys.shown(webauthn.site(request), state=state, answer=answer)


def enter(
    request: HttpRequest, operator: Operator, *, purpose: str, onward: str
) -> HttpResponse:
    """Begin a session of the operator's, and go where they were bound for."""
    # Who is signed in already only shows that it is still them.
    action = "sudo" if request.user == operator else "sign_in"
    audit.record_operator(operator, action, purpose=purpose)
    login(request, operator, backend=access.BACKEND)
    # It may have been short, for a device or a provider to answer in.
    request.session.set_expiry(None)
    access.note_sign_in(request, operator)
    request.session[read_audit.PURPOSE] = purpose
    return HttpResponseRedirect(onward or "/")


def chosen_purpose(request: HttpRequest) -> str:
    """Read why the operator will look at content. Raises InvalidError."""
    sent = request.POST.get("purpose", read_audit.DEFAULT_PURPOSE)
    if sent not in PURPOSES:
        raise InvalidError(loc="purpose")
    return sent


def _purposes(request: HttpRequest) -> dict[str, Any]:
    """Give the words that a form offers, and the one that it proposes."""
    wanted = request.POST.get("purpose") or request.GET.get("purpose", "")
    chosen = wanted if wanted in PURPOSES else read_audit.DEFAULT_PURPOSE
    return {"purposes": PURPOSES, "purpose": chosen}


def form(request: HttpRequest, *, problem: str = "", status: int = 200) -> HttpResponse:
    context = {
        **_purposes(request),
        "problem": problem,
        "next": next_page(request),
        "old": request.GET.get("why") == "old",
        "named": webauthn.site(request).named,
        "sso": settings.SSO,
    }
    return shell.page(
        request,
        "inspector/access/sign_in/form.html",
        context,
        visitor=None,
        status=status,
    )


def next_page(request: HttpRequest) -> str:
    """Read where to go on: a page of ours, or nothing."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts=None, require_https=request.is_secure()
    )
    return wanted if ours else ""
