"""Privacy declarations: contents of each model field, and the fate of rows on erasure.

Each model declares its own `privacy`. Export, counts, erasure and scan follow the
declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from types import MappingProxyType
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.db.models import Model, Q


class Holds(Flag):
    """Kinds of data in a field; several for a field with parts, such as JSON."""

    SEALED = auto()
    DIGEST = auto()
    #: Name chosen by a client, unencrypted.
    NAME = auto()
    ID = auto()
    NUMBER = auto()
    #: Word of a closed vocabulary; truth values too.
    WORD = auto()
    TIME = auto()
    #: Data about operators or the installation, never about a subject.
    STAFF = auto()
    #: Name that staff gave a project, an operator or a role.
    TITLE = auto()


class Fate(StrEnum):
    """Effect of erasing a subject on its data in a place."""

    NULLED = "sealed bytes become NULL, names their digests; the place stays"
    DELETED = "the rows are deleted"
    BLANKED = "names become their digests, the rest NULL; the row stays"
    DESTROYED = "destroyed and scrubbed"
    VOID = "void by head and epoch before it is used; gone with the process"
    PASSES = "goes by itself within seconds; nothing to do"
    ROTATES = "kept as it holds ids only; gone after its time"
    STAYS = "kept: it holds ids, counts and keyed digests only"
    NOT_ITS = "it holds nothing of a subject"


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns of a row that name the journal records that the row is about."""

    thread: str
    seq: str
    #: The reference counts only while all these columns are NULL.
    unless: tuple[str, ...] = ()
    #: Column with the last seq, if the row is about a range from `seq` on.
    until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """Privacy declaration of a model: contents of fields, and rows of a subject."""

    holds: Mapping[str, Holds]
    #: Lookup from a row to its subject's id, for finding, export, erasure and counts.
    #: None where rows are about no subject.
    subject: str | None = None
    #: Lookup from a row to its thread's id, if `subject` does not pass the thread.
    of_thread: str | None = None
    #: File of the export that shows the rows; None where no file needs to.
    exported: str | None = None
    forget: Fate = Fate.NOT_ITS
    #: Filter, where rows stay, of the rows that still hold data to erase.
    remaining: Q = field(default_factory=Q)
    #: References by which the row is erased together with single records.
    references: tuple[Reference, ...] = ()
    #: Live forks read an erased thread's rows, which stay until those forks end.
    read_by_forks: bool = False
    #: Rows come and go without events, so their changes do not make a plan stale.
    passing: bool = False

    @property
    def thread(self) -> str | None:
        """Lookup from a row to its thread's id; None for rows without a thread."""
        if self.of_thread is not None:
            return self.of_thread
        return "thread" if self.subject == "thread__subject" else None


def parse_fields(**named: str) -> Mapping[str, Holds]:
    """Parse `id="a b", name_word="c"`: a and b hold ids, c names and words."""
    found: dict[str, Holds] = {}
    for classes, names in named.items():
        holds = Holds(0)
        for word in classes.split("_"):
            holds |= Holds[word.upper()]
        for name in names.split():
            assert name not in found
            found[name] = holds
    return MappingProxyType(found)


#: Declarations for Django's own tables, whose models can't declare `privacy`.
_FOREIGN: Final[Mapping[str, Privacy]] = MappingProxyType(
    {
        "contenttypes.ContentType": Privacy(
            holds=parse_fields(id="id", word="app_label model")
        ),
        "auth.Permission": Privacy(
            holds=parse_fields(id="id content_type", word="name codename")
        ),
        "auth.Group": Privacy(holds=parse_fields(id="id", title="name")),
        "auth.Group_permissions": Privacy(holds=parse_fields(id="id group permission")),
        "sessions.Session": Privacy(
            holds=parse_fields(staff="session_key session_data", time="expire_date")
        ),
    }
)


def list_declared_models() -> dict[type[Model], Privacy]:
    """List every model that declares its privacy; the check finds the other models."""
    models = apps.get_models(include_auto_created=True)
    found = {model: _find_declaration(model) for model in models}
    return {model: privacy for model, privacy in found.items() if privacy}


def iter_undeclared(models: Iterable[type[Model]]) -> Iterator[str]:
    """Yield undeclared models and fields, and declarations without a field."""
    for model in models:
        label, privacy = model._meta.label, _find_declaration(model)
        if privacy is None:
            yield label
            continue
        columns = {column.name for column in model._meta.local_concrete_fields}
        differing = sorted(columns ^ privacy.holds.keys())
        yield from (f"{label}.{name}" for name in differing)


def check_declarations(*_: Any, **__: Any) -> list[CheckMessage]:
    """Report models whose contents and fate on erasure are not declared.

    Skips apps without migrations, which have no tables.
    """
    migrations: Mapping[str, str | None] = settings.MIGRATION_MODULES
    without = {app for app, module in migrations.items() if module is None}
    models = [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.app_label not in without
    ]
    return [
        Error(
            f"{place} does not say what it holds.",
            hint="Declare `privacy` on the model, with each of its fields.",
            id="memoryhub.E002",
        )
        for place in iter_undeclared(models)
    ]


def _find_declaration(model: type[Model]) -> Privacy | None:
    """Find the declaration on the model itself: declarations are not inherited."""
    privacy: Privacy | None = vars(model).get("privacy")
    return privacy or _FOREIGN.get(model._meta.label)
