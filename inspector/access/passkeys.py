from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST

from inspector.access import access, ceremonies
from inspector.access.access import signed_in
from inspector.access.second_factor import require_fresh_sign_in
from inspector.web.tries import Tries
from memoryhub.services.access import passkeys

MAX_NAME = 64
#: Challenges for one address in a minute: each is a row until it is used or too old.
challenges = Tries(allowed=20)


@require_POST
def challenge(request: HttpRequest) -> HttpResponse:
    """What a script shall ask a device: of any operator, or of who is named."""
    if not challenges.take(request.META.get("REMOTE_ADDR", "")):
        return JsonResponse({}, status=429)
    name = request.POST.get("username", "")[:MAX_NAME]
    options, state = passkeys.challenge(ceremonies.site(request), name=name)
    ceremonies.begin(request, ceremonies.ENTERING, state)
    return _answer(options)


@require_POST
@signed_in
def proposal(request: HttpRequest) -> HttpResponse:
    """What a script shall ask a device that is to be added."""
    require_fresh_sign_in(request)
    operator, site = access.operator_of(request), ceremonies.site(request)
    options, state = passkeys.propose(operator, site)
    ceremonies.begin(request, ceremonies.ADDING, state)
    return _answer(options)


def _answer(options: Mapping[str, Any]) -> HttpResponse:
    return JsonResponse(dict(options))
