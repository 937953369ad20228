"""The statements that every append sends, written once.

The ORM builds each statement anew, which costs more than sealing and chaining the
event. Columns and their conversion still come from the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import connections, models
from django.db.models import Field, Model

from memoryhub.models.events import Event
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread

#: Fields whose values both drivers take as they are.
_PLAIN = (
    models.BinaryField,
    models.BooleanField,
    models.CharField,
    models.IntegerField,
    models.TextField,
)


class Columns:
    """Values of some fields, as the database's driver wants them."""

    def __init__(self, fields: Sequence[Field[Any, Any]]) -> None:
        self.names = [field.attname for field in fields]
        self.quoted = [f'"{field.column}"' for field in fields]
        self._odd = [
            (place, field)
            for place, field in enumerate(fields)
            if not isinstance(field, _PLAIN)
        ]

    def prepared(self, values: list[Any]) -> list[Any]:
        connection = connections["default"]
        for place, field in self._odd:
            values[place] = field.get_db_prep_save(values[place], connection)
        return values


class Insert:
    """An INSERT of whole rows of one model."""

    def __init__(self, model: type[Model]) -> None:
        self.columns = Columns([*model._meta.concrete_fields])
        names = ", ".join(self.columns.quoted)
        places = ", ".join(["%s"] * len(self.columns.names))
        table = model._meta.db_table
        self.sql = f'INSERT INTO "{table}" ({names}) VALUES ({places})'  # noqa: S608 # models' own names

    def rows(self, rows: Sequence[Model]) -> None:
        """Insert them, in one call."""
        if not rows:
            return
        read = attrgetter(*self.columns.names)
        values = [self.columns.prepared([*read(row)]) for row in rows]
        with connections["default"].cursor() as cursor:
            cursor.executemany(self.sql, values)


class Move:
    """An UPDATE of some columns of threads whose head is where it was expected."""

    def __init__(self, *names: str) -> None:
        fields: list[Any] = [Thread._meta.get_field(name) for name in names]
        self.names = names
        self.columns = Columns([*fields, Thread._meta.pk])
        sets = ", ".join(f"{column} = %s" for column in self.columns.quoted[:-1])
        self.sql = (
            f'UPDATE "{Thread._meta.db_table}" SET {sets} '  # noqa: S608 # models' own names
            'WHERE "id" = %s AND "head_seq" = %s'
        )

    def rows(self, moves: Sequence[tuple[dict[str, Any], UUID, int]]) -> int:
        """Move (new values, thread id, expected head) each; how many rows were."""
        values = [
            [
                *self.columns.prepared([*(new[name] for name in self.names), thread]),
                expected,
            ]
            for new, thread, expected in moves
        ]
        with connections["default"].cursor() as cursor:
            cursor.executemany(self.sql, values)
            moved: int = cursor.rowcount
            return moved


EVENTS, SLOTS, TURNS = Insert(Event), Insert(Slot), Insert(Turn)
