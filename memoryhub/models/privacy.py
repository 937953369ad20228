"""Privacy: what each field of a model may hold, and what forgetting does to its rows.

Declared on the model itself, so that a new table comes with its answer: it is exported,
counted, erased and looked through by what it declares.
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
    """What may stand in a field. Several for a field that has parts, such as JSON."""

    SEALED = auto()
    DIGEST = auto()
    #: Chosen by a client, in the clear.
    NAME = auto()
    ID = auto()
    NUMBER = auto()
    #: Of a closed vocabulary; truth values too.
    WORD = auto()
    TIME = auto()
    #: About operators or the installation itself, never about a subject.
    STAFF = auto()
    #: What staff call a project, each other or a role.
    TITLE = auto()


class Fate(StrEnum):
    """What forgetting a subject does to its part of a place."""

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
    """Columns by which a row says where, in which journal, lies what it is about."""

    thread: str
    seq: str
    #: It counts only while all of these are NULL.
    unless: tuple[str, ...] = ()
    #: The row is about all from `seq` to this one.
    until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """What a model's fields hold, and the subject's part of its rows."""

    holds: Mapping[str, Holds]
    #: The lookup from a row to its subject's id: finds, exports, erases and counts
    #: that part. None where rows are about no subject.
    subject: str | None = None
    #: The lookup from a row to its thread's id, where `subject` does not lead over it.
    of_thread: str | None = None
    #: The part of the export that shows the rows; None where none needs to.
    exported: str | None = None
    forget: Fate = Fate.NOT_ITS
    #: Where rows stay: those that still hold what has to go.
    remaining: Q = field(default_factory=Q)
    #: By these it goes with single records, whosever they are.
    references: tuple[Reference, ...] = ()
    #: Live forks read through an erased thread's rows, which stay for as long.
    read_by_forks: bool = False
    #: Rows come and go by themselves, with no event: a plan is none the staler for it.
    passing: bool = False

    @property
    def thread(self) -> str | None:
        """The lookup from a row to its thread's id; None where it has none."""
        if self.of_thread is not None:
            return self.of_thread
        return "thread" if self.subject == "thread__subject" else None


def fields(**named: str) -> Mapping[str, Holds]:
    """Read `id="a b", name_word="c"`: a and b hold ids, c names and words."""
    found: dict[str, Holds] = {}
    for classes, names in named.items():
        holds = Holds(0)
        for word in classes.split("_"):
            holds |= Holds[word.upper()]
        for name in names.split():
            assert name not in found
            found[name] = holds
    return MappingProxyType(found)


#: Tables of Django's own, whose models can't declare it.
_FOREIGN: Final[Mapping[str, Privacy]] = MappingProxyType(
    {
        "contenttypes.ContentType": Privacy(
            holds=fields(id="id", word="app_label model")
        ),
        "auth.Permission": Privacy(
            holds=fields(id="id content_type", word="name codename")
        ),
        "auth.Group": Privacy(holds=fields(id="id", title="name")),
        "auth.Group_permissions": Privacy(holds=fields(id="id group permission")),
        "sessions.Session": Privacy(
            holds=fields(staff="session_key session_data", time="expire_date")
        ),
    }
)


def tables() -> dict[type[Model], Privacy]:
    """List every model that declares it; the check finds those that do not."""
    models = apps.get_models(include_auto_created=True)
    found = {model: _declared(model) for model in models}
    return {model: privacy for model, privacy in found.items() if privacy}


def iter_undeclared(models: Iterable[type[Model]]) -> Iterator[str]:
    """Name models and fields that are not declared, and words for no field."""
    for model in models:
        label, privacy = model._meta.label, _declared(model)
        if privacy is None:
            yield label
            continue
        columns = {column.name for column in model._meta.local_concrete_fields}
        differing = sorted(columns ^ privacy.holds.keys())
        yield from (f"{label}.{name}" for name in differing)


def everything_declared(*_: Any, **__: Any) -> list[CheckMessage]:
    """Refuse a table of which nobody knows what it holds, or how it is forgotten.

    An app without migrations has none.
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


def _declared(model: type[Model]) -> Privacy | None:
    """Read what the model itself declares: nothing of it is inherited."""
    privacy: Privacy | None = vars(model).get("privacy")
    return privacy or _FOREIGN.get(model._meta.label)
