"""Screen of imports: recorded runs by their source."""

from __future__ import annotations

from inspector.lists import screens
from inspector.lists.screens import Context, ListRequest, Screen, ScreenExport
from inspector.web import records
from inspector.web.visitors import Visitor
from memoryhub.queries.export import imports
from memoryhub.queries.export.imports import ImportSource
from memoryhub.queries.lists.cursors import ListBatch


def _build_list(ask: ListRequest[Visitor]) -> Context:
    found = _list_batch(ask, ask.after, ask.limit)
    return screens.build_list_context(ask, found) | {
        "cut": any(line.cut for line in found.items),
        "looked_at": imports.REWARDS,
    }


def _list_batch(
    ask: ListRequest[Visitor], after: str | None, limit: int
) -> ListBatch[ImportSource]:
    return imports.list_sources(ask.where.project, after=after, limit=limit)


SCREEN = Screen(
    folder="threads/imports",
    scope=screens.build_project_scope("threads"),
    lines=_build_list,
    export=ScreenExport(
        fields=records.SOURCE,
        record=lambda _, line: records.build_source_record(line),
        batch=_list_batch,
        size=None,
    ),
)
