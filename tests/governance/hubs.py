"""Running hub as its users see it: agents, officers, operators' commands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from urllib.parse import quote, urlencode

from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES
from tests.harness.forks import Process
from tests.harness.instances import UNLIMITED, Instance, Server
from tests.promises.journal.clients import Answer, Client

#: An erasure of a few records is through long before.
FORGOTTEN_SECONDS = 60
#: What a schema gives bounds of, and no list.
_NUMBERED = {"level": range(4)}


#: Values that a parameter's schema lists, by the parameter's name.
Query = Mapping[str, Sequence[Any]]


@dataclass(slots=True, kw_only=True)
class Hub:
    """Instance, its server, and the keys that were made for it."""

    instance: Instance
    server: Server
    #: Slugs of the projects, by their names in the test.
    slugs: Mapping[str, str]
    #: Makes keys, asked one line each.
    maker: Process
    stack: ExitStack
    clients: list[Client] = field(default_factory=list)
    #: Of the API's own description, once it was read.
    paths: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def agent(self, project: str, user: str | None = None) -> Client:
        """Return a client whose key reads and writes; bound to a person if named."""
        return self.client(self.make_key(project, MEMORY_SCOPES, user))

    def officer(self, project: str) -> Client:
        """Return a client whose key exports and forgets, and sees no memory."""
        return self.client(self.make_key(project, SUBJECT_SCOPES[:2], None))

    def make_key(
        self, project: str, scopes: Sequence[str], user: str | None = None
    ) -> str:
        """Make a key in a lasting process: a command for each would take seconds."""
        assert self.maker.stdin is not None
        assert self.maker.stdout is not None
        self.maker.stdin.write(json.dumps([self.slugs[project], scopes, user]) + "\n")
        self.maker.stdin.flush()
        return self.maker.stdout.readline().strip()

    def client(self, key: str) -> Client:
        client = self.stack.enter_context(Client(self.server.port, key))
        self.clients.append(client)
        return client

    def restart(self) -> None:
        """Restart the server with the same data and port: clients go on."""
        self._stopped()

    def work(self, **env: str) -> None:
        """Run every kind of background work to its end; then the server goes on."""
        self._stopped("worker", "--once", **env)

    def rebuild(self) -> None:
        """Rebuild every row that repeats the journal."""
        self._stopped("rebuild")

    def _stopped(self, *command: str, **env: str) -> None:
        port = self.server.port
        self.server.stop()
        if command:
            self.instance.managed(*command, **env)
        self.server = self.stack.enter_context(
            self.instance.serve(port=port, **UNLIMITED)
        )
        for client in self.clients:
            client.line.close()

    def reads(self, client: Client) -> list[tuple[str, Query]]:
        """Return every GET of the API's own description: its path and parameters."""
        if not self.paths:
            described = client.get("/openapi.json").body
            self.paths = described["paths"]
            self.parameters = described["components"]["parameters"]
        return [
            (path.removeprefix("/api/v1"), _query(ways, self.parameters))
            for path, ways in self.paths.items()
            if "get" in ways
        ]

    def everything(self, client: Client, names: KnownNames) -> str:
        """Return all that any read tells of the known names, now and as of any seq."""
        texts = []
        for path, query in self.reads(client):
            for filled in names.fill(path):
                for query_text in _queries(query, names.seqs):
                    answer = client.get(filled + query_text)
                    assert answer.status < 500, (filled, query_text, answer.body)
                    texts.append(json.dumps(answer.body, ensure_ascii=False))
        return "\n".join(texts)

    def forget(self, officer: Client, user: str, **scope: Any) -> dict[str, Any]:
        """Plan, confirm, and wait until the erasure is complete; return the receipt."""
        subject = officer.post("/subjects:resolve", {"user_id": user}).body["id"]
        wish = {"scope": "subject", "reason": "consent_withdrawn", **scope}
        plan = officer.post(f"/subjects/{subject}/erasures", wish)
        assert plan.status == 201, plan.body
        erasure = plan.body["id"]
        named = {name: plan.body[name] for name in ("plan_token", "count")}
        confirmed = officer.post(f"/erasures/{erasure}:confirm", named)
        assert confirmed.status == 202, confirmed.body
        return self.completed(officer, erasure)

    def completed(self, officer: Client, erasure: str) -> dict[str, Any]:
        until, state = time.monotonic() + FORGOTTEN_SECONDS, {}
        while time.monotonic() < until:
            state = officer.get(f"/erasures/{erasure}").body
            if state["state"] == "complete":
                receipt = officer.get(f"/erasures/{erasure}/receipt")
                assert receipt.status == 200, receipt.body
                body: dict[str, Any] = receipt.body
                return body
            time.sleep(0.05)
        raise AssertionError(f"not complete in {FORGOTTEN_SECONDS} s: {state}")


@dataclass(slots=True, kw_only=True)
class KnownNames:
    """Names that somebody took down, for reads without any search."""

    thread: list[str] = field(default_factory=list)
    page_id: list[str] = field(default_factory=list)
    key: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    turn: list[str] = field(default_factory=list)
    checkpoint: list[str] = field(default_factory=list)
    subject: list[str] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)

    def fill(self, path: str) -> Iterator[str]:
        """Fill the path with every name in its places; none without such names."""
        places = [part[1:-1] for part in _list_places(path)]
        for names in product(*(getattr(self, place, []) for place in places)):
            filled = path
            for place, name in zip(places, names, strict=True):
                filled = filled.replace(f"{{{place}}}", quote(str(name), safe=""))
            yield filled


def _list_places(path: str) -> list[str]:
    return [
        "{" + part.split("}")[0].split(":")[-1] + "}" for part in path.split("{")[1:]
    ]


def _query(ways: Mapping[str, Any], parameters: Mapping[str, Any]) -> Query:
    found = {}
    for given in ways["get"]["parameters"]:
        name = given.get("$ref", "").rpartition("/")[2]
        each = parameters[name] if name else given
        if each["in"] == "query":
            named = each["name"]
            found[named] = _NUMBERED.get(named) or each["schema"].get("enum", ())
    return found


def _queries(query: Query, seqs: Sequence[int]) -> Iterator[str]:
    """Yield queries to try: none, and every switch at every value, as of each seq."""
    switched: list[dict[str, Any]] = [{}]
    switched += [{name: value} for name, values in query.items() for value in values]
    moments = [{}, *({"at_seq": seq} for seq in seqs if "at_seq" in query)]
    for moment in moments:
        for switch in switched:
            pairs = {**switch, **moment}
            yield f"?{urlencode(pairs)}" if pairs else ""


def ok(answer: Answer) -> Any:
    """Return the body of an answer that must be a success."""
    assert answer.status in (200, 201, 202), (answer.status, answer.body)
    return answer.body
