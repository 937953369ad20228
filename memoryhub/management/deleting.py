"""Deletions of projects at a terminal: what they take, and how far one is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from memoryhub.management.progress import Progress
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.queries.forget import project_deletions as listed
from memoryhub.queries.forget.project_deletions import Counts
from memoryhub.services.forget import erasures, project_deletions


def plan(project: Project, counts: Counts) -> str:
    """Return as a table what deleting it would take."""
    return "\n".join(_plan(project, counts))


def progress_line(project: Project) -> str:
    """Return in one line how far it is."""
    if project.state == Project.State.DELETED:
        return f"The project {project.slug} was deleted at {_at(project)} UTC."
    progress = listed.get_progress(project)
    text = (
        f"The project {project.slug} is being deleted: {progress.done:,} of "
        f"{progress.people:,} subjects are erased"
    )
    if progress.waiting_on:
        text += f"; waiting: {', '.join(progress.waiting_on)}"
    return f"{text}."


def follow(project: Project, *, out: TextIO) -> Project:
    """Go on with it as far as it goes, with a bar; a server may do so as well."""
    people = listed.get_progress(project)
    bar = Progress(out, total=people.people - people.done, unit="subjects")
    while project_deletions.advance(project) + _erase(project, bar):
        pass
    bar.close()
    project.refresh_from_db()
    return project


def _erase(project: Project, bar: Progress) -> int:
    """Each that was begun, as far as it goes; how many went further."""
    moved = 0
    for begun in listed.open_erasures(project).exclude(confirmed_at=None):
        before, row = begun, erasures.advance(begun)
        while row.state != before.state:
            before, row = row, erasures.advance(row)
        moved += row.state != begun.state
        bar.add(int(row.state == Erasure.State.COMPLETE))
    return moved


def _plan(project: Project, counts: Counts) -> Iterator[str]:
    yield f"Deleting {project.slug} takes, for good:"
    for what, count, how in (
        ("subjects", counts.people, "each with an erasure and a receipt of its own"),
        ("threads", counts.threads, "their names too"),
        ("events", counts.events, "their content; what is left still verifies"),
        ("API keys", counts.keys, "at once"),
    ):
        yield f"  {what:<10}{count:>12,}  {how}"
    yield "And in the end the project's key. Who has a role in it may still see what"
    yield "stays, so that it can be proved: its slug, its audit log and all receipts."
    if counts.holds:
        yield f"Holds in force: {counts.holds:,}. Nothing is deleted while one is."


def _at(project: Project) -> str:
    return f"{project.deleted_at:%Y-%m-%d %H:%M:%S}"
