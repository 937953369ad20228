"""Tombstones of values, looked up by the value. Never writes.

Only a caller who still has the value can find its tombstone, which holds only a
keyed digest.
"""

from __future__ import annotations

from collections.abc import Iterator

from memoryhub.errors import Refusal
from memoryhub.journal.rows import tombstones
from memoryhub.kernel.text import strict_json
from memoryhub.models.erasures import Tombstone
from memoryhub.models.subjects import Subject
from memoryhub.queries.tombstones import TombstoneLine, get_tombstone
from memoryhub.vault.keys import keys


def find_value(subject: Subject, text: str) -> tuple[TombstoneLine, ...]:
    """Return the tombstones that keep this value out, as text or as JSON.

    Two queries.
    """
    opened = keys.get_subject_keys(subject.id, epoch=subject.epoch)
    digests = {
        digest
        for value in _iter_possible_values(text)
        if (digest := tombstones.digest_value(opened, value)) is not None
    }
    rows = Tombstone.objects.filter(
        subject=subject, kind=Tombstone.Kind.VALUE, digest__in=digests
    )
    found = rows.order_by("-created_at").values_list("id", flat=True)
    return tuple(get_tombstone(subject.project_id, each) for each in found)


def _iter_possible_values(text: str) -> Iterator[object]:
    """Yield the values that a pasted text may stand for."""
    yield text
    try:
        yield strict_json.parse(text.encode(), strict_json.CONTENT)
    except (Refusal, ValueError):
        return
