"""Single sign-on that is not configured: no code, no address, no button."""

from __future__ import annotations

import sys

import pytest
from django.test import Client

from inspector.access import sso

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/sso"), ("GET", "/sso/callback?code=x&state=y")]
)
def test_sso_addresses_are_not_found_when_unconfigured(
    client: Client, method: str, path: str
) -> None:
    assert client.generic(method, path).status_code == 404


def test_sso_is_neither_loaded_nor_offered_when_unconfigured(client: Client) -> None:
    assert sso.CLIENT not in sys.modules
    assert "/sso" not in client.get("/sign-in").content.decode()
