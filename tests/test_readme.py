"""Documents that can't rot: what exists is named in the README or the API's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryhub import errors
from memoryhub.api import api
from memoryhub.kernel.registry import TYPES
from memoryhub.settings import Environment

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = sorted(
    file.stem
    for file in (ROOT / "memoryhub" / "management" / "commands").glob("*.py")
    if file.stem != "__init__"
)


@pytest.fixture(scope="module")
def documents() -> str:
    return README + json.dumps(api.get_openapi_schema())


def refusals(base: type[errors.Refusal] = errors.Refusal) -> set[str]:
    codes = {base.__dict__.get("code", "")}
    for each in base.__subclasses__():
        codes |= refusals(each)
    return {code for code in codes if isinstance(code, str) and code}


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_event_type_is_named(name: str, documents: str) -> None:
    assert name in documents


@pytest.mark.parametrize("code", sorted(refusals()))
def test_every_error_code_is_named(code: str, documents: str) -> None:
    assert code in documents


@pytest.mark.parametrize("name", sorted(Environment.model_fields))
def test_every_setting_is_named(name: str) -> None:
    assert f"`{name}`" in README


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_named(name: str) -> None:
    assert name in README
