"""Documents that can't rot: they name what exists, and what they point at is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryhub import errors
from memoryhub.api import api
from memoryhub.settings import Environment
from tools import docs

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(docs.DOCS.rglob("*.md"))]


@pytest.fixture(scope="module")
def documents() -> str:
    texts = (page.read_text(encoding="utf-8") for page in PAGES)
    return "\n".join([*texts, json.dumps(api.get_openapi_schema())])


def refusals(base: type[errors.Refusal] = errors.Refusal) -> set[str]:
    codes = {base.__dict__.get("code", "")}
    for each in base.__subclasses__():
        codes |= refusals(each)
    return {code for code in codes if isinstance(code, str) and code}


@pytest.mark.parametrize("name", sorted(docs.GENERATED))
def test_what_is_generated_is_as_the_generator_makes_it(name: str) -> None:
    """Event types, commands, figures; that promises are is in test_promised."""
    made = docs.GENERATED[name]()
    assert docs.between(docs.DOCS / name) == made, "run `make docs`"


@pytest.mark.parametrize("code", sorted(refusals()))
def test_every_error_code_is_named(code: str, documents: str) -> None:
    assert code in documents


@pytest.mark.parametrize("name", sorted(Environment.model_fields))
def test_every_setting_is_named(name: str, documents: str) -> None:
    assert f"`{name}`" in documents
