"""Content security policy: no screen asks the browser for a forbidden resource."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from inspector.web.middleware import POLICY
from memoryhub.services.access.api_keys import Agent
from tests.e2e.conftest import Watched
from tests.inspector.routes import list_routes, make_family, variants
from tests.inspector.web.test_looking import OFF, POSTED

#: Addresses of the API reference, and of a missing page.
BESIDE = ("/api/v1/docs", "/nothing", "/p/acme/nothing", "/p/nobody/")
#: Routes that send downloads, which show no page.
FILES = {"receipt-download", "messages-export", "slot-picture"}
#: Page state to wait for; panels that scripts fetch later are tested apart.
LOADED = "document.readyState === 'complete'"


@pytest.fixture
def known(agent: Agent) -> dict[str, str]:
    return make_family(agent, remembering=True)


def addresses(known: dict[str, str]) -> Iterator[str]:
    """List every readable screen and panel, with each choice of parameters."""
    for route in list_routes():
        if route.name in POSTED | OFF | FILES or "kind" in route.parameters:
            continue
        for choice in variants(route):
            yield route.fill({**known, **choice})
    yield from BESIDE


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_screen_violates_the_content_security_policy(
    known: dict[str, str], page: Page, watched: Watched
) -> None:
    """`watched` records every violation; some of the screens are error pages."""
    watched.expected.append("Failed to load resource")
    for address in addresses(known):
        answer = page.goto(address)
        assert answer is not None
        assert answer.headers["content-security-policy"] == POLICY, address
        page.wait_for_function(LOADED)
        assert watched.unexpected() == [], address


def test_content_security_policy_violation_would_be_seen(
    page: Page, watched: Watched
) -> None:
    watched.expected += ["policy: style-src-attr", "Content Security Policy"]
    with page.expect_console_message(lambda message: "policy: style" in message.text):
        page.evaluate("document.body.setAttribute('style', 'color: red')")
    assert any("policy: style" in problem for problem in watched.problems)
