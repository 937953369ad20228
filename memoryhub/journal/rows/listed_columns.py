"""Columns that lists of threads sort by: copies of columns that every event moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Case, F, IntegerField, Value, When
from django.db.models.functions import Least

from memoryhub.kernel.state.paging import EXCHANGES_KEPT, count_rated_exchanges
from memoryhub.models.threads import UNRATED

#: Each copy, and the column that it copies.
COPIES = {
    "listed_slots": "slot_count",
    "listed_turns": "turn_count",
    "listed_tokens": "token_count",
    "listed_resident": "resident_tokens",
    "listed_faults": "fault_count",
}


def copy_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the copies for the columns that are about to be written."""
    listed = {copy: columns[column] for copy, column in COPIES.items()}
    exchanges = count_rated_exchanges(columns["exchange_count"])
    faulted = columns["faulted_lately_count"]
    rate = 1_000 - faulted * 1_000 // exchanges if exchanges else UNRATED
    return {**listed, "listed_rate": rate}


def build_expressions() -> dict[str, F | Case]:
    """Return the copies as expressions over stored rows, for an UPDATE."""
    last = Least(F("exchange_count"), Value(EXCHANGES_KEPT))
    rate = Case(
        When(exchange_count=0, then=Value(UNRATED)),
        default=Value(1_000) - F("faulted_lately_count") * 1_000 / last,
        output_field=IntegerField(),
    )
    return {copy: F(column) for copy, column in COPIES.items()} | {"listed_rate": rate}
