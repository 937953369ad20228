"""Table of ways in and their judges, for the README: `python -m tools.conformance`.

Runs the test of each row against a real server; a row stands only if its test passed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from tools.docs import put

ROOT = Path(__file__).resolve().parent.parent
#: Property of a test's report: the score that its judge gave.
SCORE = "conformance"
#: The newest kind of report has no properties of a test.
_KIND = ("-o", "junit_family=xunit1", "-p", "no:randomly")


class WayIn(NamedTuple):
    """A row: its test, and the packages that judge it, with words about the verdict."""

    name: str
    test: str
    judges: tuple[str, ...]
    about: str
    #: Verdict of a judge that counts nothing.
    verdict: str = ""


WAYS = (
    WayIn(
        "MCP, both eras of the protocol",
        "tests/mcp/test_conformance.py",
        ("@modelcontextprotocol/conformance",),
        "each scenario that a revision requires of a server",
    ),
    WayIn(
        "LangGraph checkpointer, sync and async",
        "tests/client/test_langgraph.py::test_saver_passes_the_conformance_suite",
        ("langgraph-checkpoint-conformance",),
        "each capability detected and passed",
    ),
    WayIn(
        "LangGraph store",
        "tests/client/test_langgraph_store.py",
        ("langgraph-checkpoint", "langgraph-checkpoint-sqlite"),
        "random batches beside both stores",
        "equal, but for what the module names",
    ),
    WayIn(
        "Agent Protocol, threads and store",
        "tests/compat/test_agent_protocol.py",
        ("langgraph-sdk",),
        "its own client, beside a graph and the store above",
        "works unchanged, but for what needs a graph",
    ),
    WayIn(
        "Anthropic's memory tool",
        "tests/client/test_anthropic_memory.py",
        ("anthropic",),
        "random commands beside the SDK's tool for local files",
        "equal texts and errors, but for what the module names",
    ),
    WayIn(
        "OpenAI's Agents SDK",
        "tests/client/test_frameworks.py",
        (),
        "openai-agents 0.24: random steps beside its SQLiteSession",
        "equal, but for what the module names",
    ),
    WayIn(
        "TypeScript client, generated",
        "tests/client/test_typescript.py",
        ("openapi-typescript", "typescript"),
        "packed, type-checked, run against a server",
        "no warning, no error",
    ),
    WayIn(
        "Pydantic AI's conversation store",
        "tests/client/test_pydantic_history.py",
        ("pydantic-ai-slim",),
        "random scripts beside its store in memory",
        "equal, but for what the module names",
    ),
    WayIn(
        "Google ADK's session service",
        "tests/client/test_frameworks.py",
        # In an environment of its own.
        (),
        "google-adk 2.13: random scripts beside its service in memory",
        "equal, but for what the module names",
    ),
)


def main() -> int:
    rows = "".join(f"{build_row(way)}\n" for way in WAYS)
    head = "| way in | judged by | result |\n|---|---|---|\n"
    put(ROOT / "README.md", head + rows)
    return 0


def build_row(way: WayIn) -> str:
    """Run the test of a way in and return its row. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                way.test,
                f"--junitxml={report}",
                *_KIND,
            ],
            cwd=ROOT,
            check=True,
        )
        found = ET.parse(report).iter("property")  # noqa: S314  # our own
        scores = [each.get("value", "") for each in found if each.get("name") == SCORE]
    judges = ", ".join(f"{name} {find_version(name)}" for name in way.judges)
    judged = f"{judges}: {way.about}" if judges else way.about
    verdict = "; ".join(dict.fromkeys(scores)) or way.verdict
    return f"| {way.name} | {judged} | {verdict} |"


def find_version(package: str) -> str:
    """Return the version that is pinned for npm, or installed."""
    for folder in ("tests/mcp/conformance", "clients/typescript"):
        lock = (ROOT / folder / "package-lock.json").read_text(encoding="utf-8")
        pinned = json.loads(lock)["packages"].get(f"node_modules/{package}")
        if pinned:
            return str(pinned["version"])
    return version(package)


if __name__ == "__main__":
    sys.exit(main())
