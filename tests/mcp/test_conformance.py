"""The protocol's own conformance suite on a real server, in both eras.

Tools, resources and prompts that the suite calls by name are in `fixtures.py`.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.instances import UNLIMITED, Instance, Server, free_port
from tests.harness.npm import install_commands, read_output
from tests.promises.conftest import MAKE_KEY
from tools.conformance import SCORE

#: Scenarios that a revision requires of a server.
REQUIRED = {"2025-11-25": 30, "2026-07-28": 37}
#: Scenarios that the suite runs beside those, and that this server passes as well.
BESIDE = {
    "2025-11-25": {
        *("json-schema-2020-12", "server-session-lifecycle", "server-sse-polling"),
    },
    "2026-07-28": {
        *("http-custom-header-server-validation", "http-header-validation"),
        "json-schema-2020-12",
    },
}
#: Begin the names of scenarios of an extension that this server does not offer.
TASKS = "tasks-"


@pytest.fixture(scope="module")
def server(shared: Instance) -> Iterator[Server]:
    """Yield a server whose `/mcp` has the suite's fixtures."""
    key, port = shared.call(MAKE_KEY).strip(), free_port()
    function = "tests.mcp.serving:serve"
    with shared.start(function, port, key, **UNLIMITED) as process:
        shared.log.touch()
        server = Server(process, port=port)
        server.await_health(shared.log)
        yield server
        server.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("era", REQUIRED)
def test_server_passes_every_required_scenario(
    server: Server,
    tmp_path: Path,
    era: str,
    record_property: Callable[[str, object], None],
) -> None:
    commands = install_commands(Path(__file__).parent / "conformance")
    env = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    suite = (commands / "conformance", "server", "--requirements", era)
    listing = (commands / "conformance", "list", "--server", "--requirements", era)
    required = list_scenarios(read_output(*listing, cwd=tmp_path, env=env))
    assert len(required) == REQUIRED[era]

    url = f"{server.url}/mcp"
    read_output(*suite, "--url", url, "-o", tmp_path, cwd=tmp_path, env=env)

    found = {
        name: statuses
        for name, statuses in read_statuses(tmp_path).items()
        if not name.startswith(TASKS)
    }
    assert found.keys() == {*required, *BESIDE[era]}
    short = {name: found[name] - {"SUCCESS", "INFO"} for name in required}
    assert {name: statuses for name, statuses in short.items() if statuses} == {}
    assert [name for name in required if "SUCCESS" not in found[name]] == []
    assert [name for name in found if "FAILURE" in found[name]] == []
    record_property(SCORE, f"{era}: {len(required)} of {REQUIRED[era]}")


def list_scenarios(printed: str) -> list[str]:
    """List the server's scenarios; `list --server` prints those of clients as well."""
    scored = printed.partition("Server scenarios")[2].partition("Client scenarios")[0]
    return re.findall(r"^  - (\S+)", scored, re.MULTILINE)


def read_statuses(folder: Path) -> dict[str, set[str]]:
    """Read in which statuses the checks of each scenario ended."""
    found = defaultdict[str, set[str]](set)
    for path in folder.glob("server-*/checks.json"):
        name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]+$", "", path.parent.name)
        checks = json.loads(path.read_text(encoding="utf-8"))
        found[name] |= {check["status"] for check in checks}
    return found
