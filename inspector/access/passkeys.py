from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from inspector.access import access, webauthn
from inspector.access.access import signed_in
from inspector.access.second_factor import require_fresh_sign_in
from inspector.web.methods import require_post
from inspector.web.rate_limit import RateLimit
from memoryhub.services.access import passkeys

MAX_NAME = 64
#: Challenges for one address in a minute: each is a row until it is used or too old.
challenge_limit = RateLimit(allowed=20)


@require_post
def challenge(request: HttpRequest) -> HttpResponse:
    """Give a script what to ask a device of: of any operator, or of who is named."""
    if not challenge_limit.take(request.META.get("REMOTE_ADDR", "")):
        return JsonResponse({}, status=429)
    name = request.POST.get("username", "")[:MAX_NAME]
    options, state = passkeys.challenge(webauthn.site(request), name=name)
    webauthn.begin(request, webauthn.ENTERING, state)
    return _answer(options)


@require_post
@signed_in
def proposal(request: HttpRequest) -> HttpResponse:
    """Give a script what to ask a device that is to be added."""
    require_fresh_sign_in(request)
    operator, site = access.operator_of(request), webauthn.site(request)
    options, state = passkeys.propose(operator, site)
    webauthn.begin(request, webauthn.ADDING, state)
    return _answer(options)


def _answer(options: Mapping[str, Any]) -> HttpResponse:
    return JsonResponse(dict(options))
