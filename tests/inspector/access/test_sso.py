"""Where single sign-on is not configured there is none of it."""

from __future__ import annotations

import sys

import pytest
from django.test import Client

from inspector.access import sso

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/sso"), ("GET", "/sso/callback?code=x&state=y")]
)
def test_its_addresses_lead_nowhere(client: Client, method: str, path: str) -> None:
    assert client.generic(method, path).status_code == 404


def test_nothing_of_it_is_loaded_or_offered(client: Client) -> None:
    assert sso.CLIENT not in sys.modules
    assert "/sso" not in client.get("/sign-in").content.decode()
