from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from inspector.access import access, webauthn
from inspector.access.access import require_signed_in
from inspector.access.second_factor import require_fresh_sign_in
from inspector.web.methods import require_post
from inspector.web.rate_limit import RateLimit
from memoryhub.services.access import passkeys

#: Most characters of a name that are read.
MAX_NAME = 64
#: Challenges per address and minute; each is a row until it is used or expires.
challenge_limit = RateLimit(allowed=20)


@require_post
def issue_challenge(request: HttpRequest) -> HttpResponse:
    """Send the sign-in challenge to the page's script, for one operator or for any."""
    if not challenge_limit.count_attempt(request.META.get("REMOTE_ADDR", "")):
        return JsonResponse({}, status=429)
    name = request.POST.get("username", "")[:MAX_NAME]
    options, state = passkeys.begin_sign_in(webauthn.build_site(request), name=name)
    webauthn.begin(request, webauthn.ENTERING, state)
    return _send_options(options)


@require_post
@require_signed_in
def issue_proposal(request: HttpRequest) -> HttpResponse:
    """Send the page's script the challenge for a device that the operator adds."""
    require_fresh_sign_in(request)
    operator, site = access.get_operator(request), webauthn.build_site(request)
    options, state = passkeys.begin_registration(operator, site)
    webauthn.begin(request, webauthn.ADDING, state)
    return _send_options(options)


def _send_options(options: Mapping[str, Any]) -> HttpResponse:
    return JsonResponse(dict(options))
