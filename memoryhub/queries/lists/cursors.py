"""Cursors: where a list goes on, as text that only the same list takes back. Pure.

A cursor is signed under a name made of the list, the project and the filters, so one
that is forged, cut or of another list does not open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

import orjson
from django.core.signing import BadSignature, Signer

from memoryhub.errors import BadCursorError

Item = TypeVar("Item")

#: Longer ones are none of ours; refusing early keeps the check cheap.
MAX_CHARS = 1024
#: Content that one part of a list carries at most, unless its first item alone is more.
PART_BYTES = 4 * 2**20


def fitting(sizes: Iterable[int], *, max_bytes: int) -> int:
    """Count the leading items that go into one part: at least one, if any."""
    count = total = 0
    for size in sizes:
        total += size
        if count and total > max_bytes:
            break
        count += 1
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[Item]):
    """A part of a list, and the cursor of the part after it; None at the end."""

    items: tuple[Item, ...]
    next: str | None


def walk(part: Callable[[str | None], Batch[Item]]) -> Iterator[tuple[Item, ...]]:
    """Yield all parts of a list; `part` gives the one at a cursor, None the first."""
    after: str | None = None
    while True:
        batch = part(after)
        yield batch.items
        if batch.next is None:
            return
        after = batch.next


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a cursor belongs to. `filters` are plain JSON values."""

    name: str
    project: UUID
    filters: Any = None

    def seal(self, position: list[Any]) -> str:
        """Return the cursor of a position, which is plain JSON values."""
        return self._signer().sign_object(position, serializer=_Plain)

    def open(self, cursor: str) -> list[Any]:
        """Return the position of a cursor. Raises BadCursorError."""
        if len(cursor) > MAX_CHARS:
            raise BadCursorError
        try:
            position: list[Any] = self._signer().unsign_object(
                cursor, serializer=_Plain
            )
        except (BadSignature, ValueError):
            raise BadCursorError from None
        return position

    def _signer(self) -> Signer:
        place = orjson.dumps(
            [self.name, self.project, self.filters], option=orjson.OPT_SORT_KEYS
        )
        return Signer(salt=f"memoryhub.cursor:{place.decode()}")


class _Plain:
    """JSON as Django's signing asks for it; a cursor is trusted once it is signed."""

    @staticmethod
    def dumps(position: object) -> bytes:
        return orjson.dumps(position)

    @staticmethod
    def loads(text: bytes) -> Any:
        return orjson.loads(text)
