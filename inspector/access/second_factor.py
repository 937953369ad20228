from __future__ import annotations

from typing import Any

from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access, webauthn
from inspector.access.access import require_signed_in
from inspector.web import shell
from memoryhub.errors import InvalidError
from memoryhub.models.access.operators import Operator
from memoryhub.services.access import passkeys, second_factors

#: Seconds that a proposed secret may wait for its first code.
PROPOSED_SECONDS = 900
#: Greatest age of a sign-in, in minutes, to change the factors of an operator who has
#: one. Such a sign-in took the factor, or a link of the server: a stolen session can't
#: add a factor.
FRESH_MINUTES = 5
_SALT = "inspector.second-factor"


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def show(request: HttpRequest) -> HttpResponse:
    """Show the form of second factors; a POST adds or removes one factor."""
    operator = access.get_operator(request)
    if request.method != "POST":
        return _render_page(request, operator, second_factors.generate_secret())
    require_fresh_sign_in(request)
    if "remove" in request.POST:
        second_factors.remove(operator)
    elif "remove-passkey" in request.POST:
        passkeys.remove(operator, request.POST["remove-passkey"])
    else:
        add = _add_passkey if "passkey" in request.POST else _add_codes
        if (refused := add(request, operator)) is not None:
            return refused
    return HttpResponseRedirect(reverse("second-factor"))


def require_fresh_sign_in(request: HttpRequest) -> None:
    """Raise SudoError unless the operator may change their factors."""
    operator = access.get_operator(request)
    guarded = second_factors.has_factor(operator) or passkeys.has_passkey(operator)
    access.require_recent_sign_in(request, minutes=FRESH_MINUTES if guarded else None)


def _add_codes(request: HttpRequest, operator: Operator) -> HttpResponse | None:
    """Add one-time codes, or answer why not."""
    secret = _read_proposal(request, operator)
    if secret is None:
        return _render_page(
            request, operator, second_factors.generate_secret(), problem="late"
        )
    try:
        second_factors.add(operator, secret, request.POST.get("code", "")[:16])
    except InvalidError:
        return _render_page(request, operator, secret, problem="code")
    return None


def _add_passkey(request: HttpRequest, operator: Operator) -> HttpResponse | None:
    """Add a passkey, or answer why not."""
    state = webauthn.take(request, webauthn.ADDING)
    answer, name = request.POST["passkey"], request.POST.get("name", "")
    try:
        if state is None:
            raise InvalidError(code="passkey", loc="passkey")
        site = webauthn.build_site(request)
        passkeys.add(operator, site, state=state, answer=answer, name=name)
    except InvalidError:
        fresh = second_factors.generate_secret()
        return _render_page(request, operator, fresh, problem="passkey")
    return None


def _render_page(
    request: HttpRequest, operator: Operator, secret: bytes, *, problem: str = ""
) -> HttpResponse:
    text = second_factors.to_base32(secret)
    context: dict[str, Any] = {
        "exists": second_factors.has_factor(operator),
        "wanted": second_factors.needs_factor(operator),
        "text": " ".join(text[n : n + 4] for n in range(0, len(text), 4)),
        "address": second_factors.build_otpauth_uri(secret, operator),
        "proposal": _sign_proposal(secret, operator),
        "problem": problem,
        "passkeys": passkeys.list_passkeys(operator),
        "named": webauthn.build_site(request).has_domain_name,
    }
    template, status = (
        "inspector/access/second_factor/show.html",
        422 if problem else 200,
    )
    return shell.render_page(request, template, context, status=status)


def _sign_proposal(secret: bytes, operator: Operator) -> str:
    """Sign a proposed secret for its way through this operator's form."""
    proposed = [str(operator.id), secret.hex()]
    return signing.dumps(proposed, salt=_SALT)


def _read_proposal(request: HttpRequest, operator: Operator) -> bytes | None:
    try:
        sent = request.POST.get("proposal", "")
        whose, secret = signing.loads(sent, salt=_SALT, max_age=PROPOSED_SECONDS)
    except (signing.BadSignature, ValueError):
        return None
    return bytes.fromhex(secret) if whose == str(operator.id) else None
