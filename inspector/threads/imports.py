"""Imports: recorded runs by where they came from."""

from __future__ import annotations

from inspector.lists import screens
from inspector.lists.screens import Context, Export, ListRequest, Screen
from inspector.web import records
from inspector.web.visitors import Visitor
from memoryhub.queries.export import imports
from memoryhub.queries.export.imports import Source
from memoryhub.queries.lists.cursors import Batch


def _lines(ask: ListRequest[Visitor]) -> Context:
    found = _batch(ask, ask.after, ask.limit)
    return screens.list_context(ask, found) | {
        "cut": any(line.cut for line in found.items),
        "looked_at": imports.REWARDS,
    }


def _batch(ask: ListRequest[Visitor], after: str | None, limit: int) -> Batch[Source]:
    return imports.list_sources(ask.where.project, after=after, limit=limit)


SCREEN = Screen(
    folder="threads/imports",
    scope=screens.project_scope("threads"),
    lines=_lines,
    export=Export(
        fields=records.SOURCE,
        record=lambda _, line: records.source(line),
        batch=_batch,
        size=None,
    ),
)
