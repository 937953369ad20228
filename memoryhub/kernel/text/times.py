"""Times from outside, from clients and from models."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from typing import Any, Final

from memoryhub.errors import InvalidError

#: The years that are accepted.
YEARS: Final = range(1970, 2201)

_RFC3339 = re.compile(
    r"(\d{4})-\d\d-\d\d[Tt](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


def read(value: object, *, loc: str = "") -> datetime:
    """Parse a moment by RFC 3339, as UTC.

    Raises InvalidError `time`, or `time_range` outside the accepted years.
    """
    shape = _RFC3339.fullmatch(value) if isinstance(value, str) else None
    if shape is None:
        raise InvalidError(code="time", loc=loc)
    # A change of zone would overflow in the first and last years of datetime.
    if int(shape[1]) not in YEARS:
        raise InvalidError(code="time_range", loc=loc)
    try:
        moment = datetime.fromisoformat(shape[0].upper()).astimezone(UTC)
    except ValueError:
        raise InvalidError(code="time", loc=loc) from None
    if moment.year not in YEARS:
        raise InvalidError(code="time_range", loc=loc)
    return moment


def parse_instant(text: Any) -> datetime | None:
    """Parse an instant that a model wrote, as UTC; None for anything else.

    Accepts a time with its offset, or a date as the begin of that day in UTC, in the
    accepted years.
    """
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            whole = len(text) == 10 and found.time() == time()
            return _keep_in_years(found.replace(tzinfo=UTC)) if whole else None
        return _keep_in_years(found.astimezone(UTC))
    except (ValueError, OverflowError):
        return None


def _keep_in_years(found: datetime) -> datetime | None:
    return found if found.year in YEARS else None
