"""Single sign-on by OpenID Connect; loaded by name, only where it is configured.

django-allauth does discovery, the state that a browser brings back, PKCE and the
exchange of the code. This module checks the ID token (Core 1.0, section 3.1.3.7) with
its signature, though the token comes by a channel of our own. The server neither
creates nor queries allauth's tables. See decision 24.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.internal import statekit
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import (
    OpenIDConnectProvider,
)
from allauth.socialaccount.providers.openid_connect.views import (
    OpenIDConnectOAuth2Adapter,
)
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from inspector.access import provider_replies
from memoryhub.models.server.clock import clock
from memoryhub.services.access.identities import ProviderIdentity

ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
#: Seconds by which the provider's clock may differ from ours.
LEEWAY_SECONDS: Final = 60
_PROVIDER = "sso"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
#: Exceptions of parsers and checks of a provider's replies.
_BROKEN = (jwt.PyJWTError, OAuth2Error, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderReturn:
    """Identity that came back from the provider, with the purpose and the next page."""

    identity: ProviderIdentity
    purpose: str
    next_page: str


class Adapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # it has no types
    """allauth adapter whose requests are bounded, without proxy or redirects."""

    def get_requests_session(self) -> Any:
        session = super().get_requests_session()
        session.trust_env, session.max_redirects = False, 0
        session.request = partial(provider_replies.send_bounded, session.request)
        return session


class ProviderClient(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # it has no types
    """Client of the configured provider for one request."""

    def get_provider(self) -> Any:
        app = SocialApp(
            provider=OpenIDConnectProvider.id,
            provider_id=_PROVIDER,
            name="Single sign-on",
            client_id=settings.SSO_CLIENT_ID,
            secret=settings.SSO_CLIENT_SECRET,
            settings={
                "server_url": settings.SSO_ISSUER.rstrip("/"),
                "oauth_pkce_enabled": True,
                # The identity is all that we need.
                "scope": ["openid"],
            },
        )
        provider = OpenIDConnectProvider(self.request, app=app)
        provider.oauth2_adapter_class = type(self)
        return provider

    @cached_property
    def openid_config(self) -> dict[str, Any]:
        """Provider's discovery document. Raises ValueError if its issuer is another."""
        config: dict[str, Any] = super().openid_config
        if config["issuer"] != settings.SSO_ISSUER:
            raise ValueError
        scheme = urlsplit(settings.SSO_ISSUER).scheme
        if any(urlsplit(config[name]).scheme != scheme for name in _ENDPOINTS):
            raise ValueError
        return config

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        return request.build_absolute_uri(reverse("sso-callback"))


def begin(request: HttpRequest, *, purpose: str, next_page: str) -> str | None:
    """Return the provider's address for the browser; None for a broken provider.

    Raises OSError when the provider does not answer.
    """
    nonce = secrets.token_urlsafe(32)
    if not request.user.is_authenticated:
        request.session.set_expiry(statekit.STATE_TTL)
    try:
        answer = (
            ProviderClient(request, _PROVIDER)
            .get_provider()
            .redirect(
                request,
                "login",
                auth_params={"nonce": nonce, "max_age": settings.SUDO_MINUTES * 60},
                nonce=nonce,
                purpose=purpose,
                next_page=next_page,
            )
        )
    except _BROKEN:
        return None
    address: str = answer.headers.get("Location", "")
    return address if address.isascii() else None


def finish(request: HttpRequest) -> ProviderReturn | None:
    """Return the identity that came back to this browser; None for anything wrong.

    Raises OSError when the provider does not answer.
    """
    state = statekit.unstash_state(
        request, provider_id=_PROVIDER, state_id=request.GET.get("state", "")
    )
    if state is None or "code" not in request.GET:
        return None
    client = ProviderClient(request, _PROVIDER)
    app = client.get_provider().app
    try:
        answer = client.get_access_token_data(
            request,
            app,
            client.get_client(request, app),
            pkce_code_verifier=state["pkce_code_verifier"],
        )
        claims = _fetch_claims(answer["id_token"], client.openid_config["jwks_uri"])
        _check_claims(claims, nonce=state["nonce"])
        identity = ProviderIdentity(
            issuer=claims["iss"],
            subject=claims["sub"],
            strong=settings.SSO_MFA or "mfa" in [*claims.get("amr", ())],
        )
    except _BROKEN:
        return None
    return ProviderReturn(
        identity=identity, purpose=state["purpose"], next_page=state["next_page"]
    )


def _fetch_claims(token: str, keys_url: str) -> dict[str, Any]:
    """Fetch the provider's keys and verify an ID token; return its claims."""
    with get_adapter().get_requests_session() as session:
        response = session.get(keys_url)
        response.raise_for_status()
    keys = jwt.PyJWKSet.from_dict(response.json())
    claims: dict[str, Any] = jwt.decode(
        token,
        keys[jwt.get_unverified_header(token)["kid"]],
        algorithms=ALGORITHMS,
        audience=settings.SSO_CLIENT_ID,
        issuer=settings.SSO_ISSUER,
        leeway=LEEWAY_SECONDS,
        options={"require": ["iss", "sub", "aud", "exp", "iat"]},
    )
    return claims


def _check_claims(claims: dict[str, Any], *, nonce: str) -> None:
    """Check nonce, authorized party and age of a sign-in. Raises ValueError."""
    if not hmac.compare_digest(str(claims.get("nonce")).encode(), nonce.encode()):
        raise ValueError
    several = not isinstance(claims["aud"], str) and len(claims["aud"]) > 1
    if claims.get("azp", "" if several else settings.SSO_CLIENT_ID) != (
        settings.SSO_CLIENT_ID
    ):
        raise ValueError
    # The request named the greatest age of a sign-in; the claims give the true one.
    oldest = clock.time() - settings.SUDO_MINUTES * 60 - LEEWAY_SECONDS
    if claims.get("auth_time", oldest) < oldest:
        raise ValueError
