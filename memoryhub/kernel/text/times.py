"""Times that come from outside."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from memoryhub.errors import InvalidError

#: The years that are taken.
YEARS: Final = range(1970, 2201)

_RFC3339 = re.compile(
    r"(\d{4})-\d\d-\d\d[Tt](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


def read(value: object, *, loc: str = "") -> datetime:
    """Parse a moment by RFC 3339, as UTC.

    Raises InvalidError `time`, or `time_range` outside the years that are taken.
    """
    shape = _RFC3339.fullmatch(value) if isinstance(value, str) else None
    if shape is None:
        raise InvalidError(code="time", loc=loc)
    # The first and last years a datetime can hold do not bear a change of zone.
    if int(shape[1]) not in YEARS:
        raise InvalidError(code="time_range", loc=loc)
    try:
        moment = datetime.fromisoformat(shape[0].upper()).astimezone(UTC)
    except ValueError:
        raise InvalidError(code="time", loc=loc) from None
    if moment.year not in YEARS:
        raise InvalidError(code="time_range", loc=loc)
    return moment
