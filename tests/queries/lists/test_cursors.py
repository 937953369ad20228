from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from django.test import override_settings

from memoryhub.errors import BadCursorError
from memoryhub.queries.lists.cursors import MAX_CHARS, ListScope, count_fitting

LISTING = ListScope(name="threads", project=UUID(int=1), filters={"status": "open"})


def test_cursor_round_trips_its_position() -> None:
    assert LISTING.open(LISTING.seal([3, "a", None])) == [3, "a", None]


@pytest.mark.parametrize(
    "other",
    [
        replace(LISTING, name="slots"),
        replace(LISTING, project=UUID(int=2)),
        replace(LISTING, filters={"status": "closed"}),
        replace(LISTING, filters=None),
    ],
)
def test_cursor_opens_in_its_own_list_only(other: ListScope) -> None:
    with pytest.raises(BadCursorError):
        other.open(LISTING.seal([3]))


def test_cursor_of_another_key_does_not_open() -> None:
    cursor = LISTING.seal([3])
    with override_settings(SECRET_KEY="another"), pytest.raises(BadCursorError):
        LISTING.open(cursor)


def test_changed_cursor_never_opens() -> None:
    cursor = LISTING.seal([3, "name"])
    for place, letter in enumerate(cursor):
        changed = "A" if letter != "A" else "B"
        for text in (
            cursor[:place],
            cursor[:place] + changed + cursor[place + 1 :],
            f"{cursor[:place]} {cursor[place:]}",
        ):
            with pytest.raises(BadCursorError):
                LISTING.open(text)
    with pytest.raises(BadCursorError):
        LISTING.open("x" * (MAX_CHARS + 1))


@pytest.mark.parametrize(
    ("sizes", "count"),
    [([], 0), ([9], 1), ([9, 1], 1), ([2, 3], 2), ([2, 3, 1], 2), ([0] * 9, 9)],
)
def test_list_part_ends_at_its_bytes_but_has_at_least_one_item(
    sizes: list[int], count: int
) -> None:
    assert count_fitting(sizes, max_bytes=5) == count
