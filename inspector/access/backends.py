from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.http import HttpRequest

from inspector.access import access
from memoryhub.models.access.operators import Operator
from memoryhub.services.access import identities, passkeys, second_factors
from memoryhub.services.access.identities import ProviderIdentity
from memoryhub.services.access.passkeys import Shown

#: Stands for no name, and for what can be nobody's: no operator can have it.
NOBODY: Final = "?"


class Passkey(BaseBackend):
    """Admit by a passkey alone, whose device made sure who holds it: two factors."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        passkey: Shown | None = None,
        **kwargs: Any,
    ) -> Operator | None:
        if passkey is None or not passkey.verified:
            return None
        operator = passkey.operator
        return operator if username in {NOBODY, operator.username} else None


class Sso(BaseBackend):
    """Admit whom a provider names: as by a password, or two factors if it had two."""

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
        return found if identity.strong or _enough(request, found) else None


class Password(ModelBackend):
    """Admit by name, password and, for who has or needs one, a second factor.

    All that is wrong is one refusal: it is counted, and looks, alike.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        code: str = "",
        passkey: Shown | None = None,
        **kwargs: Any,
    ) -> Operator | None:
        found = super().authenticate(request, username, password, **kwargs)
        if request is None or not isinstance(found, Operator):
            return None
        if passkey is not None:
            return found if passkey.operator == found else None
        if second_factors.exists(found):
            return found if second_factors.accepts(found, code) else None
        return found if _enough(request, found) else None


def _enough(request: HttpRequest, operator: Operator) -> bool:
    """Tell whether one factor does: not for who has a second one, wherever they are.

    Nor for who may erase, where others could try.
    """
    if second_factors.exists(operator) or passkeys.exists(operator):
        return False
    if settings.ALLOW_PASSWORD_ONLY or access.near(request):
        return True
    return not second_factors.wanted(operator)
