"""Other programs on the OpenAPI document: validation and a code generator."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from memoryhub.api import api as agent_api
from tests.harness.instances import Server
from tests.harness.npm import read_output

DOCUMENT = json.loads(json.dumps(agent_api.get_openapi_schema()))
#: The generator knows bytes by one format name only, and a ZIP is bytes.
CONFIG = {
    "content_type_overrides": {"application/zip": "application/octet-stream"},
    "post_hooks": [],
}


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    return path


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
    printed = read_output(
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
