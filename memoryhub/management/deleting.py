"""Deletions of projects at a terminal: the plan, the progress, and the work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from memoryhub.management.progress import ProgressBar
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.queries.forget import project_deletions as listed
from memoryhub.queries.forget.project_deletions import DeletionCounts
from memoryhub.services.forget import erasures, project_deletions


def render_plan(project: Project, counts: DeletionCounts) -> str:
    """Render a table of what deleting the project would erase."""
    return "\n".join(_iter_plan_lines(project, counts))


def render_progress(project: Project) -> str:
    """Render one line on the progress of the deletion."""
    if project.state == Project.State.DELETED:
        return f"The project {project.slug} was deleted at {_render_time(project)} UTC."
    progress = listed.get_progress(project)
    text = (
        f"The project {project.slug} is being deleted: {progress.done:,} of "
        f"{progress.people:,} subjects are erased"
    )
    if progress.waiting_on:
        text += f"; waiting: {', '.join(progress.waiting_on)}"
    return f"{text}."


def follow(project: Project, *, out: TextIO) -> Project:
    """Advance the deletion as far as possible, with a progress bar.

    A server may advance the same deletion at the same time."""
    people = listed.get_progress(project)
    bar = ProgressBar(out, total=people.people - people.done, unit="subjects")
    while project_deletions.advance_deletion(project) + _erase_subjects(project, bar):
        pass
    bar.close()
    project.refresh_from_db()
    return project


def _erase_subjects(project: Project, bar: ProgressBar) -> int:
    """Advance each confirmed erasure as far as possible; return how many moved."""
    moved = 0
    for begun in listed.select_open_erasures(project).exclude(confirmed_at=None):
        before, row = begun, erasures.advance_erasure(begun)
        while row.state != before.state:
            before, row = row, erasures.advance_erasure(row)
        moved += row.state != begun.state
        bar.add(int(row.state == Erasure.State.COMPLETE))
    return moved


def _iter_plan_lines(project: Project, counts: DeletionCounts) -> Iterator[str]:
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


def _render_time(project: Project) -> str:
    return f"{project.deleted_at:%Y-%m-%d %H:%M:%S}"
