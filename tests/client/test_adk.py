"""Google ADK's sessions and a real server, in an environment with ADK's packages."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.harness.instances import Server
from tools import bootstrap

ROOT = Path(__file__).resolve().parent.parent.parent
#: Judge and example: what each prints.
PRINTED = {
    "tests/client/adk/differential.py": [],
    "examples/adk_agent.py": [
        "It is at the depot.",
        "You asked: Where is my parcel?",
        "user Where is my parcel?",
        "helper It is at the depot.",
        "user What did I ask?",
        "helper You asked: Where is my parcel?",
    ],
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with the client and its extra `adk`."""
    folder, uv = tmp_path_factory.mktemp("adk"), bootstrap.find_uv()
    subprocess.run([uv, "venv", "-q", folder / "venv"], check=True)
    made: Path = folder / "venv" / "bin" / "python"
    wanted = [f"{ROOT}/memoryhub_client[adk]", "hypothesis>=6.170,<7"]
    subprocess.run([uv, "pip", "install", "-q", "--python", made, *wanted], check=True)
    return made


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", PRINTED)
def test_script_prints_its_lines(
    python: Path, served: Server, key: str, script: str, tmp_path: Path
) -> None:
    env = {**os.environ, "MEMORYHUB_URL": served.url, "MEMORYHUB_KEY": key}
    env.pop("PYTHONPATH", None)
    printed = subprocess.check_output(
        [python, ROOT / script], env=env, cwd=tmp_path, text=True
    )
    assert printed.splitlines() == PRINTED[script]
    assert len((ROOT / "examples/adk_agent.py").read_text().splitlines()) <= 60
