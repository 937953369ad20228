from __future__ import annotations

import shlex
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
from inspector.web import read_audit, refusals, returns, shell
from inspector.web.methods import require_post
from inspector.web.rate_limit import RateLimit
from memoryhub import distribution
from memoryhub.errors import InvalidError, Refusal
from memoryhub.journal.audit import PURPOSES
from memoryhub.kernel.text import names
from memoryhub.models.access.operators import Operator
from memoryhub.services.access import audit, operators, passkeys, sign_ins

THEMES = ("light", "dark")
_YEAR_SECONDS = 31_536_000
#: Attempts at sign-in links per address and minute.
link_limit = RateLimit(allowed=10)
MAX_NAME, MAX_PASSWORD_BYTES, MAX_CODE = 64, 4096, 16

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def answer_refusals(view: View[P]) -> View[P]:
    """Answer a view's refusals where no session, and so no guard, exists yet."""

    @wraps(view)
    def guard_request(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Refusal as refusal:
            return refusals.render_refusal(request, refusal)

    return guard_request


@require_http_methods(["GET", "HEAD", "POST"])
@answer_refusals
def sign_in_by_password(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return render_form(request)
    answer = admit(request, partial(_parse_credentials, request), problem="password")
    if isinstance(answer, Operator):
        return begin_session(
            request,
            answer,
            purpose=parse_purpose(request),
            onward=parse_next_page(request),
        )
    return answer


def admit(
    request: HttpRequest, credentials: Callable[[], dict[str, Any]], *, problem: str
) -> Operator | HttpResponse:
    """Return the operator with these credentials; else the form with one problem."""
    given = credentials()
    name = None if given["username"] == NOBODY else given["username"]
    begun = sign_ins.begin(name, request.META.get("REMOTE_ADDR", ""))
    if begun is None:
        return render_form(request, problem="locked", status=429)
    operator = authenticate(request, **given)
    if not isinstance(operator, Operator):
        return render_form(request, problem=problem, status=422)
    sign_ins.succeed(begun)
    return operator


@require_http_methods(["GET", "HEAD", "POST"])
@answer_refusals
def sign_in_by_link(request: HttpRequest, token: str) -> HttpResponse:
    """Sign in by a link, which only a POST uses up, since mail programs open links.

    Off this machine the operator sees the purpose before the sign-in.
    """
    if request.method != "POST":
        context = {
            "token": token,
            "next": parse_next_page(request),
            "send": access.is_local_request(request),
        }
        template = "inspector/access/sign_in/link.html"
        return shell.render_page(
            request, template, _build_purposes(request) | context, visitor=None
        )
    if not link_limit.count_attempt(request.META.get("REMOTE_ADDR", "")):
        return render_form(request, problem="tries", status=429)
    # Parse the purpose before the link is used up.
    chosen = parse_purpose(request)
    operator = operators.use_link(token)
    if operator is None:
        return render_form(request, problem="link", status=422)
    return begin_session(
        request, operator, purpose=chosen, onward=parse_next_page(request)
    )


@require_post
@answer_refusals
def sign_out(request: HttpRequest) -> HttpResponse:
    if isinstance(request.user, Operator):
        purpose = read_audit.get_purpose(request.session)
        audit.record_operator(request.user, "sign_out", purpose=purpose)
    logout(request)
    answer = HttpResponseRedirect(settings.LOGIN_URL)
    answer.headers["Clear-Site-Data"] = '"cache", "storage"'
    return answer


@require_post
def set_theme(request: HttpRequest) -> HttpResponse:
    """Set light or dark in a cookie; any other choice follows the system."""
    answer = HttpResponseRedirect(parse_next_page(request) or "/")
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


def _parse_credentials(request: HttpRequest) -> dict[str, Any]:
    """Read the credentials; replace impossible values by values that match nobody.

    So the attempt is counted and takes as long, and an impossible value reaches
    neither the hash nor a column.
    """
    username = request.POST.get("username", "")
    password = request.POST.get("password", "")
    if not names.is_valid(username) or len(username) > MAX_NAME:
        username = NOBODY
    if "\0" in password or len(password.encode()) > MAX_PASSWORD_BYTES:
        password = ""
    code, passkey = request.POST.get("code", "")[:MAX_CODE], None
    if answer := request.POST.get("passkey"):
        passkey = _verify_passkey(request, answer)
        # An operator who sends a passkey is not admitted by the password alone.
        password = password if passkey else ""
    return {
        "username": username,
        "password": password,
        "code": code,
        "passkey": passkey,
    }


def _verify_passkey(request: HttpRequest, answer: str) -> passkeys.PasskeySignIn | None:
    state = webauthn.take(request, webauthn.ENTERING)
    if state is None:
        return None
    return passkeys.verify_sign_in(
        webauthn.build_site(request), state=state, answer=answer
    )


def begin_session(
    request: HttpRequest, operator: Operator, *, purpose: str, onward: str
) -> HttpResponse:
    """Begin a session of the operator, and redirect to `onward`."""
    # An operator who is signed in already only confirms their identity.
    action = "sudo" if request.user == operator else "sign_in"
    audit.record_operator(operator, action, purpose=purpose)
    login(request, operator, backend=access.BACKEND)
    # The session may have been short, for a device or a provider to answer in.
    request.session.set_expiry(None)
    access.note_sign_in(request, operator)
    request.session[read_audit.PURPOSE] = purpose
    answer = HttpResponseRedirect(onward or "/")
    returns.forget_page(answer)
    return answer


def parse_purpose(request: HttpRequest) -> str:
    """Parse the purpose for which the operator reads content. Raises InvalidError."""
    sent = request.POST.get("purpose", read_audit.DEFAULT_PURPOSE)
    if sent not in PURPOSES:
        raise InvalidError(loc="purpose")
    return sent


def _build_purposes(request: HttpRequest) -> dict[str, Any]:
    """Build the purposes that a form offers, and the one that the form proposes."""
    wanted = request.POST.get("purpose") or request.GET.get("purpose", "")
    chosen = wanted if wanted in PURPOSES else read_audit.DEFAULT_PURPOSE
    return {"purposes": PURPOSES, "purpose": chosen}


def render_form(
    request: HttpRequest, *, problem: str = "", status: int = 200
) -> HttpResponse:
    context = {
        **_build_purposes(request),
        "problem": problem,
        "next": parse_next_page(request),
        "old": request.GET.get("why") == "old",
        "named": webauthn.build_site(request).has_domain_name,
        "sso": settings.SSO,
        "folder": _find_folder(request),
    }
    return shell.render_page(
        request,
        "inspector/access/sign_in/form.html",
        context,
        visitor=None,
        status=status,
    )


def _find_folder(request: HttpRequest) -> str:
    """Return this hub's data folder, quoted for a shell, for readers on this machine.

    Empty for other readers and for the folder that commands use by default.
    """
    usual = distribution.DATA_DIR.resolve() == settings.DATA_DIR
    if usual or not access.is_local_request(request):
        return ""
    return shlex.quote(str(settings.DATA_DIR))


def parse_next_page(request: HttpRequest) -> str:
    """Parse the page to go on to: a page of this server, or empty."""
    wanted = (
        request.POST.get("next")
        or request.GET.get("next")
        or returns.get_remembered_page(request)
    )
    ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts=None, require_https=request.is_secure()
    )
    return wanted if ours else ""
