"""Tombstones of threads that a restored backup never had, so that names stay dead.

The threads were made and erased after the backup. Nothing else of these threads is left
to erase; but the ledger's line has the digests of their names, which no one may use
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from django.db import transaction

from memoryhub import journal
from memoryhub.journal.rows import tombstones
from memoryhub.models.erasures import Erasure
from memoryhub.models.subjects import Subject
from memoryhub.services.forget import ledger_targets, ledgers
from memoryhub.services.people import subjects
from memoryhub.vault.proof.ledger import LedgerLine

_AT_ONCE: Final = 1_000


def find_unknown_thread(line: LedgerLine) -> LedgerLine | None:
    """Return the line of an unknown thread, under a subject known here; else None.

    An unknown subject is not created for the line, as its user id is not dead: the line
    gets the anonymous subject.
    """
    if not ledgers.filter_unknown_threads([line]):
        return None
    if Subject.objects.filter(id=line.subject).exists():
        return line
    return replace(line, subject=subjects.get_anonymous(line.project).id)


def lay_tombstones(row: Erasure, line: LedgerLine) -> None:
    """Lay the tombstones of a subject's threads, as named in the erasure's line.

    Runs in short transactions; a repeat continues. Threads that exist here get the same
    tombstones again when they end, which changes nothing.
    """
    digests = ledger_targets.parse_names_digests(line)
    for start in range(0, len(digests), _AT_ONCE):
        batch = digests[start : start + _AT_ONCE]
        journal.run(partial(_lay_batch, row, batch))


def _lay_batch(row: Erasure, digests: Sequence[bytes]) -> None:
    """Lay one batch of tombstones in a transaction."""
    with transaction.atomic():
        tombstones.lay_names(row, digests)
