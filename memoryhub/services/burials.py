"""Burials: threads that a restored backup has never heard of, and whose names are dead.

They were made and erased after it was taken. Nothing of them is left to erase; but the
ledger's line has the digest of the name, which nobody may use again.
"""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction

from memoryhub.journal import tombstones
from memoryhub.models.clock import clock
from memoryhub.models.erasures import Erasure
from memoryhub.models.subjects import Subject
from memoryhub.services import erasure_plans, ledgers, subjects
from memoryhub.vault.ledger import Line


def placed(line: Line) -> Line | None:
    """The line, if it is one of these, under somebody who is known here.

    A person who is unknown herself is not made anew for it: her user id is not dead.
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
        digest = ledgers.name_digest(line)
        assert digest is not None
        tombstones.lay_names(row, [digest])
        ledgers.apply(line)
