"""Frameworks that run in environments of their own, with a real server.

Their packages would move versions of the project's own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness.environments import build_environment
from tests.harness.instances import Server

ROOT = Path(__file__).resolve().parent.parent.parent


class FrameworkScript(NamedTuple):
    """A judge or an example, the framework that it needs, and what it prints."""

    path: str
    needs: str
    prints: tuple[str, ...] = ()
    #: Whether other lines come before.
    begins: bool = False


ADK, AGENTS = "memoryhub_client[adk]", "memoryhub_client[openai-agents]"
SCRIPTS = (
    FrameworkScript("tests/client/adk/differential.py", ADK),
    FrameworkScript(
        "examples/adk_agent.py",
        ADK,
        (
            "It is at the depot.",
            "You asked: Where is my parcel?",
            "user Where is my parcel?",
            "helper It is at the depot.",
            "user What did I ask?",
            "helper You asked: Where is my parcel?",
        ),
    ),
    FrameworkScript(
        "examples/loop_gemini.py",
        ADK,
        (
            "  (pictures: 0, thoughts: 4, calls: 2, results: 2)",
            "> Which platform was it?",
            "It was platform 4.",
        ),
        begins=True,
    ),
    FrameworkScript("tests/client/openai_agents/differential.py", AGENTS),
    FrameworkScript(
        "examples/openai_agents_session.py",
        AGENTS,
        (
            *["Parcels here. You asked: Where is it?"] * 2,
            "user, function_call, function_call_output, message, user, message",
        ),
    ),
)


@pytest.fixture(scope="module")
def environments(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Path]:
    """Return a function that makes an environment with the client and an extra."""
    return partial(build_environment, tmp_path_factory.mktemp("environments"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.path)
def test_script_prints_its_lines(
    environments: Callable[[str], Path],
    served: Server,
    key: str,
    script: FrameworkScript,
    tmp_path: Path,
) -> None:
    env = {**os.environ, "MEMORYHUB_URL": served.url, "MEMORYHUB_KEY": key}
    env.pop("PYTHONPATH", None)
    printed = subprocess.check_output(
        [environments(script.needs), ROOT / script.path],
        env=env,
        cwd=tmp_path,
        text=True,
    )
    lines = printed.splitlines()
    before = len(lines) - len(script.prints) if script.begins else 0
    assert lines[before:] == [*script.prints]
    if script.path.startswith("examples/"):
        assert len((ROOT / script.path).read_text().splitlines()) <= 60
