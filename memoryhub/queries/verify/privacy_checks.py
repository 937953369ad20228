"""Verdicts on what guards the memory of people, and what to do about each.

Never writes. Cheap looks only: `manage.py verify` and `manage.py scan` walk everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from django.db import Error
from django.db.models import Min, QuerySet

from memoryhub.errors import KeyMissingError, LedgerBrokenError, StartRefusedError
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Erasure
from memoryhub.models.keys import KekCheck, KeyMeta
from memoryhub.models.projects import Instance, Project
from memoryhub.queries.forget.erasures import CLOSED, LATE
from memoryhub.vault.keys import keyring, rotation
from memoryhub.vault.proof import anchors, ledger, signing
from memoryhub.vault.proof.chains import AHEAD, BEHIND

State = Erasure.State
#: A wish has to be answered within (Article 12 of the GDPR); said when so near.
ANSWERED_WITHIN: Final = timedelta(days=30)
NEAR: Final = timedelta(days=7)
#: Anchors are written every hour, scans are made every night.
ANCHORED_WITHIN: Final = timedelta(hours=2)
SCANNED_WITHIN: Final = timedelta(days=2)
#: What is wrong with the end of a signed file, and what to do about it.
_NOT_OURS: Final = ("Its last line is none of ours.", "Put back its last good copy.")
_BROKEN: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        BEHIND: ("It ends before what was written.", "Put back its longest copy."),
        AHEAD: (
            "It goes further than the keys database knows.",
            "See whether that was restored.",
        ),
    }
)
#: Planned, not begun: nobody waits for these but who made them.
_WISHES: Final = (*CLOSED, State.PLANNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One thing that was looked at: `ok`, `warn`, `away`; empty: too little to tell."""

    name: str
    state: str
    said: str
    #: What to do about it; empty when nothing has to be done.
    fix: str = ""
    #: Of `manage.py`, which does that.
    command: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


def list_verdicts(project: Project, *, now: datetime) -> tuple[Verdict, ...]:
    """What there is to say, worst news included. At most fifteen small queries."""
    looks: Mapping[str, Callable[[], Verdict]] = {
        "ledger": _ledger,
        "anchors": lambda: _anchors(now),
        "keys database": _keys,
        "key ring": _ring,
        "backup of the ring": _backup,
        "last scan": lambda: _scan(now),
        "unfinished erasures": lambda: _unfinished(project, now),
        "answers in 30 days": lambda: _deadlines(project, now),
    }
    return tuple(_looked(name, look) for name, look in looks.items())


def count_late(project: Project, *, now: datetime) -> int:
    """Erasures of the project confirmed a while ago and not complete. One query."""
    return _under_way(project).filter(confirmed_at__lt=now - LATE).count()


def _looked(name: str, look: Callable[[], Verdict]) -> Verdict:
    try:
        return look()
    except (Error, OSError, StartRefusedError, KeyMissingError) as failure:
        said = "It could not be looked at."
        return _verdict(name, "away", said, code=type(failure).__name__)


def _verdict(
    name: str,
    state: str,
    said: str,
    fix: str = "",
    *,
    command: str = "",
    **figures: Any,
) -> Verdict:
    return Verdict(
        name=name, state=state, said=said, fix=fix, command=command, figures=figures
    )


def _ledger() -> Verdict:
    name, here = "ledger", Instance.objects.get()
    try:
        signing.check()
        last = ledger.head()
    except LedgerBrokenError as broken:
        said, fix = _BROKEN.get(str(broken.detail.get("what")), _NOT_OURS)
        if broken.detail.get("file") == signing.FILE:
            said, fix = "A key beside it is none of ours.", "Put back their list."
        return _verdict(name, "away", said, fix)
    n = last.n if last else 0
    figures: dict[str, Any] = {"lines": n, "memory": here.ledger_n}
    if n < here.ledger_n:
        said, fix = "It ends before what was applied.", "Put back its longest copy."
        return _verdict(name, "away", said, fix, **figures)
    if last and here.ledger_n == n and bytes(here.ledger_hash) != last.hash:
        said, fix = "Its last line is not what was applied.", "Put back its own copy."
        return _verdict(name, "away", said, fix, **figures)
    if here.ledger_n < n:
        said = "A line is being applied, or a backup was restored from before it."
        fix, command = "If it stays so:", "forget --replay"
        return _verdict(name, "warn", said, fix, command=command, **figures)
    return _verdict(name, "ok", "It ends where both databases stand.", **figures)


def _anchors(now: datetime) -> Verdict:
    name = "anchors"
    try:
        newest = anchors.newest()
    except LedgerBrokenError as broken:
        said, fix = _BROKEN.get(str(broken.detail.get("what")), _NOT_OURS)
        return _verdict(name, "away", said, fix)
    if newest is None:
        said = "No line vouches for the chains yet."
        return _verdict(name, "warn", said, "Wait an hour, or:", command="anchor")
    figures: dict[str, Any] = {"line": newest.n, "threads": newest.heads.threads}
    if now - newest.at > ANCHORED_WITHIN:
        said, fix = "The newest line is old.", "See whether the worker runs."
        return _verdict(name, "warn", said, fix, at=newest.at, **figures)
    said = "A signed line outside the database vouches for the chains."
    return _verdict(name, "ok", said, at=newest.at, **figures)


def _keys() -> Verdict:
    name, meta = "keys database", KeyMeta.objects.using("keys").get()
    if meta.instance != Instance.objects.get().id:
        said = "It is another instance's."
        return _verdict(name, "away", said, "Connect the one of this memory.")
    return _verdict(name, "ok", "It is the one of this memory.")


def _ring() -> Verdict:
    """The KEKs with the rows under each, and how far a rotation is."""
    name, rows, left = "key ring", keyring.rows_per_kek(), rotation.remaining()
    current = keyring.ring().current_id
    figures: dict[str, Any] = {
        f"{kek}{' (current)' if kek == current else ''}": rows.get(kek, 0)
        for kek in sorted({*rows, *keyring.ring().ids})
    }
    if left:
        whole = sum(rows.values())
        said = f"A rotation is under way: {whole - left:,} of {whole:,} keys moved."
        fix, command = "Go on with it:", "keys rotate"
        return _verdict(name, "warn", said, fix, command=command, **figures)
    return _verdict(name, "ok", "All keys are under the current one.", **figures)


def _backup() -> Verdict:
    name, current = "backup of the ring", keyring.ring().current_id
    rows = KekCheck.objects.using("keys").filter(kek_id=current)
    at = rows.values_list("backed_up_at", flat=True).first()
    if at is None:
        said = "Without a copy of the ring nothing can be read should it be lost."
        return _verdict(name, "warn", said, "Make one:", command="keys backup FILE")
    return _verdict(name, "ok", "The current key stands in a backup.", at=at)


def _scan(now: datetime) -> Verdict:
    name = "last scan"
    rows = AuditEntry.objects.order_by("-seq").values_list("at", "outcome")
    scanned = rows.filter(action="scanned").first()
    if scanned and scanned[1] != "done":
        # An erasure that was verified since then was looked for alone.
        said, fix = "It found what should be gone, or proved nothing.", "See where:"
        return _verdict(name, "away", said, fix, command="scan", at=scanned[0])
    verified = rows.filter(action="erasure.verified").first()
    ats = [each[0] for each in (scanned, verified) if each]
    if not ats:
        return _verdict(name, "", "Nothing was erased yet, so nothing was scanned.")
    at = max(ats)
    if now - at > SCANNED_WITHIN:
        said, fix = "It is a while ago.", "Make another one:"
        return _verdict(name, "warn", said, fix, command="scan", at=at)
    return _verdict(name, "ok", "It found nothing undeclared.", at=at)


def _unfinished(project: Project, now: datetime) -> Verdict:
    name, rows = "unfinished erasures", _under_way(project)
    waiting = sorted(
        {word for word in rows.values_list("waiting_on", flat=True) if word}
    )
    late, under_way = count_late(project, now=now), rows.count()
    figures: dict[str, Any] = {"under_way": under_way, "late": late}
    if late:
        said = "Some were confirmed more than 5 minutes ago"
        said += f" and wait for: {', '.join(waiting)}." if waiting else "."
        return _verdict(name, "away", said, "Open them: each says why.", **figures)
    said = (
        "All that begins comes to its end." if not under_way else "Some are going on."
    )
    return _verdict(name, "ok", said, **figures)


def _deadlines(project: Project, now: datetime) -> Verdict:
    """Wishes that were confirmed and are not done: held ones too."""
    name = "answers in 30 days"
    rows = Erasure.objects.filter(project=project).exclude(state__in=_WISHES)
    oldest = rows.aggregate(Min("created_at"))["created_at__min"]
    days = ANSWERED_WITHIN.days
    if oldest is None:
        return _verdict(name, "ok", "Nobody waits for an answer.", days=days)
    due = oldest + ANSWERED_WITHIN
    figures: dict[str, Any] = {"days": days, "due": due}
    if due <= now:
        said, fix = "A wish is overdue.", "Finish it, or tell the person why not."
        return _verdict(name, "away", said, fix, **figures)
    if due - now < NEAR:
        said, fix = "A wish is due soon.", "Finish it, or tell the person why not."
        return _verdict(name, "warn", said, fix, **figures)
    return _verdict(name, "ok", "The oldest wish has time.", **figures)


def _under_way(project: Project) -> QuerySet[Erasure]:
    rows = Erasure.objects.filter(project=project).exclude(confirmed_at=None)
    return rows.exclude(state__in=(*CLOSED, State.HELD))
