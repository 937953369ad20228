"""The gallery: every partial of the inspector in each of its states."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django import conf
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.template.loader import get_template, render_to_string
from django.test import RequestFactory, override_settings

from inspector.web import shell
from tests.gallery import shared
from tests.gallery.pattern import Pattern
from tests.gallery.states import (
    api_keys,
    audit,
    checkpoints,
    events,
    imports,
    members,
    memory,
    pages,
    paging,
    people,
    privacy,
    settings,
    slots,
    threads,
    timeline,
    turns,
)

PATTERNS: tuple[Pattern, ...] = (
    *shared.PATTERNS,
    *threads.PATTERNS,
    *timeline.PATTERNS,
    *events.PATTERNS,
    *slots.PATTERNS,
    *api_keys.PATTERNS,
    *members.PATTERNS,
    *imports.PATTERNS,
    *settings.PATTERNS,
    *paging.PATTERNS,
    *pages.PATTERNS,
    *turns.PATTERNS,
    *memory.PATTERNS,
    *checkpoints.PATTERNS,
    *audit.PATTERNS,
    *people.PATTERNS,
    *privacy.PATTERNS,
)
_NEEDS = "{# Needs:"
#: Of this folder, which is no part of the product.
TEMPLATE = "gallery.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A pattern as the page shows it: what its file says, and each state by name."""

    pattern: Pattern
    needs: str
    states: tuple[tuple[str, str], ...]

    @property
    def anchor(self) -> str:
        """`threads-row` of `inspector/threads/_row.html`."""
        noun, file = self.pattern.template.split("/")[-2:]
        return f"{noun}-{file.strip('_').removesuffix('.html')}"


def text() -> str:
    """The page. Ids come again here, one to a state; nothing else shows them so."""
    request = RequestFactory(headers={"host": "127.0.0.1"}).get("/")
    request.user = AnonymousUser()
    around = {"drawn": [draw(request, pattern) for pattern in PATTERNS]}
    templates: list[dict[str, Any]] = copy.deepcopy(conf.settings.TEMPLATES)
    templates[0]["DIRS"] = [*templates[0]["DIRS"], Path(__file__).parent]
    with override_settings(TEMPLATES=templates):
        return shell.page(request, TEMPLATE, around).content.decode()


def draw(request: HttpRequest, pattern: Pattern) -> Drawn:
    states = tuple(
        (label, render_to_string(pattern.template, dict(context), request))
        for label, context in pattern.states.items()
    )
    return Drawn(pattern=pattern, needs=needs(pattern.template), states=states)


def needs(template: str) -> str:
    """What the first line of a partial says that it wants of its context."""
    source: str = get_template(template).template.source  # type: ignore[attr-defined]  # Django's engine
    return source.partition(_NEEDS)[2].partition("#}")[0].strip()
