"""Requests of mem0's client as they were admitted, and answers to them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from memoryhub.api.errors import ProblemDocument
from memoryhub.errors import Refusal
from memoryhub.services.access.api_keys import Agent

PREFIX: Final = "/compat/mem0/"


class CompatRequest(NamedTuple):
    """A request that was admitted: its route, parameters, body and key."""

    method: str
    #: Parts of the path below the prefix, each unescaped.
    parts: tuple[str, ...]
    query: dict[str, str]
    body: Any
    agent: Agent
    authorization: str


class CompatAnswer(NamedTuple):
    """Status, JSON and headers of an answer."""

    status: int
    body: Any
    headers: dict[str, str]


def refuse(refusal: Refusal) -> CompatAnswer:
    """Build the answer of a refusal, in the members that mem0's client reads."""
    problem = ProblemDocument.from_refusal(refusal)
    body = {"detail": f"{problem.code}: {problem.detail}", "error": problem.code}
    return CompatAnswer(problem.status, body, dict(problem.headers))
