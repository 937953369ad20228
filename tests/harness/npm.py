"""Commands of npm packages that a folder's lock file pins."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

SECONDS = 300


def read_output(
    *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> str:
    """Run a command, which must succeed; return its output."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def install_commands(source: Path) -> Path:
    """Install what `source` pins beside the environment; return the commands' folder.

    Nothing else changes: no script of a package runs, and npm's cache lies there too.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("There is no npm; `.ci/run` installs it.")
    digest = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()
    kept = Path(sys.prefix) / source.name
    folder = kept / digest[:16]
    # This file is written last, so that it marks a complete installation.
    done = folder / "done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--cache")
        read_output(npm, "ci", *quiet, kept / "cache", cwd=folder)
        done.touch()
    return folder / "node_modules" / ".bin"
