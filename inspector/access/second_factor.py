from __future__ import annotations

from typing import Any

from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access, webauthn
from inspector.access.access import signed_in
from inspector.web import shell
from memoryhub.errors import InvalidError
from memoryhub.models.access.operators import Operator
from memoryhub.services.access import passkeys, second_factors

#: How long a secret may wait for its first code.
PROPOSED_SECONDS = 900
#: How young a sign-in must be to change the factors of who has one: that took the
#: factor, or a link of the server's, so that a session alone can't bring its own.
FRESH_MINUTES = 5
_SALT = "inspector.second-factor"


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def show(request: HttpRequest) -> HttpResponse:
    """Add a second factor, or take it away. Looking makes none."""
    operator = access.operator_of(request)
    if request.method != "POST":
        return _page(request, operator, second_factors.new_secret())
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
    operator = access.operator_of(request)
    guarded = second_factors.exists(operator) or passkeys.exists(operator)
    access.require_recent_sign_in(request, minutes=FRESH_MINUTES if guarded else None)


def _add_codes(request: HttpRequest, operator: Operator) -> HttpResponse | None:
    """Add them, or answer why not."""
    secret = _proposed(request, operator)
    if secret is None:
        return _page(request, operator, second_factors.new_secret(), problem="late")
    try:
        second_factors.add(operator, secret, request.POST.get("code", "")[:16])
    except InvalidError:
        return _page(request, operator, secret, problem="code")
    return None


def _add_passkey(request: HttpRequest, operator: Operator) -> HttpResponse | None:
    """Add it, or answer why not."""
    state = webauthn.take(request, webauthn.ADDING)
    answer, name = request.POST["passkey"], request.POST.get("name", "")
    try:
        if state is None:
            raise InvalidError(code="passkey", loc="passkey")
        site = webauthn.site(request)
        passkeys.add(operator, site, state=state, answer=answer, name=name)
    except InvalidError:
        fresh = second_factors.new_secret()
        return _page(request, operator, fresh, problem="passkey")
    return None


def _page(
    request: HttpRequest, operator: Operator, secret: bytes, *, problem: str = ""
) -> HttpResponse:
    text = second_factors.text_of(secret)
    context: dict[str, Any] = {
        "exists": second_factors.exists(operator),
        "wanted": second_factors.wanted(operator),
        "text": " ".join(text[n : n + 4] for n in range(0, len(text), 4)),
        "address": second_factors.address_of(secret, operator),
        "proposal": _sealed(secret, operator),
        "problem": problem,
        "passkeys": passkeys.list_passkeys(operator),
        "named": webauthn.site(request).named,
    }
    template, status = (
        "inspector/access/second_factor/show.html",
        422 if problem else 200,
    )
    return shell.page(request, template, context, status=status)


def _sealed(secret: bytes, operator: Operator) -> str:
    """Sign the secret for its way through the form, as this operator's."""
    proposed = [str(operator.id), secret.hex()]
    return signing.dumps(proposed, salt=_SALT)


def _proposed(request: HttpRequest, operator: Operator) -> bytes | None:
    try:
        sent = request.POST.get("proposal", "")
        whose, secret = signing.loads(sent, salt=_SALT, max_age=PROPOSED_SECONDS)
    except (signing.BadSignature, ValueError):
        return None
    return bytes.fromhex(secret) if whose == str(operator.id) else None
