"""Cursors: positions in a list, signed so that no other list accepts a cursor. Pure.

The signature's salt is made of the list, the project and the filters. A cursor that is
forged, cut or of another list does not open.
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

#: Longest cursor that is accepted; refusing early keeps the check cheap.
MAX_CHARS = 1024
#: Most bytes of content in a batch, unless its first item alone has more.
PART_BYTES = 4 * 2**20


def count_fitting(sizes: Iterable[int], *, max_bytes: int) -> int:
    """Count the leading items that fit into one batch: at least one, if any."""
    count = total = 0
    for size in sizes:
        total += size
        if count and total > max_bytes:
            break
        count += 1
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class ListBatch(Generic[Item]):
    """A part of a list, and the cursor of the next part; None at the end."""

    items: tuple[Item, ...]
    next: str | None


def iter_batches(
    part: Callable[[str | None], ListBatch[Item]],
) -> Iterator[tuple[Item, ...]]:
    """Yield the items of all batches; `part` returns the batch at a cursor or None."""
    after: str | None = None
    while True:
        batch = part(after)
        yield batch.items
        if batch.next is None:
            return
        after = batch.next


@dataclass(frozen=True, slots=True, kw_only=True)
class ListScope:
    """The list, project and filters of a cursor. `filters` are plain JSON values."""

    name: str
    project: UUID
    filters: Any = None

    def seal(self, position: list[Any]) -> str:
        """Return the cursor of a position, which is plain JSON values."""
        return self._build_signer().sign_object(position, serializer=_JsonSerializer)

    def open(self, cursor: str) -> list[Any]:
        """Return the position of a cursor. Raises BadCursorError."""
        if len(cursor) > MAX_CHARS:
            raise BadCursorError
        try:
            position: list[Any] = self._build_signer().unsign_object(
                cursor, serializer=_JsonSerializer
            )
        except (BadSignature, ValueError):
            raise BadCursorError from None
        return position

    def _build_signer(self) -> Signer:
        place = orjson.dumps(
            [self.name, self.project, self.filters], option=orjson.OPT_SORT_KEYS
        )
        return Signer(salt=f"memoryhub.cursor:{place.decode()}")


class _JsonSerializer:
    """JSON serializer for Django's signing; the signature makes the cursor trusted."""

    @staticmethod
    def dumps(position: object) -> bytes:
        return orjson.dumps(position)

    @staticmethod
    def loads(text: bytes) -> Any:
        return orjson.loads(text)
