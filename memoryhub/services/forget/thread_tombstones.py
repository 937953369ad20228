"""Tombstones of threads that a restored backup never had, so that names stay dead.

They were made and erased after it was taken. Nothing of them is left to erase; but the
ledger's line has the digests of their names, which nobody may use again.
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
from memoryhub.vault.proof.ledger import Line

_AT_ONCE: Final = 1_000


def placed(line: Line) -> Line | None:
    """Return the line, if it is one of these, under somebody who is known here.

    A person who is unknown is not made anew for it: its user id is not dead.
    """
    if not ledgers.unheard([line]):
        return None
    if Subject.objects.filter(id=line.subject).exists():
        return line
    return replace(line, subject=subjects.anonymous(line.project).id)


def lay(row: Erasure, line: Line) -> None:
    """Lay the tombstones of a person's threads, as the line of its erasure names them.

    In short transactions; a repeat goes on. Those that are here are laid once more when
    they end, which changes nothing.
    """
    digests = ledger_targets.names_digests(line)
    for start in range(0, len(digests), _AT_ONCE):
        batch = digests[start : start + _AT_ONCE]
        journal.run(partial(_lay, row, batch))


def _lay(row: Erasure, digests: Sequence[bytes]) -> None:
    with transaction.atomic():
        tombstones.lay_names(row, digests)
