"""Renderings of each partial by the inspector's pages, gathered on one page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.template.base import FilterExpression, Node, Template, Variable
from django.template.context import Context
from django.template.defaulttags import WithNode
from django.template.loader import get_template
from django.template.smartif import TokenBase

ROOT = Path(settings.BASE_DIR)
TEMPLATES = ROOT / "templates"
_NEEDS = "{# Needs:"
#: The first style sheet declares the layer order of the others.
_STYLES = sorted((ROOT / "static/css").glob("*.css"), key=lambda p: p.stem != "tokens")
_LINKS = "\n".join(f'<link rel="stylesheet" href="{p.as_uri()}">' for p in _STYLES)
_HEAD = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Gallery · MemoryHub</title>
{_LINKS}
<main><h1>Every partial, as pages of a made-up project show it</h1>
"""


@dataclass(slots=True)
class Shown:
    """Renderings of a template, and the names that all their contexts had."""

    names: set[str]
    texts: dict[str, None] = field(default_factory=dict)


def partials() -> list[str]:
    found = TEMPLATES.rglob("_*.html")
    return sorted(path.relative_to(TEMPLATES).as_posix() for path in found)


@contextmanager
def record_renderings() -> Iterator[dict[str, Shown]]:
    """Record all renderings meanwhile, by the name of the template."""
    shown: dict[str, Shown] = {}
    render = Template._render  # type: ignore[attr-defined]  # the stubs leave it out

    def render_seen(template: Template, context: Context) -> str:
        text = str(render(template, context))
        names = {*map(str, context.flatten())}
        each = shown.setdefault(str(template.name), Shown(names))
        each.names &= names
        each.texts[text] = None
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Template, "_render", render_seen)
        yield shown


def get_declared_needs(template: str) -> str:
    """Return the context names that the first line of a partial declares."""
    source: str = get_template(template).template.source  # type: ignore[attr-defined]  # Django's engine
    return source.partition(_NEEDS)[2].partition("#}")[0].strip()


def list_used_names(template: str) -> set[str]:
    """Return the names that a template takes from its context, in any branch."""
    found: set[str] = set()
    bound = {"forloop"}
    todo: list[Any] = [get_template(template).template.nodelist]  # type: ignore[attr-defined]  # Django's engine
    while todo:
        match todo.pop():
            case Variable(lookups=(str(name), *_)):
                found.add(name)
            case FilterExpression(var=variable, filters=filters):
                todo += [variable, filters]
            case list() | tuple() as several:
                todo += several
            case dict() as named:
                todo += named.values()
            case Node() | TokenBase() as node:
                bound.update(getattr(node, "loopvars", ()))
                bound.add(getattr(node, "asvar", None) or "")
                if isinstance(node, WithNode):
                    bound.update(node.extra_context)
                todo += vars(node).values()
    return found - bound


def draw(shown: dict[str, Shown]) -> str:
    """Return the gallery page. Ids repeat in it, once for each state."""
    return _HEAD + "".join(_render_shown(name, shown[name]) for name in partials())


def _render_shown(template: str, shown: Shown) -> str:
    heading = (
        f"<h2>{template}</h2><p class='faint'>Needs: {get_declared_needs(template)}</p>"
    )
    if not template.endswith("/_row.html"):
        return heading + "".join(f"<section>{text}</section>" for text in shown.texts)
    # A row needs a table; style sheets name the table after the screen.
    table = f"table {template.split('/')[-2].replace('_', '-')}"
    rows = "".join(shown.texts)
    return f"{heading}<div class='{table}' role='table'>{rows}</div>"
