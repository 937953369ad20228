"""The gallery has every partial, and none wants what its sample lacks."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.test import RequestFactory
from pytest_django import Settings

from tests.gallery import page
from tests.gallery.pattern import Pattern

TEMPLATES = Path(configured.BASE_DIR) / "templates"
#: Stands where a template wants what its context does not have.
MISSING = "nothing-of-this-name"
BY_TEMPLATE = {pattern.template: pattern for pattern in page.PATTERNS}


@pytest.fixture
def request_() -> HttpRequest:
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    return request


@pytest.fixture
def strict(settings: Settings) -> None:
    """Templates that show what is missing, in the place of nothing."""
    changed: list[dict[str, Any]] = copy.deepcopy(configured.TEMPLATES)
    changed[0]["OPTIONS"]["string_if_invalid"] = f"{MISSING} %s"
    settings.TEMPLATES = changed


def test_every_partial_has_its_pattern() -> None:
    partials = {str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("_*.html")}
    assert len(partials) > 30
    assert len(BY_TEMPLATE) == len(page.PATTERNS)
    assert set(BY_TEMPLATE) == partials


@pytest.mark.parametrize("template", BY_TEMPLATE)
def test_a_pattern_gives_its_partial_what_it_needs(
    template: str, strict: None, request_: HttpRequest
) -> None:
    pattern = BY_TEMPLATE[template]
    assert pattern.states
    wanted = needed(template)
    for label, context in pattern.states.items():
        assert wanted <= context.keys() | {"request"}, label
    for label, text in page.draw(request_, pattern).states:
        assert MISSING not in text, f"{label}: {text}"


def test_no_two_states_of_a_partial_look_alike(request_: HttpRequest) -> None:
    alike = {
        template: [label for label, _ in drawn.states]
        for template, pattern in BY_TEMPLATE.items()
        for drawn in [page.draw(request_, pattern)]
        if len({text for _, text in drawn.states}) < len(drawn.states)
    }
    assert alike == {}


def test_what_a_sample_lacks_is_seen(strict: None, request_: HttpRequest) -> None:
    bare = Pattern(template="inspector/shared/_call.html", states={"bare": {}})
    ((_, text),) = page.draw(request_, bare).states
    assert MISSING in text
    assert needed("inspector/shared/_call.html") == {"host", "path"}


def needed(template: str) -> set[str]:
    """The names that the first line of a partial wants; what is said of them is not."""
    plain = re.sub(r"\([^)]*\)", "", page.needs(template)).rstrip(".")
    words = {word.strip() for word in plain.split(",")}
    names = {word for word in words if re.fullmatch("[a-z_]+", word)}
    return names - {"nothing"} if words == {"nothing"} else names


def test_it_is_drawn_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "gallery.html"
    command = [sys.executable, "-m", "tests.gallery", str(file)]
    subprocess.run(command, cwd=configured.BASE_DIR, check=True)
    drawn = file.read_text(encoding="utf-8")
    for template in BY_TEMPLATE:
        assert f">{template}</h2>" in drawn
    (style,) = re.findall(r'rel="stylesheet" href="file://([^"]+)"', drawn)
    assert Path(style).is_file()
