"""Operators with a browser that runs no scripts: Django's test client, signed in."""

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
    """Time stands still, so that only the first look at a thread is noted."""
    with time_machine.travel(timezone.now(), tick=False):
        yield


class PageReader(Client):
    """Reads a page as it is drawn: where its source breaks a line does not matter."""

    def request(self, **request: Any) -> Any:
        answer = super().request(**request)
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            answer.content = evened(answer.content.decode()).encode()
        return answer


def evened(page: str) -> str:
    """White space as one space, none at a tag's end, all where it is kept."""
    return SPACES.sub(lambda found: found[1] or found[2] or " ", page)


def signed_in(operator: Operator) -> Client:
    """A client with a session of the operator's."""
    client = PageReader()
    client.cookies[settings.SESSION_COOKIE_NAME] = sockets.sign_in(operator)
    return client


@pytest.fixture
def browser(acme: Project) -> Browser:
    """A browser of an operator with this role in acme."""

    return lambda role: signed_in(member(acme, role))


def member(project: Project, role: str) -> Operator:
    """The operator of this role, who is called like it."""
    operator = operators.find(role) or operators.add(role)
    operators.set_role(project, operator, role)
    return operator


@pytest.fixture
def owner(browser: Browser) -> Client:
    return browser("owner")


@pytest.fixture
def viewer(acme: Project, browser: Browser) -> Client:
    """Beside an owner: without one a project takes nobody else."""
    member(acme, "owner")
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
    """What was rendered; the rendering is the real one."""
    seen: list[UUID] = []
    render = rendered_panels.render

    def counted(thread: UUID, names: set[str]) -> rendered_panels.RenderedPanels:
        seen.append(thread)
        return render(thread, names)

    monkeypatch.setattr(rendered_panels, "render", counted)
    return seen
