"""Times that come from outside."""

from __future__ import annotations

from typing import Final

#: The years that are taken.
YEARS: Final = range(1970, 2201)
