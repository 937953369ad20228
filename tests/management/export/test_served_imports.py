"""An import from another memory store beside a running server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.instances import Instance
from tests.promises.journal.clients import Client

pytestmark = pytest.mark.slow

AT = "2026-05-01T08:00:00+00:00"


def test_server_serves_blocks_and_messages_of_an_agent_file(
    instance: Instance, tmp_path: Path
) -> None:
    path = tmp_path / "iris.af"
    text = {"type": "text", "text": "When is low tide?"}
    message = {"role": "user", "content": [text], "created_at": AT}
    block = {"label": "human", "value": "Ann rows.", "read_only": True}
    agents = [{"id": "agent-0", "messages": [message]}]
    path.write_text(json.dumps({"agents": agents, "blocks": [block], "tools": [{}]}))
    words = ("import", path, "--project", "acme", "--user-id", "--json")
    instance.managed("create_project", "acme")
    key = instance.managed("create_key", "acme").strip()
    with instance.serve() as server, Client(server.port, key) as client:
        first, again = (instance.manage(*words, stdin="ann\n") for _ in range(2))
        assert (first.returncode, again.returncode) == (0, 0), first.stderr
        told = [json.loads(each.stdout) for each in (first, again)]
        counts = [(each["runs"], each["blocks"], each["present"]) for each in told]
        assert counts == [(1, 1, 0), (0, 0, 2)]
        assert told[0]["omitted"] == {"tools": 1}
        (human,) = client.get("/threads/iris:agent-0/blocks").body["items"]
        assert (human["text"], human["read_only"]) == ("Ann rows.", True)
        (slot,) = client.get("/threads/iris:agent-0/slots").body["items"]
        assert slot["content"] == {"content": [text], "created_at": AT, "role": "user"}
    assert "every chain is whole" in instance.managed("verify", "--all")
