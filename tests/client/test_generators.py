"""Other programs on the OpenAPI document: validation and code generators."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from memoryhub.api import api as agent_api
from tests.harness.instances import Server

DOCUMENT = json.loads(json.dumps(agent_api.get_openapi_schema()))
TYPESCRIPT = Path(__file__).parent.parent / "typescript"
#: The generator knows bytes by one format name only, and a ZIP is bytes.
CONFIG = {
    "content_type_overrides": {"application/zip": "application/octet-stream"},
    "post_hooks": [],
}
MINUTES = 300


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    return path


def output_of(*command: str | Path, cwd: Path) -> str:
    """Run a command, which must succeed; return its output."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=MINUTES, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_openapi_document_is_valid() -> None:
    assert [*OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_invalid_openapi_document_is_seen() -> None:
    """Serve as the control of the test above."""
    paths: dict[str, Any] = {"/x": {"get": {"responses": {"200": {}}}}}
    wrong = OpenAPIV31SpecValidator({**DOCUMENT, "paths": paths})
    assert [*wrong.iter_errors()]


@pytest.mark.slow
def test_python_client_is_generated_and_works(
    document: Path,
    served: Server,
    key: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    generate = (sys.executable, "-m", "openapi_python_client", "generate")
    printed = output_of(
        *(*generate, "--fail-on-warning", "--meta=none", "--config", config),
        *("--path", document, "--output-path", tmp_path / "generated"),
        cwd=tmp_path,
    )
    assert "arning" not in printed
    monkeypatch.syspath_prepend(tmp_path)
    models = import_module("generated.models")
    append = import_module("generated.api.slots.slots_append")
    get = import_module("generated.api.slots.slots_get")
    made = import_module("generated").AuthenticatedClient(served.url, token=key)
    content = {"role": "user", "content": "Is seat 12A free?"}
    slot = models.SlotIn(from_="user", to="agent", type_="chat.user", content=content)
    with made as client:
        answer = append.sync(thread="talk", client=client, body=slot)
        assert isinstance(answer, models.AppendedOut)
        found = get.sync(thread="talk", index=answer.index, client=client)
        assert isinstance(found, models.SlotOut)
        assert found.content == content
        missing = get.sync(thread="talk", index=7, client=client)
        assert missing.code == "not_found"


@pytest.mark.slow
@pytest.mark.timeout(2 * MINUTES)
def test_typescript_is_generated_and_compiles(document: Path, tmp_path: Path) -> None:
    tools = installed()
    made = tmp_path / "api.ts"
    printed = output_of(
        tools / "openapi-typescript", document, "-o", made, cwd=tmp_path
    )
    assert "warn" not in printed.lower()
    uses = shutil.copy(TYPESCRIPT / "uses.ts", tmp_path)
    output_of(tools / "tsc", "--strict", "--noEmit", uses, cwd=tmp_path)


def installed() -> Path:
    """Install the commands that package-lock.json pins, beside the environment.

    Nothing else changes: no script of a package runs, and npm's cache lies there too.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("There is no npm; `.ci/run` installs it.")
    lock = TYPESCRIPT / "package-lock.json"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    kept = Path(sys.prefix) / "typescript"
    folder = kept / digest
    # This file is written last, so that it marks a complete installation.
    done = folder / "done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(TYPESCRIPT / name, folder)
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--cache")
        output_of(npm, "ci", *quiet, kept / "cache", cwd=folder)
        done.touch()
    return folder / "node_modules" / ".bin"
