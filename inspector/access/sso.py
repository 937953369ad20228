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

#: What is loaded by name, where single sign-on is configured.
CLIENT = "inspector.access.providers"
#: Errands to the provider for one address in a minute.
begin_limit = RateLimit(allowed=20)


@require_post
@sign_in.or_refused
def begin(request: HttpRequest) -> HttpResponse:
    """Show a page that goes on to the provider by itself.

    Not a redirect: forms of ours may lead to ourselves alone.
    """
    client = _client()
    if not begin_limit.take(request.META.get("REMOTE_ADDR", "")):
        return sign_in.form(request, problem="tries", status=429)
    purpose, onward = sign_in.chosen_purpose(request), sign_in.next_page(request)
    try:
        address = client.begin(request, purpose=purpose, next_page=onward)
    except OSError:
        address = None
    if address is None:
        return sign_in.form(request, problem="away", status=503)
    issuer = urlsplit(settings.SSO_ISSUER).hostname
    context = {"address": address, "issuer": issuer}
    answer = shell.page(request, "inspector/access/sign_in/sso.html", context)
    answer.headers["Refresh"] = f"0; url={address}"
    return answer


@require_GET
@sign_in.or_refused
def callback(request: HttpRequest) -> HttpResponse:
    """Admit whom the provider sends back."""
    client = _client()
    try:
        came = client.finish(request)
    except OSError:
        return sign_in.form(request, problem="away", status=503)
    credentials = {"username": NOBODY, "identity": came and came.identity}
    answer = sign_in.admit(request, partial(dict, credentials), problem="sso")
    if isinstance(answer, Operator):
        return sign_in.enter(
            request, answer, purpose=came.purpose, onward=came.next_page
        )
    return answer


def _client() -> Any:
    """Load the module that speaks to the provider. Raises NotFoundError without one."""
    if not settings.SSO:
        raise NotFoundError
    return import_module(CLIENT)
