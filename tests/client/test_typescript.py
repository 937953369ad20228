"""The TypeScript client: built, packed, installed, run against a real server."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from memoryhub import __version__, distribution
from tests.harness.instances import Server
from tests.harness.npm import read_output
from tools import typescript

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "typescript_client.ts"
USES = Path(__file__).with_name("typescript_uses.ts")
CHECK = ("--strict", "--target", "ES2022", "--module", "NodeNext", "--noEmitOnError")
NODE_TYPES = ("--types", "node")
MINUTES = 300


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package and return the folder of a program that has it installed."""
    if shutil.which("npm") is None:
        pytest.skip("There is no npm; `.ci/run` installs it.")
    built = tmp_path_factory.mktemp("typescript")
    package = typescript.build_package(built)
    # The package's own dependency is found one folder up, as npm would hoist it.
    folder = built / "program"
    installed = folder / "node_modules" / distribution.CLIENT_NAME
    with tarfile.open(package) as files:
        files.extractall(folder, filter="data")
    installed.parent.mkdir()
    (folder / "package").rename(installed)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    for name in (EXAMPLE, USES):
        shutil.copy(name, folder)
    tsc = built / "node_modules" / ".bin" / "tsc"
    read_output(tsc, *CHECK, *NODE_TYPES, EXAMPLE.name, USES.name, cwd=folder)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(2 * MINUTES)
def test_typescript_example_runs_against_a_server(
    program: Path, served: Server, key: str
) -> None:
    where = {"MEMORYHUB_URL": served.url, "MEMORYHUB_KEY": key}
    node = shutil.which("node") or "node"
    script = EXAMPLE.with_suffix(".js").name
    printed = read_output(node, script, cwd=program, env={**os.environ, **where})
    assert printed.splitlines() == [
        "Turn 1 has a request.",
        "The answer has index 1",
        "The answer has index 1",
        "404 not_found",
    ]
    refused = {**where, "MEMORYHUB_KEY": "mh_live_wrong"}
    with pytest.raises(AssertionError, match="HubError: 401 unauthorized: "):
        read_output(node, script, cwd=program, env={**os.environ, **refused})


@pytest.mark.slow
@pytest.mark.timeout(2 * MINUTES)
def test_typescript_package_holds_its_build_alone(program: Path) -> None:
    installed = program / "node_modules" / distribution.CLIENT_NAME
    names = {str(each.relative_to(installed)) for each in installed.rglob("*.*")}
    dist = {"dist/api.js", "dist/api.d.ts", "dist/index.js", "dist/index.d.ts"}
    assert names == {"README.md", "package.json", *dist}
    assert (installed / "LICENSE").is_file()


def test_typescript_package_has_the_name_and_version_of_the_client() -> None:
    text = (typescript.SOURCE / "package.json").read_text(encoding="utf-8")
    package = json.loads(text)
    assert package["name"] == distribution.CLIENT_NAME
    assert package["version"] == __version__


def test_typescript_example_is_short() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 60
