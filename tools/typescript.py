"""Builder of the TypeScript client's package: `make typescript`, which needs npm.

Writes dist/agent-memoryhub-client-VERSION.tgz. Generated types are not kept in the
repository: they follow from the OpenAPI document.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "clients" / "typescript"
SECONDS = 300
#: A field of a body that has a default need not be sent.
OPTIONAL = ("--default-non-nullable", "false")


def main() -> int:
    if shutil.which("npm") is None:
        sys.exit("Install npm with Node 20 or newer, then try again.")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    django.setup()
    (ROOT / "dist").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = shutil.copy(build_package(Path(folder)), ROOT / "dist")
    sys.stdout.write(f"{made}\n")
    return 0


def build_package(folder: Path) -> Path:
    """Build the package in an empty folder and return its file.

    Raises CalledProcessError, and ValueError if the generator warns.
    """
    unneeded = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(SOURCE, folder, ignore=unneeded, dirs_exist_ok=True)
    shutil.copy(ROOT / "LICENSE", folder)
    document = json.dumps(import_module("memoryhub.api").api.get_openapi_schema())
    (folder / "openapi.json").write_text(document, encoding="utf-8")
    tools = folder / "node_modules" / ".bin"
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
    generate = (tools / "openapi-typescript", "openapi.json", "-o", "src/api.ts")
    printed = run(*generate, *OPTIONAL, cwd=folder)
    if "warn" in printed.lower():
        raise ValueError(printed)
    run(tools / "tsc", cwd=folder)
    run("npm", "pack", "--ignore-scripts", cwd=folder)
    (package,) = folder.glob("*.tgz")
    return package


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command and return its output. Raises CalledProcessError."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stdout)
        done.check_returncode()
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
