"""Projects: tenants, each with its key and its anonymous subject."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

import orjson
from django.db import IntegrityError, transaction

from memoryhub import journal
from memoryhub.errors import InvalidError, NameTakenError
from memoryhub.journal import audit
from memoryhub.journal.log import fence
from memoryhub.models.access.operators import Operator
from memoryhub.models.projects import (
    MAX_THREADS,
    MOST_IDLE_DAYS,
    MOST_INSTRUCTION_BYTES,
    MOST_THREADS,
    MOST_TTL_SECONDS,
    SLUG_PATTERN,
    Project,
    ProjectStats,
)
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.queries.episodes.backlog import get_backlog
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import operators
from memoryhub.services.access.audit import COMMAND
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keys

_LEARNING: Final = ("consolidate", "consolidate_since")


def create(
    slug: str,
    *,
    max_threads: int = MAX_THREADS,
    create_on_write: bool = True,
    owner: Operator | None = None,
    actor: str = COMMAND,
) -> Project:
    """Make a project, of this owner or of nobody yet.

    Raises NameTakenError when the slug is in use, and InvalidError on a limit outside 1
    to 10,000,000.
    """
    _check(max_threads)
    # A name that is refused leaves no key behind, but for two who send it at once.
    if Project.objects.filter(slug=slug).exists():
        raise NameTakenError
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
                    created_at=clock.now(),
                )
                ProjectStats.objects.create(project=made, taken_at=made.created_at)
                subjects.create_anonymous(project)
                _note("project.made", made, actor=actor)
                if owner is not None:
                    operators.make_first_owner(made, owner, actor=actor)
        except IntegrityError:
            raise NameTakenError from None
        return made

    made: Project = journal.run(insert)
    return made


def require_slug(slug: str) -> None:
    """Raise InvalidError unless a project may be called so."""
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise InvalidError(loc="slug")


def configure(
    project: Project,
    *,
    max_threads: int | None = None,
    create_on_write: bool | None = None,
    actor: str = COMMAND,
) -> None:
    """Change what is given. Lowering a limit below what exists removes nothing.

    Raises InvalidError on a limit outside 1 to 10,000,000. Agents write by it within a
    second.
    """
    if max_threads is not None:
        _check(max_threads)
        project.max_threads = max_threads
    if create_on_write is not None:
        project.create_on_write = create_on_write

    _change(project, ["max_threads", "create_on_write"], actor=actor)


def keep(project: Project, *, idle_days: int | None, actor: str = COMMAND) -> None:
    """Retire threads that idle for so many days; None keeps them for ever.

    Threads with days of their own go by those. Raises InvalidError on days outside 1 to
    36,500. The worker acts on it within the hour.
    """
    require_idle_days(idle_days)
    project.retention_idle_days = idle_days

    _change(project, ["retention_idle_days"], actor=actor)


def consolidate(
    project: Project, *, auto: bool, backlog: int | None = None, actor: str = COMMAND
) -> None:
    """Have the language model asked for facts of what is said, or no longer.

    The worker acts on it within ten seconds, wherever a model is configured. Of what
    was said before it is asked only with `backlog`: the number of exchanges that was
    shown to whoever agrees. Raises InvalidError where more than that wait by now.
    """
    _learn(project, auto=auto, backlog=backlog)
    _change(project, _LEARNING, actor=actor)


async def consolidate_async(
    project: UUID, *, auto: bool, backlog: int | None, actor: str
) -> Project:
    """Do as `consolidate` does, for coroutines."""
    found = await read(Project.objects.get, id=project)
    await read(_learn, found, auto=auto, backlog=backlog)
    await journal.run_async(partial(_changed, found, _LEARNING, actor=actor))
    return found


def _learn(project: Project, *, auto: bool, backlog: int | None) -> None:
    if auto and backlog is not None:
        waiting = get_backlog(project).exchanges
        if waiting > backlog:
            says = f"null, or the number of exchanges that wait: {waiting}"
            raise InvalidError(loc="backlog", allowed=says)
        project.consolidate_since = None
    elif auto and project.consolidate != project.Consolidate.AUTO:
        project.consolidate_since = clock.now()
    project.consolidate = (
        project.Consolidate.AUTO if auto else (project.Consolidate.MANUAL)
    )


def instruct(project: Project, *, observer: str, actor: str = COMMAND) -> None:
    """Append a text to what observer and reflector are asked; empty for none.

    Raises InvalidError on more than 8,192 bytes of UTF-8. What is asked from now on
    has it.
    """
    observer = observer.strip()
    if len(observer.encode(errors="replace")) > MOST_INSTRUCTION_BYTES:
        raise InvalidError(loc="observer_instructions", most=MOST_INSTRUCTION_BYTES)
    project.observer_instructions = observer

    _change(project, ["observer_instructions"], actor=actor)


def require_idle_days(idle_days: int | None) -> None:
    """Raise InvalidError unless something may be kept for so many days."""
    if idle_days is not None and not 1 <= idle_days <= MOST_IDLE_DAYS:
        raise InvalidError(loc="retention_idle_days", least=1, most=MOST_IDLE_DAYS)


def require_kept(
    project: UUID,
    thread: str,
    idle_days: int | None,
    *,
    made: bool = False,
    bound: UUID | None = None,
) -> None:
    """Raise InvalidError if a thread would be kept for less than its project asks.

    Only owners bring nearer when something is erased. What the thread goes by already
    may be said again; `made`: if it exists its days stay whatever is said. At most two
    queries.
    """
    if idle_days is None:
        return
    days = Project.objects.values_list("retention_idle_days", flat=True).get(id=project)
    if days is not None and idle_days >= days:
        return
    meant = threads.names_of(thread, bound=bound)
    rows = threads.scoped(project, bound=bound).filter(name__in=meant)
    configs = dict(rows.values_list("name", "config"))
    config = next((configs[name] for name in meant if name in configs), None)
    own = None if config is None else orjson.loads(config).get("retention_idle_days")
    if own == idle_days or (made and config is not None):
        return
    if days is None:
        says = "null: the project keeps threads for ever, only its owners change that"
    else:
        says = f"an integer from {days}, the project's own, to {MOST_IDLE_DAYS}"
    raise InvalidError(loc="config.retention_idle_days", allowed=says)


def let_expire(
    project: Project,
    *,
    default_ttl_seconds: int | None,
    grace_seconds: int | None,
    actor: str = COMMAND,
) -> None:
    """Say how long keys live that nobody else speaks for, and values stay after that.

    None for either is for ever. Raises InvalidError on a life outside 1, or a grace
    outside 0, to 31,536,000 seconds. Agents go by it within a second; a shorter grace
    erases at the worker's next round what it is over for.
    """
    require_lifetimes(
        default_ttl_seconds=default_ttl_seconds, grace_seconds=grace_seconds
    )
    project.default_ttl_seconds = default_ttl_seconds
    project.expired_value_grace_seconds = grace_seconds
    fields = ["default_ttl_seconds", "expired_value_grace_seconds"]
    _change(project, fields, actor=actor)


def require_lifetimes(
    *, default_ttl_seconds: int | None, grace_seconds: int | None
) -> None:
    """Raise InvalidError unless keys and their values may last so long."""
    for loc, seconds, least in (
        ("default_ttl_seconds", default_ttl_seconds, 1),
        ("expired_value_grace_seconds", grace_seconds, 0),
    ):
        if seconds is not None and not least <= seconds <= MOST_TTL_SECONDS:
            raise InvalidError(loc=loc, least=least, most=MOST_TTL_SECONDS)


def _change(project: Project, fields: Sequence[str], *, actor: str) -> None:
    journal.run(partial(_changed, project, fields, actor=actor))


def _changed(project: Project, fields: Sequence[str], *, actor: str) -> None:
    with transaction.atomic():
        fence.require_active(project.id)
        project.save(update_fields=fields)
        _note("project.changed", project, actor=actor)


def _note(action: str, project: Project, *, actor: str) -> None:
    audit.append(
        actor=actor,
        action=action,
        project=project.id,
        target_kind="project",
        target_id=str(project.id),
    )


def _check(max_threads: int) -> None:
    if not 1 <= max_threads <= MOST_THREADS:
        raise InvalidError(loc="max_threads", least=1, most=MOST_THREADS)


def default_ttl(project: Project) -> timedelta | None:
    """Return how long keys live where neither agent nor thread sets it."""
    seconds = project.default_ttl_seconds
    return None if seconds is None else timedelta(seconds=seconds)
