"""Projects: tenants, each with its key and its anonymous subject."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import IntegrityError, transaction

from memoryhub import journal
from memoryhub.errors import InvalidError, NameTakenError
from memoryhub.journal import audit
from memoryhub.journal.log import fence
from memoryhub.model_settings import Price
from memoryhub.models.access.operators import Operator
from memoryhub.models.projects import (
    MAX_THREADS,
    MOST_CURRENCY_CHARS,
    MOST_IDLE_DAYS,
    MOST_INSTRUCTION_BYTES,
    MOST_MODEL_CHARS,
    MOST_PRICES,
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
from memoryhub.services.access.audit import COMMAND_ACTOR
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keys

_CONSOLIDATION_FIELDS: Final = ("consolidate", "consolidate_since")


def create(
    slug: str,
    *,
    max_threads: int = MAX_THREADS,
    create_on_write: bool = True,
    owner: Operator | None = None,
    actor: str = COMMAND_ACTOR,
) -> Project:
    """Create a project, with or without an owner.

    Raises NameTakenError when the slug is in use, and InvalidError on a limit outside 1
    to 10,000,000.
    """
    _require_thread_limit(max_threads)
    # A refused name leaves no key behind, except for two requests at once.
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
                _audit_project("project.made", made, actor=actor)
                if owner is not None:
                    operators.make_first_owner(made, owner, actor=actor)
        except IntegrityError:
            raise NameTakenError from None
        return made

    made: Project = journal.run(insert)
    return made


def require_slug(slug: str) -> None:
    """Raise InvalidError unless the text is a valid slug."""
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise InvalidError(loc="slug")


def configure(
    project: Project,
    *,
    max_threads: int | None = None,
    create_on_write: bool | None = None,
    actor: str = COMMAND_ACTOR,
) -> None:
    """Change the given settings; a limit below the present count removes nothing.

    Raises InvalidError on a limit outside 1 to 10,000,000. Agents follow the new
    settings within a second.
    """
    if max_threads is not None:
        _require_thread_limit(max_threads)
        project.max_threads = max_threads
    if create_on_write is not None:
        project.create_on_write = create_on_write

    fields = ["max_threads", "create_on_write"]
    _save_change(project, fields, area="limits", actor=actor)


def set_retention(
    project: Project, *, idle_days: int | None, actor: str = COMMAND_ACTOR
) -> None:
    """Set after how many idle days threads retire; None keeps threads for ever.

    Threads with a number of days of their own follow that number. Raises InvalidError
    on days outside 1 to 36,500. The worker follows the setting within the hour.
    """
    require_idle_days(idle_days)
    project.retention_idle_days = idle_days

    _save_change(project, ["retention_idle_days"], area="retention", actor=actor)


def set_consolidation(
    project: Project,
    *,
    auto: bool,
    backlog: int | None = None,
    actor: str = COMMAND_ACTOR,
) -> None:
    """Turn consolidation by the language model on or off.

    The worker follows the setting within ten seconds, wherever a model is configured.
    Earlier exchanges are consolidated only with `backlog`: the number of waiting
    exchanges that was shown to whoever agrees. Raises InvalidError if more exchanges
    wait by now.
    """
    _update_consolidation(project, auto=auto, backlog=backlog)
    _save_change(project, _CONSOLIDATION_FIELDS, area="consolidation", actor=actor)


async def set_consolidation_async(
    project: UUID, *, auto: bool, backlog: int | None, actor: str
) -> Project:
    """Turn consolidation on or off as `set_consolidation` does, for coroutines."""
    found = await read(Project.objects.get, id=project)
    await read(_update_consolidation, found, auto=auto, backlog=backlog)
    save = partial(found.save, update_fields=_CONSOLIDATION_FIELDS)
    await journal.run_async(
        partial(_write_audited, found, save, area="consolidation", actor=actor)
    )
    return found


def _update_consolidation(project: Project, *, auto: bool, backlog: int | None) -> None:
    """Update the project's consolidation fields, unsaved. Raises InvalidError."""
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


def set_observer_instructions(
    project: Project, *, observer: str, reflector: str, actor: str = COMMAND_ACTOR
) -> None:
    """Set the texts appended to the prompts of observer and reflector; empty for none.

    Raises InvalidError on more than 8,192 bytes of UTF-8 in one text. Prompts contain
    the texts from now on.
    """
    texts = {"observer_instructions": observer, "reflector_instructions": reflector}
    for name, text in texts.items():
        if len(text.strip().encode(errors="replace")) > MOST_INSTRUCTION_BYTES:
            raise InvalidError(loc=name, most=MOST_INSTRUCTION_BYTES)
        setattr(project, name, text.strip())
    _save_change(project, [*texts], area="observing", actor=actor)


def set_prices(
    project: Project,
    *,
    currency: str,
    models: Sequence[tuple[str, Price]],
    actor: str = COMMAND_ACTOR,
) -> None:
    """Set the prices of models, the default first; without models, the server's hold.

    Raises InvalidError on a name that is empty, too long, unprintable or repeated, and
    on too many models.
    """
    names = [name for name, _ in models]
    currency = currency.strip()
    if len(names) > MOST_PRICES or len({*names}) < len(names):
        raise InvalidError(loc="models", most=MOST_PRICES)
    if not all(is_short(name, MOST_MODEL_CHARS) for name in names):
        raise InvalidError(loc="models", most=MOST_MODEL_CHARS)
    if currency and not is_short(currency, MOST_CURRENCY_CHARS):
        raise InvalidError(loc="currency", most=MOST_CURRENCY_CHARS)
    rows = [(name, price.model_dump(exclude_none=True)) for name, price in models]
    table = {"currency": currency, "models": rows}
    project.prices = orjson.dumps(table).decode() if rows else ""
    _save_change(project, ["prices"], area="prices", actor=actor)


def is_short(name: str, most: int) -> bool:
    """Return whether a name is printable, not empty and at most `most` characters."""
    return 0 < len(name) <= most and name.isprintable()


def require_idle_days(idle_days: int | None) -> None:
    """Raise InvalidError unless the number of idle days is within its bounds."""
    if idle_days is not None and not 1 <= idle_days <= MOST_IDLE_DAYS:
        raise InvalidError(loc="retention_idle_days", least=1, most=MOST_IDLE_DAYS)


def require_retention(
    project: UUID,
    thread: str,
    idle_days: int | None,
    *,
    made: bool = False,
    bound: UUID | None = None,
) -> None:
    """Raise InvalidError if a thread's idle days are fewer than its project requires.

    Only owners may bring an erasure nearer. A thread's present number of days may be
    repeated. With `made` an existing thread keeps its days whatever the request says.
    At most two queries.
    """
    if idle_days is None:
        return
    days = Project.objects.values_list("retention_idle_days", flat=True).get(id=project)
    if days is not None and idle_days >= days:
        return
    meant = threads.list_stored_names(thread, bound=bound)
    rows = threads.filter_visible(project, bound=bound).filter(name__in=meant)
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


def set_lifetimes(
    project: Project,
    *,
    default_ttl_seconds: int | None,
    grace_seconds: int | None,
    actor: str = COMMAND_ACTOR,
) -> None:
    """Set the default time to live of keys, and how long expired values are kept.

    None for either is for ever. Raises InvalidError on a time to live outside 1, or a
    grace outside 0, to 31,536,000 seconds. Agents follow the setting within a second;
    with a shorter grace the worker's next round erases the values whose grace is over.
    """
    require_lifetimes(
        default_ttl_seconds=default_ttl_seconds, grace_seconds=grace_seconds
    )
    project.default_ttl_seconds = default_ttl_seconds
    project.expired_value_grace_seconds = grace_seconds
    fields = ["default_ttl_seconds", "expired_value_grace_seconds"]
    _save_change(project, fields, area="lifetimes", actor=actor)


def require_lifetimes(
    *, default_ttl_seconds: int | None, grace_seconds: int | None
) -> None:
    """Raise InvalidError unless both lifetimes are within their bounds."""
    for loc, seconds, least in (
        ("default_ttl_seconds", default_ttl_seconds, 1),
        ("expired_value_grace_seconds", grace_seconds, 0),
    ):
        if seconds is not None and not least <= seconds <= MOST_TTL_SECONDS:
            raise InvalidError(loc=loc, least=least, most=MOST_TTL_SECONDS)


def write_change(
    project: Project, write: Callable[[], Any], *, area: str, actor: str
) -> None:
    """Write rows about the project through the writer, with an audit entry.

    The entry names the area of the settings, such as `prices`, and no value.
    """
    journal.run(partial(_write_audited, project, write, area=area, actor=actor))


def _save_change(
    project: Project, fields: Sequence[str], *, area: str, actor: str
) -> None:
    """Save the fields through the writer, with an audit entry."""
    save = partial(project.save, update_fields=fields)
    write_change(project, save, area=area, actor=actor)


def _write_audited(
    project: Project, write: Callable[[], Any], *, area: str, actor: str
) -> None:
    """Write and append an audit entry in one transaction; runs in the writer."""
    with transaction.atomic():
        fence.require_active(project.id)
        write()
        _audit_project(
            "project.changed", project, actor=actor, route=f"settings/{area}"
        )


def _audit_project(
    action: str, project: Project, *, actor: str, route: str | None = None
) -> None:
    """Append an audit entry about the project; call inside a transaction."""
    audit.append(
        actor=actor,
        action=action,
        project=project.id,
        target_kind="project",
        target_id=str(project.id),
        route=route,
    )


def _require_thread_limit(max_threads: int) -> None:
    """Raise InvalidError unless the limit of threads is within its bounds."""
    if not 1 <= max_threads <= MOST_THREADS:
        raise InvalidError(loc="max_threads", least=1, most=MOST_THREADS)


def get_default_ttl(project: Project) -> timedelta | None:
    """Get the time to live of keys whose agent and thread set none."""
    seconds = project.default_ttl_seconds
    return None if seconds is None else timedelta(seconds=seconds)
