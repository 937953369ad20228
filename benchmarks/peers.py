"""Peers: others that keep agents' messages or pages, in an environment of their own.

They are not dependencies of the project: what is named here is fetched from PyPI into
`.tools/peers` when a benchmark first needs it, and runs in processes of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.hubs import ROOT
from benchmarks.rounds import Sample

REQUIREMENTS = (
    "langgraph-checkpoint-sqlite==3.1.2",
    "openai-agents==0.24.0",
    "chuk-ai-session-manager==0.11.2",
)
ENVIRONMENT = ROOT / ".tools" / "peers"
PYTHON = ENVIRONMENT / "bin" / "python"
_INSTALLED = ENVIRONMENT / "installed.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Size of all messages in a store."""

    sample: Sample
    size: int


def installed() -> bool:
    """Install the peers unless they are; return False, with one line, if impossible."""
    wanted = "\n".join(REQUIREMENTS)
    if _INSTALLED.is_file() and _INSTALLED.read_text(encoding="utf-8") == wanted:
        return True
    print(f"Installing {', '.join(REQUIREMENTS)} for comparison …", flush=True)
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    try:
        for command in _commands():
            subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as failure:
        told = getattr(failure, "stderr", "")
        print(f"No peers, so nothing is compared: {failure}\n{told}", flush=True)
        return False
    _INSTALLED.write_text(wanted, encoding="utf-8")
    return True


def store(script: str, messages: Path, database: Path, *options: str) -> Stored:
    """Have a peer write the messages to a new database, timed by itself."""
    told = run(script, str(messages), str(database), *options)
    files = database.parent.glob(f"{database.name}*")
    return Stored(
        sample=Sample(
            requests=told["messages"],
            seconds=told["seconds"],
            cpu_seconds=told["cpu_seconds"],
        ),
        size=sum(path.stat().st_size for path in files),
    )


def run(script: str, *arguments: str) -> dict[str, Any]:
    """Run a script in the peers' environment; return the JSON that it prints."""
    program = Path(__file__).with_name(script)
    done = subprocess.run(
        # Not our folder on its path: the peers have modules of any name.
        [str(PYTHON), "-P", str(program), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _commands() -> list[list[str]]:
    """Return the commands that make the environment, by uv or else by this Python."""
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv:
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(ENVIRONMENT)]
        fill = [uv, "pip", "install", "--quiet", "--python", str(PYTHON)]
    else:
        make = [sys.executable, "-m", "venv", str(ENVIRONMENT)]
        fill = [str(PYTHON), "-m", "pip", "install", "--quiet"]
    return [make, [*fill, *REQUIREMENTS]]
