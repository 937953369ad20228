from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from inspector.access import sign_in
from inspector.access.backends import NOBODY
from inspector.web import shell
from inspector.web.methods import require_post
from inspector.web.rate_limit import RateLimit
from memoryhub.errors import NotFoundError
from memoryhub.models.access.operators import Operator

#: Module that is loaded by name where single sign-on is configured.
CLIENT = "inspector.access.providers"
#: Sign-ins begun with the provider, per address and minute.
begin_limit = RateLimit(allowed=20)


@require_post
@sign_in.answer_refusals
def begin(request: HttpRequest) -> HttpResponse:
    """Show a page that goes on to the provider by itself.

    No redirect: the content policy lets our forms lead only to this server.
    """
    client = _load_client()
    if not begin_limit.count_attempt(request.META.get("REMOTE_ADDR", "")):
        return sign_in.render_form(request, problem="tries", status=429)
    purpose, onward = sign_in.parse_purpose(request), sign_in.parse_next_page(request)
    try:
        address = client.begin(request, purpose=purpose, next_page=onward)
    except OSError:
        address = None
    if address is None:
        return sign_in.render_form(request, problem="away", status=503)
    issuer = urlsplit(settings.SSO_ISSUER).hostname
    context = {"address": address, "issuer": issuer}
    answer = shell.render_page(request, "inspector/access/sign_in/sso.html", context)
    answer.headers["Refresh"] = f"0; url={address}"
    return answer


@require_GET
@sign_in.answer_refusals
def receive_callback(request: HttpRequest) -> HttpResponse:
    """Sign in the operator whom the provider sends back."""
    client = _load_client()
    try:
        came = client.finish(request)
    except OSError:
        return sign_in.render_form(request, problem="away", status=503)
    credentials = {"username": NOBODY, "identity": came and came.identity}
    answer = sign_in.admit(request, partial(dict, credentials), problem="sso")
    if isinstance(answer, Operator):
        return sign_in.begin_session(
            request, answer, purpose=came.purpose, onward=came.next_page
        )
    return answer


def _load_client() -> Any:
    """Load the provider's module. Raises NotFoundError without single sign-on."""
    if not settings.SSO:
        raise NotFoundError
    return import_module(CLIENT)
