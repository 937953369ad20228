"""Environments of frameworks whose packages would move versions of the project's."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from tools import bootstrap

ROOT = Path(__file__).resolve().parent.parent.parent


@cache
def build_environment(folder: Path, needs: str) -> Path:
    """Make an environment with the client and an extra; return its Python.

    A later call with the same arguments returns the environment that is there.
    """
    uv, venv = bootstrap.find_uv(), folder / needs
    subprocess.run([uv, "venv", "-q", venv], check=True)
    python = venv / "bin" / "python"
    install = [uv, "pip", "install", "-q", "--python", python]
    wanted = [f"{ROOT}/{needs}", "hypothesis>=6.170,<7"]
    subprocess.run([*map(str, install), *wanted], check=True)
    return python
