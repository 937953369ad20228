"""The columns that lists of threads sort by: copies of what moves with every event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Case, F, IntegerField, Value, When
from django.db.models.functions import Least

from memoryhub.kernel.state.paging import EXCHANGES_KEPT, lately
from memoryhub.models.threads import UNRATED

#: Each copy, and the column that it is of.
COPIES = {
    "listed_slots": "slot_count",
    "listed_turns": "turn_count",
    "listed_tokens": "token_count",
    "listed_resident": "resident_tokens",
    "listed_faults": "fault_count",
}


def copied(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Copy what a thread's row is about to hold."""
    listed = {copy: columns[column] for copy, column in COPIES.items()}
    exchanges = lately(columns["exchange_count"])
    faulted = columns["faulted_lately_count"]
    rate = 1_000 - faulted * 1_000 // exchanges if exchanges else UNRATED
    return {**listed, "listed_rate": rate}


def expressions() -> dict[str, F | Case]:
    """Copy what threads' rows hold, in a statement."""
    last = Least(F("exchange_count"), Value(EXCHANGES_KEPT))
    rate = Case(
        When(exchange_count=0, then=Value(UNRATED)),
        default=Value(1_000) - F("faulted_lately_count") * 1_000 / last,
        output_field=IntegerField(),
    )
    return {copy: F(column) for copy, column in COPIES.items()} | {"listed_rate": rate}
