"""Access to rows, read from the sources."""

from __future__ import annotations

import ast

import pytest

from tests.sources.files import ROOT, modules, related_names, short, tree
from tests.sources.row_reads import row_reads
from tests.sources.row_writes import projection_writes, row_writes

#: Modules that may write rows, besides migrations.
WRITING = ("services", "workers", "journal", "vault", "migrations")
#: Modules that may write projections from events, or erase them.
PROJECTING = ("memoryhub/journal/rows", "memoryhub/journal/forget")
#: Besides these, who has them written, and why.
HAS_THEM_WRITTEN = {
    "memoryhub/journal/importing.py": "those of a bundle, with its events",
    "memoryhub/journal/log/heads.py": "labels, with the heads of their threads",
    "memoryhub/journal/log/requests.py": "none: it reads slots and writes request keys",
    "memoryhub/journal/log/thread_terms.py": "terms alone, which it seals",
    "memoryhub/journal/writing/batch.py": "those of a batch, with its events",
    "memoryhub/services/rebuild.py": "all, from the journal",
}


def test_rows_are_written_only_where_writing_is_the_job() -> None:
    related = related_names()
    writing = [ROOT / "memoryhub" / room for room in WRITING]
    found = [
        f"{short(path)}:{line}"
        for path in modules("memoryhub", "inspector")
        if not any(path.is_relative_to(room) for room in writing)
        for line in row_writes(tree(path), related)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "Slot.objects.create(index=1)",
        "Slot.objects.bulk_create(rows)",
        "Thread.objects.using('keys').filter(id=1).update(name='x')",
        "rows.update(seen=True)",
        "thread.save(update_fields=['name'])",
        "await thread.asave()",
        "row.delete()",
        "thread.slots.create(index=1)",
        "cursor.execute('UPDATE memoryhub_thread SET name = %s')",
        "cursor.execute(' insert into memoryhub_slot values (1)')",
    ],
)
def test_row_write_check_finds_a_write(line: str) -> None:
    assert list(row_writes(ast.parse(line), {"slots"})) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "seen.update(names)",
        "digest.update(chunk)",
        "names.add(name)",
        "threads.create(project)",
        "services.slots.delete(agent, thread)",
        "request.session.save()",
        "rows = Slot.objects.filter(thread=thread).order_by('index')",
        "summary = 'Update a thread'",
        "client.delete('/v1/threads/a')",
    ],
)
def test_row_write_check_accepts_lookalikes(line: str) -> None:
    assert list(row_writes(ast.parse(line), {"slots"})) == []


def test_projections_are_written_from_events_or_erased() -> None:
    """A thread's own row moves with its head, and is no projection here."""
    related = related_names()
    found = {
        short(path)
        for path in modules("memoryhub", "inspector")
        if not short(path).startswith(PROJECTING)
        and any(projection_writes(tree(path), related))
    }
    assert found == HAS_THEM_WRITTEN.keys()


@pytest.mark.parametrize(
    "lines",
    [
        "from memoryhub.models.slots import Slot\nSlot.objects.create(index=1)",
        "from memoryhub.models.pages import Page\nrow.save(update_fields=['title'])",
        "from memoryhub.journal.rows.nouns import PROJECTIONS\nrows.update(at=at)",
        "from memoryhub.journal.rows.page_rows import write",
        "projections.write(rows)",
        "run(partial(totals.recount, subject))",
        "statements.SLOTS.rows(rows)",
        "statements.delete_batch(Slot, 'thread_id', thread, limit=1)",
    ],
)
@pytest.mark.parametrize(
    "module", ["memoryhub/services/threads/threads.py", "memoryhub/workers/listing.py"]
)
def test_projection_write_check_finds_a_write(module: str, lines: str) -> None:
    """The write is planted at the end of a module that has none."""
    source = (ROOT / module).read_text(encoding="utf-8")
    assert not any(projection_writes(ast.parse(source), set()))
    assert any(projection_writes(ast.parse(f"{source}{lines}\n"), set()))


def test_inspector_reaches_rows_through_queries_and_services_only() -> None:
    """The inspector names models for their words and types; rows are handed to it."""
    related = related_names()
    found = [
        f"{short(path)}:{line}"
        for path in modules("inspector")
        for line in {*row_reads(tree(path), related), *row_writes(tree(path), related)}
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "rows = Membership.objects.select_related('project')",
        "row = Membership.objects.get(operator=operator)",
        "row = await Membership.objects.aget(operator=operator)",
        "rows = Thread._default_manager.all()",
        "names = rows.values_list('name', flat=True)",
        "rows = found.filter(project=project).order_by('name')",
        "count = thread.slots.count()",
        "row = subject.threads.first()",
        "thread.refresh_from_db()",
        "from django.db.models import Count",
        "from django.db.models.functions import Length",
        "from django.db import connection",
        "import django.db.models",
        "from django.shortcuts import get_object_or_404",
    ],
)
def test_row_read_check_finds_a_read(line: str) -> None:
    """The read is planted at the end of a page that shows rows."""
    page = ROOT / "inspector/access/members.py"
    source, related = page.read_text(encoding="utf-8"), {"slots", "threads"}
    assert not [*row_reads(ast.parse(source), related)]
    planted = ast.parse(f"{source}{line}\n")
    assert {*row_reads(planted, related)} == {source.count("\n") + 1}


@pytest.mark.parametrize(
    "line",
    [
        "register.filter(pieces)",
        "from django.db import DatabaseError, connections",
        "from django.shortcuts import render",
        "text = request.GET.get('q', '')",
        "viewers = self.audience.threads",
        "found = slots.count(visitor.project)",
        "name = services.slots.get(thread)",
        "worst = figures.get('threads')",
    ],
)
def test_row_read_check_accepts_lookalikes(line: str) -> None:
    assert list(row_reads(ast.parse(line), {"slots", "threads"})) == []
