"""Signed-in operators whose browser, Django's test client, runs no scripts."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
import time_machine
from django.conf import settings
from django.test import Client
from django.utils import timezone

from inspector.access import passkeys, sign_in, sso
from inspector.live import rendered_panels
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, sockets

Browser = Callable[[str], Client]
SPACES = re.compile(r"(?s)(<(?:pre|textarea)\b.*?</(?:pre|textarea)\s*>)|\s+(/?>)|\s+")
RATE_LIMITS = (sign_in.link_limit, passkeys.challenge_limit, sso.begin_limit)


@pytest.fixture(autouse=True)
def nobody_has_tried() -> Iterator[None]:
    for each in RATE_LIMITS:
        each.forget()
    yield
    for each in RATE_LIMITS:
        each.forget()


@pytest.fixture
def one_minute() -> Iterator[None]:
    """Stop the clock, so that only the first read of a thread is audited."""
    with time_machine.travel(timezone.now(), tick=False):
        yield


class PageReader(Client):
    """Test client that reads pages as drawn: line breaks of the source don't matter."""

    def request(self, **request: Any) -> Any:
        answer = super().request(**request)
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            answer.content = collapse_spaces(answer.content.decode()).encode()
        return answer


def collapse_spaces(page: str) -> str:
    """Collapse white space to one space, none at a tag's end; spare kept spaces."""
    return SPACES.sub(lambda found: found[1] or found[2] or " ", page)


def signed_in(operator: Operator) -> Client:
    """Return a client with a session of the operator."""
    client = PageReader()
    client.cookies[settings.SESSION_COOKIE_NAME] = sockets.sign_in(operator)
    return client


@pytest.fixture
def browser(acme: Project) -> Browser:
    """Return a browser of an operator with this role in acme."""

    return lambda role: signed_in(make_member(acme, role))


def make_member(project: Project, role: str) -> Operator:
    """Return the project's operator of this role, whose name is the role."""
    operator = operators.find(role) or operators.add(role)
    operators.set_role(project, operator, role)
    return operator


@pytest.fixture
def owner(browser: Browser) -> Client:
    return browser("owner")


@pytest.fixture
def viewer(acme: Project, browser: Browser) -> Client:
    """Sign in a viewer beside an owner, whom a project needs first."""
    make_member(acme, "owner")
    return browser("viewer")


# Pages that are open before a running server


@pytest.fixture
def thread(agent: Agent) -> Thread:
    factories.append(agent, "t-1", "one", "two")
    return factories.get_thread(agent)


@pytest.fixture
def operator(acme: Project) -> Operator:
    made = operators.add("olga")
    operators.set_role(acme, made, Membership.Role.VIEWER)
    return made


@pytest.fixture
def session(operator: Operator) -> str:
    return sockets.sign_in(operator)


@pytest_asyncio.fixture
async def served(thread: Thread, session: str) -> AsyncIterator[None]:
    async with sockets.serving():
        yield


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """List the threads whose panels were rendered; rendering itself is real."""
    seen: list[UUID] = []
    render = rendered_panels.render

    def render_counted(thread: UUID, names: set[str]) -> rendered_panels.RenderedPanels:
        seen.append(thread)
        return render(thread, names)

    monkeypatch.setattr(rendered_panels, "render", render_counted)
    return seen
