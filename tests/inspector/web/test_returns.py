"""Returns from the sign-in: each request leads back to a page that opens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from inspector.access import sign_in
from inspector.access.access import SIGNED_IN
from inspector.web import returns
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.inspector.conftest import Browser
from tests.inspector.routes import Route, list_routes, make_family, variants

pytestmark = pytest.mark.django_db

OF_PROJECTS = [
    each
    for each in list_routes()
    if "project" in each.parameters or each.name == "project-new"
]
#: Routes that require a recent sign-in before any effect.
SUDO = {
    *("settings", "api-key-new", "api-key-rotate", "api-key-revoke"),
    "connect-key",
    *("project-new", "member-new", "member"),
    *("subject-look-up", "subject-readmit", "subject-reveal", "subject-export"),
    *("subject-restrict", "subject-unrestrict", "subject-hold", "forget"),
    *("erasure-confirm", "erasure-cancel", "hold-lift", "tombstones"),
    *("erasure-needles", "erasure-keep-out"),
}


@pytest.fixture
def known(agent: Agent) -> dict[str, str]:
    return make_family(agent, remembering=True)


def paths(route: Route, known: dict[str, str]) -> list[str]:
    return [route.fill({**known, **chosen}) for chosen in variants(route)]


def back_of(answer: Any) -> str:
    """Return the address that the sign-in page leads on to."""
    where = urlsplit(str(answer.headers["Location"]))
    assert where.path == "/sign-in"
    (back,) = parse_qs(where.query)["next"]
    return back


def old(client: Client) -> Client:
    session = client.session
    session[SIGNED_IN] = (timezone.now() - timedelta(minutes=61)).isoformat()
    session.save()
    return client


def test_each_post_only_route_links_to_a_page(
    browser: Browser, known: dict[str, str]
) -> None:
    """The answer has words and a link that opens, and is the same for every visitor."""
    client, deaf = browser("owner"), set()
    for route in list_routes():
        for path in paths(route, known):
            answer: Any = Client().get(path)
            if answer.status_code != 405:
                continue
            deaf.add(route.name)
            page, where = answer.content.decode(), returns.find_page(path)
            assert answer.headers["Allow"] == "POST"
            assert "accepts only a sent form" in page, path
            assert f'href="{where}">Open that page' in page, path
            assert client.get(where).status_code == 200, path
    assert deaf == returns.PAGES.keys()


def test_sign_in_after_an_old_session_returns_to_a_page(
    browser: Browser, known: dict[str, str]
) -> None:
    client, visited = browser("owner"), set()
    for route in OF_PROJECTS:
        for path in paths(route, known):
            answer = old(client).post(path)
            if "why=old" not in answer.headers.get("Location", ""):
                continue
            visited.add(route.name)
            signed_in_again(client, back_of(answer))
            # The request had no effect; the page opens.
            assert client.get(back_of(answer)).status_code == 200, path
    assert visited >= SUDO


def signed_in_again(client: Client, back: str) -> None:
    operator = operators.find("owner")
    assert operator is not None
    sign_in.link_limit.forget()
    link = f"/sign-in/{operators.make_link(operator)}"
    answer = client.post(link, {"next": back})
    assert answer.headers["Location"] == back


def test_sign_in_without_a_session_returns_to_a_page(
    browser: Browser, known: dict[str, str]
) -> None:
    client = browser("owner")
    for route in OF_PROJECTS:
        for path in paths(route, known):
            answer = Client().post(path)
            if answer.status_code == 302:
                assert client.get(back_of(answer)).status_code == 200, path


def test_page_asked_for_before_sign_in_keeps_its_query(agent: Agent) -> None:
    answer = Client().get("/p/acme/threads?q=a")
    assert back_of(answer) == "/p/acme/threads?q=a"
