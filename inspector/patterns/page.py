from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.template.loader import get_template, render_to_string
from django.urls import path
from django.views.decorators.http import require_safe

from inspector import shell
from inspector.patterns import (
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
    shared,
    slots,
    threads,
    timeline,
    turns,
)
from inspector.patterns.pattern import Pattern

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


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Ids come again here, one to a state; nothing but this page shows them so."""
    drawn = [draw(request, pattern) for pattern in PATTERNS]
    return shell.page(request, "inspector/patterns/index.html", {"drawn": drawn})


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


urlpatterns = [path("", index, name="patterns")]
