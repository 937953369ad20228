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
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.forget import erasure_plans, ledger_targets, ledgers
from memoryhub.services.people import subjects
from memoryhub.vault.proof.ledger import Line

_AT_ONCE: Final = 1_000


def placed(line: Line) -> Line | None:
    """The line, if it is one of these, under somebody who is known here.

    A person who is unknown is not made anew for it: its user id is not dead.
    """
    if not ledgers.unheard([line]):
        return None
    if Subject.objects.filter(id=line.subject).exists():
        return line
    return replace(line, subject=subjects.anonymous(line.project).id)


def bury(line: Line, *, actor: str) -> None:
    """Lay the tombstone, with an erasure that has no rows left to take.

    It goes on from there: what is scanned and signed is that there is none.
    """
    now = clock.now()
    with transaction.atomic():
        owner = Subject.objects.select_for_update().get(id=line.subject)
        row = Erasure.objects.create(
            id=line.erasure,
            project_id=line.project,
            subject=owner,
            scope=line.scope,
            reason=line.reason,
            ticket=line.ticket,
            actor=actor,
            epoch=owner.epoch,
            state=Erasure.State.ROWS_ERASED,
            planned=erasure_plans.text({"count": 0, "places": {}}),
            targets=erasure_plans.text({"heads": [[line.targets[0], 0]], "ranges": []}),
            ledger_n=line.n,
            created_at=line.at,
            expires_at=now,
            confirmed_at=now,
            updated_at=now,
        )
        digest = ledger_targets.name_digest(line)
        assert digest is not None
        tombstones.lay_names(row, [digest])
        ledgers.apply(line)


def lay(row: Erasure, line: Line) -> None:
    """Lay the tombstones of a person's threads, as the line of its erasure names them.

    In short transactions; a repeat goes on. Those that are here are laid once more when
    they end, which changes nothing.
    """
    digests = ledger_targets.names_digests(line)
    for start in range(0, len(digests), _AT_ONCE):
        some = digests[start : start + _AT_ONCE]
        journal.run(partial(_lay, row, some))


def _lay(row: Erasure, digests: Sequence[bytes]) -> None:
    with transaction.atomic():
        tombstones.lay_names(row, digests)
