"""Names, folders and command of this copy, by how it was installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

#: Name on the package index. `memoryhub` there is a stranger's package.
NAME: Final = "agent-memoryhub"
#: Name of the client on the package index, and of the TypeScript client on npm.
CLIENT_NAME: Final = "agent-memoryhub-client"

_PACKAGE: Final = Path(__file__).resolve().parent
#: A wheel holds templates and static files in the package; a checkout beside it.
IS_INSTALLED: Final = (_PACKAGE / "templates").is_dir()
FILES_DIR: Final = _PACKAGE if IS_INSTALLED else _PACKAGE.parent
#: The command as a person here types it.
PROGRAM: Final = "memoryhub" if IS_INSTALLED else "manage.py"
#: Folder of data if MEMORYHUB_DATA is unset. An installed command runs from any folder,
#: and must find the same memory from each.
DATA_DIR: Final = Path.home() / ".memoryhub" if IS_INSTALLED else Path("var")
#: Folder of the demo's data.
DEMO_DIR: Final = DATA_DIR / "demo" if IS_INSTALLED else Path(".memoryhub") / "demo"


def describe_extra(extra: str) -> str:
    """Return the command that adds an extra to this copy."""
    if IS_INSTALLED:
        return f"pip install '{NAME}[{extra}]'"
    return f"uv sync --inexact --extra {extra}"


def build_command() -> str:
    """Return the command as a shell takes it, from the folder of now."""
    return PROGRAM if IS_INSTALLED else f"{sys.executable} {PROGRAM}"


def is_help(argv: list[str]) -> bool:
    """Return whether a command line only asks for help, which needs no data folder."""
    return argv[1:2] == ["help"] or not {"--help", "-h"}.isdisjoint(argv[1:])
