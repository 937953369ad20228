"""Wheel, and what deploys it: files, names and settings hold together and run."""

import configparser
import os
import re
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

from memoryhub import __version__, distribution
from memoryhub.settings import Environment
from tests.harness.instances import Server, free_port, instance
from tools import bootstrap

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"


def run(*words: object, **env: str) -> str:
    """Run a command outside of the checkout; return both its outputs."""
    # The tests' own folder of bytecode is not where an installation has its.
    left_out = {*bootstrap.OTHERS, "PYTHONPYCACHEPREFIX"}
    inherited = {k: v for k, v in os.environ.items() if k not in left_out}
    done = subprocess.run(
        [str(word) for word in words],
        cwd="/",
        env={**inherited, **env},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def build_wheel(project: Path, folder: Path) -> zipfile.ZipFile:
    """Build a wheel with the build backend that `deploy/install.sh` installs."""
    backend = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run([*map(str, backend)], cwd=project, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command that `deploy/install.sh` makes in an empty folder."""
    folder = tmp_path_factory.mktemp("installed")
    run("sh", DEPLOY / "install.sh", folder, UV=bootstrap.find_uv())
    return folder / "bin" / "memoryhub"


def test_install_compiles_modules_that_no_command_has_imported(program: Path) -> None:
    assert [*program.parents[1].rglob("commands/__pycache__/revoke_key.*.pyc")]


@pytest.mark.engines
def test_installed_command_serves_pages_files_and_api(
    program: Path, tmp_path: Path
) -> None:
    with instance(tmp_path) as made, made.log.open("wb") as log:
        assert run(program, "--version") == f"MemoryHub {__version__}\n"
        port = free_port()
        serve = [str(program), "serve", f"--port={port}"]
        process = subprocess.Popen(
            serve, cwd="/", env=made.env, stderr=log, stdout=log, text=True
        )
        server = Server(process, port=port)
        server.await_health(made.log)
        try:
            told = run(program, "create_project", "acme", **made.env)
            assert "Next: memoryhub create_key acme" in told
            key = run(program, "create_key", "acme", **made.env).split()
            (token,) = [word for word in key if word.startswith("mh_")]
            asked = urllib.request.Request(
                f"{server.url}/api/v1/threads/t",
                data=b"{}",
                headers={
                    "Authorization": f"Bearer {token}",
                    "Content-Type": "application/json",
                },
                method="PUT",
            )
            for target in (asked, f"{server.url}/static/css/base.css"):
                with urllib.request.urlopen(target) as answer:
                    assert answer.status in {200, 201}
            with urllib.request.urlopen(f"{server.url}/sign-in") as page:
                assert "memoryhub signin</pre>" in page.read().decode()
        finally:
            server.stop()


def test_installed_demo_starts_in_the_home_folder(
    program: Path, tmp_path: Path
) -> None:
    words = ("demo", "--port=0", "--for=1")
    told = run(program.with_name(distribution.NAME), *words, HOME=str(tmp_path))
    assert f"with its data in {tmp_path}/.memoryhub/demo" in told
    assert "memoryhub signin" in told


def test_wheel_holds_every_file_of_the_product(tmp_path: Path) -> None:
    with build_wheel(ROOT, tmp_path) as wheel:
        held = set(wheel.namelist())
    folders = ("memoryhub", "inspector", "templates", "static")
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True
    )
    expected = {
        f"memoryhub/{name}" if name.startswith(("templates/", "static/")) else name
        for name in listed.stdout.decode().splitlines()
        if (ROOT / name).exists()
    }
    assert expected - held == set()


def test_client_wheel_needs_no_django(tmp_path: Path) -> None:
    with build_wheel(ROOT / "memoryhub_client", tmp_path) as wheel:
        (about,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        metadata = Parser().parsestr(wheel.read(about).decode())
        assert "memoryhub_client/py.typed" in wheel.namelist()
    assert metadata["Name"] == distribution.CLIENT_NAME
    needed = metadata.get_all("Requires-Dist", [])
    assert [each for each in needed if "extra ==" not in each] == ["httpx2<3,>=2.16"]


def test_distributions_are_named_in_one_place() -> None:
    for folder, name in ((".", "NAME"), ("memoryhub_client", "CLIENT_NAME")):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
        assert project["project"]["name"] == getattr(distribution, name)


def test_deployment_files_name_what_there_is() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    given = compose["services"]["memoryhub"]["environment"].keys()
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    named = set(re.findall(r"MEMORYHUB_\w+", container)) | {*given}
    assert named <= Environment.model_fields.keys()
    assert f"uv=={bootstrap.pinned()['version']}\n" in container
    unit = configparser.RawConfigParser(strict=False, comment_prefixes="#")
    unit.read(DEPLOY / "memoryhub.service", encoding="utf-8")
    assert unit["Service"]["ExecStart"] == "/opt/memoryhub/bin/memoryhub serve"
    assert "/opt/memoryhub" in container
