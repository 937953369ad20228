"""Operators with a browser that runs no scripts: Django's test client, signed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from inspector.views import sign_in
from memoryhub.models.operators import Operator
from memoryhub.models.projects import Project
from memoryhub.services import operators

Browser = Callable[[str], Client]


@pytest.fixture(autouse=True)
def nobody_has_tried() -> Iterator[None]:
    for each in (sign_in.tries, sign_in.failures):
        each.forget()
    yield
    for each in (sign_in.tries, sign_in.failures):
        each.forget()


def signed_in(operator: Operator) -> Client:
    """A client that has used a link of the operator's."""
    client = Client()
    token = operators.make_link(operator)
    assert client.post(f"/sign-in/{token}").status_code == 302
    return client


@pytest.fixture
def browser(acme: Project) -> Browser:
    """A browser of an operator with this role in acme."""

    def open_browser(role: str) -> Client:
        operator = operators.find(role) or operators.add(role)
        operators.set_role(acme, operator, role)
        return signed_in(operator)

    return open_browser


@pytest.fixture
def owner(browser: Browser) -> Client:
    return browser("owner")


@pytest.fixture
def viewer(browser: Browser) -> Client:
    browser("owner")
    return browser("viewer")
