"""Requests of other products' clients as they were admitted, and answers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from memoryhub.api.errors import ProblemDocument
from memoryhub.errors import Refusal
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.services.access.api_keys import Agent


class CompatRequest(NamedTuple):
    """A request that was admitted: its route, parameters, body and key."""

    method: str
    #: Parts of the path below the prefix, each unescaped.
    parts: tuple[str, ...]
    query: dict[str, str]
    #: The query with repeated names.
    pairs: list[tuple[str, str]]
    body: Any
    agent: Agent
    authorization: str
    #: User id of the person that the request is confined to, if any.
    person: str | None
    prefer: str


class CompatAnswer(NamedTuple):
    """Status, JSON and headers of an answer."""

    status: int
    body: Any
    headers: dict[str, str]


class ClientDialect(NamedTuple):
    """Address of a client's routes, its way to send a key, and to read a refusal."""

    prefix: str
    #: Module and class of the server.
    server: tuple[str, str]
    #: Header of the key, and what stands before the key.
    header: bytes
    scheme: str
    build_problem: Callable[[str, str], dict[str, Any]]
    #: Status of a text that is no JSON.
    invalid: int

    def get_authorization(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the key as the API takes it; empty if there is none."""
        sent = headers.get(self.header, b"").decode("latin-1")
        if not sent:
            return headers.get(b"authorization", b"").decode("latin-1")
        if not sent.lower().startswith(self.scheme):
            return sent
        return f"Bearer {sent[len(self.scheme) :].strip()}"

    def refuse(self, refusal: Refusal) -> CompatAnswer:
        """Build the answer of a refusal, in the members that the client reads."""
        problem = ProblemDocument.from_refusal(refusal)
        body = self.build_problem(problem.code, problem.detail)
        is_invalid = isinstance(refusal, JsonRefusedError) and problem.status == 400
        status = self.invalid if is_invalid else problem.status
        return CompatAnswer(status, body, dict(problem.headers))


MEM0: Final = ClientDialect(
    "/compat/mem0/",
    ("memoryhub.compat.mem0", "Mem0Server"),
    b"authorization",
    "token ",
    lambda code, words: {"detail": f"{code}: {words}", "error": code},
    400,
)
# LangGraph's SDK reads `message`; both members are the protocol's ErrorResponse.
AGENT_PROTOCOL: Final = ClientDialect(
    "/compat/agent-protocol/",
    ("memoryhub.compat.agent_protocol", "AgentProtocolServer"),
    b"x-api-key",
    "",
    lambda code, words: {"code": code, "message": f"{code}: {words}"},
    422,
)
DIALECTS: Final = (MEM0, AGENT_PROTOCOL)
