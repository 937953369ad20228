"""Projects: tenants, each with its key and its anonymous subject."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils import timezone

from memoryhub import journal
from memoryhub.errors import InvalidError, NameTakenError
from memoryhub.models.ids import uuid7
from memoryhub.models.projects import (
    MAX_THREADS,
    MOST_THREADS,
    Project,
    ProjectStats,
)
from memoryhub.services import subjects
from memoryhub.vault import keys


def create(
    slug: str, *, max_threads: int = MAX_THREADS, create_on_write: bool = True
) -> Project:
    """Make a project. Raises NameTakenError when the slug is in use.

    Raises InvalidError on a limit outside 1 to 10,000,000.
    """
    _check(max_threads)
    project = uuid7()
    keys.create_project_key(project)

    def insert() -> Project:
        try:
            with transaction.atomic():
                made = Project.objects.create(
                    id=project,
                    slug=slug,
                    max_threads=max_threads,
                    create_on_write=create_on_write,
                    created_at=timezone.now(),
                )
                ProjectStats.objects.create(project=made, taken_at=made.created_at)
                subjects.create_anonymous(project)
        except IntegrityError:
            raise NameTakenError from None
        return made

    made: Project = journal.run(insert)
    return made


def configure(project: Project, *, max_threads: int | None = None) -> None:
    """Change a project's limits. Lowering one below what exists removes nothing."""
    if max_threads is not None:
        _check(max_threads)
        project.max_threads = max_threads

    journal.run(lambda: project.save(update_fields=["max_threads"]))


def _check(max_threads: int) -> None:
    if not 1 <= max_threads <= MOST_THREADS:
        raise InvalidError(loc="max_threads", least=1, most=MOST_THREADS)
