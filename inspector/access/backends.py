from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.http import HttpRequest

from inspector.access import access
from memoryhub.models.access.operators import Operator
from memoryhub.services.access import identities, passkeys, second_factors
from memoryhub.services.access.identities import ProviderIdentity
from memoryhub.services.access.passkeys import PasskeySignIn

#: Username of no operator: stands for a missing name and for an impossible one.
NOBODY: Final = "?"


class PasskeyBackend(BaseBackend):
    """Sign-in by a passkey alone, whose device verified its holder: two factors."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        passkey: PasskeySignIn | None = None,
        **kwargs: Any,
    ) -> Operator | None:
        if passkey is None or not passkey.verified:
            return None
        operator = passkey.operator
        return operator if username in {NOBODY, operator.username} else None


class Sso(BaseBackend):
    """Sign-in by a provider: one factor, as a password, or two if it checked two."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        identity: ProviderIdentity | None = None,
        **kwargs: Any,
    ) -> Operator | None:
        found = identities.find(identity) if identity else None
        if identity is None or found is None or request is None:
            return None
        return found if identity.strong or _is_password_enough(request, found) else None


class Password(ModelBackend):
    """Sign-in by name, password and the second factor of an operator who needs one.

    Every failure gets the same refusal and is counted alike, so that nobody learns
    which of the two factors was wrong.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        code: str = "",
        passkey: PasskeySignIn | None = None,
        **kwargs: Any,
    ) -> Operator | None:
        found = super().authenticate(request, username, password, **kwargs)
        if request is None or not isinstance(found, Operator):
            return None
        if passkey is not None:
            return found if passkey.operator == found else None
        if second_factors.has_factor(found):
            return found if second_factors.use_code(found, code) else None
        return found if _is_password_enough(request, found) else None


def _is_password_enough(request: HttpRequest, operator: Operator) -> bool:
    """Tell whether one factor may sign the operator in.

    An operator who has a second factor always needs the factor. From another machine,
    without ALLOW_PASSWORD_ONLY, an operator who may erase needs a second factor, too.
    """
    if second_factors.has_factor(operator) or passkeys.has_passkey(operator):
        return False
    if settings.ALLOW_PASSWORD_ONLY or access.is_local_request(request):
        return True
    return not second_factors.needs_factor(operator)
