"""Checks of privacy: ledger, anchors, keys, backups, scans, erasures. Never writes.

Each check has a verdict and a remedy. The checks are cheap: `manage.py verify` and
`manage.py scan` walk everything.
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
from memoryhub.vault.keys import keyring
from memoryhub.vault.proof import anchors, ledger, signing
from memoryhub.vault.proof.chains import AHEAD, BEHIND

State = Erasure.State
#: Time to answer a request to erase (Article 12 of the GDPR), and when to warn before.
ANSWERED_WITHIN: Final = timedelta(days=30)
NEAR: Final = timedelta(days=7)
#: Anchors are written every hour, scans are made every night.
ANCHORED_WITHIN: Final = timedelta(hours=2)
SCANNED_WITHIN: Final = timedelta(days=2)
#: Time after its making within which a key's first backup is expected.
BACKED_UP_WITHIN: Final = timedelta(days=1)
#: Faults at the end of a signed file, each with its remedy.
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
#: States of erasures that no person waits for: closed, or planned and unconfirmed.
_WISHES: Final = (*CLOSED, State.PLANNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyCheck:
    """Result of one check: `ok`, `warn`, `away`; empty: too little to tell."""

    name: str
    state: str
    text: str
    #: What to do; empty when nothing has to be done.
    fix: str = ""
    #: Command of `manage.py` for the fix.
    command: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    #: Since when the check is not well, where that is known.
    since: datetime | None = None


def list_checks(
    project: Project, *, now: datetime, counted: bool = True
) -> tuple[PrivacyCheck, ...]:
    """Run all checks of privacy, and return passed and failed checks alike.

    At most fifteen small queries; with `counted`, a count of all keys, too.
    """
    whole = list_server_checks(now=now, counted=counted)
    return whole + list_project_checks(project, now=now)


def list_server_checks(*, now: datetime, counted: bool) -> tuple[PrivacyCheck, ...]:
    """Run the checks that are the same for all projects."""
    checks: Mapping[str, Callable[[], PrivacyCheck]] = {
        "ledger": _check_ledger,
        "anchors": lambda: _check_anchors(now),
        "keys database": _check_keys,
        "key ring": lambda: _check_ring(counted=counted),
        "backup of the ring": lambda: _check_backup(now),
        "last scan": lambda: _check_scan(now),
    }
    return tuple(_run_check(name, check) for name, check in checks.items())


def list_project_checks(project: Project, *, now: datetime) -> tuple[PrivacyCheck, ...]:
    """Run the checks of one project's erasures. At most five queries."""
    checks: Mapping[str, Callable[[], PrivacyCheck]] = {
        "unfinished erasures": lambda: _check_unfinished(project, now),
        "answers in 30 days": lambda: _check_deadlines(project, now),
    }
    return tuple(_run_check(name, check) for name, check in checks.items())


def count_late(project: Project, *, now: datetime) -> int:
    """Count the project's erasures confirmed longer ago than LATE and not complete.

    One query.
    """
    return _select_under_way(project).filter(confirmed_at__lt=now - LATE).count()


def _run_check(name: str, check: Callable[[], PrivacyCheck]) -> PrivacyCheck:
    try:
        return check()
    except (Error, OSError, StartRefusedError, KeyMissingError) as failure:
        text = "It could not be looked at."
        return _build_check(name, "away", text, code=type(failure).__name__)


def _build_check(
    name: str,
    state: str,
    text: str,
    fix: str = "",
    *,
    command: str = "",
    since: datetime | None = None,
    **figures: Any,
) -> PrivacyCheck:
    return PrivacyCheck(
        name=name,
        state=state,
        text=text,
        fix=fix,
        command=command,
        since=since,
        figures=figures,
    )


def _check_ledger() -> PrivacyCheck:
    name, here = "ledger", Instance.objects.get()
    try:
        signing.check()
        last = ledger.get_newest()
    except LedgerBrokenError as broken:
        text, fix = _BROKEN.get(str(broken.detail.get("what")), _NOT_OURS)
        if broken.detail.get("file") == signing.FILE:
            text, fix = "A key beside it is none of ours.", "Put back their list."
        return _build_check(name, "away", text, fix)
    n = last.n if last else 0
    figures: dict[str, Any] = {"lines": n, "memory": here.ledger_n}
    if n < here.ledger_n:
        text, fix = "It ends before what was applied.", "Put back its longest copy."
        return _build_check(name, "away", text, fix, **figures)
    if last and here.ledger_n == n and bytes(here.ledger_hash) != last.hash:
        text, fix = "Its last line is not what was applied.", "Put back its own copy."
        return _build_check(name, "away", text, fix, **figures)
    if here.ledger_n < n:
        text = "A line is being applied, or a backup was restored from before it."
        fix, command = "If it stays so:", "forget --replay"
        return _build_check(name, "warn", text, fix, command=command, **figures)
    return _build_check(name, "ok", "It ends where both databases stand.", **figures)


def _check_anchors(now: datetime) -> PrivacyCheck:
    name = "anchors"
    try:
        newest = anchors.get_newest()
    except LedgerBrokenError as broken:
        text, fix = _BROKEN.get(str(broken.detail.get("what")), _NOT_OURS)
        return _build_check(name, "away", text, fix)
    if newest is None:
        text = "No line vouches for the chains yet."
        return _build_check(name, "warn", text, "Wait an hour, or:", command="anchor")
    figures: dict[str, Any] = {"line": newest.n, "threads": newest.heads.threads}
    if now - newest.at > ANCHORED_WITHIN:
        text, fix = "The newest line is old.", "See whether the worker runs."
        since = newest.at + ANCHORED_WITHIN
        return _build_check(
            name, "warn", text, fix, since=since, at=newest.at, **figures
        )
    text = "A signed line outside the database vouches for the chains."
    return _build_check(name, "ok", text, at=newest.at, **figures)


def _check_keys() -> PrivacyCheck:
    name, meta = "keys database", KeyMeta.objects.using("keys").get()
    if meta.instance != Instance.objects.get().id:
        text = "It is another instance's."
        return _build_check(name, "away", text, "Connect the one of this memory.")
    return _build_check(name, "ok", "It is the one of this memory.")


def _check_ring(*, counted: bool) -> PrivacyCheck:
    """Check the rotation of the key ring; with `counted`, count rows by KEK."""
    name = "key ring"
    figures: dict[str, Any] = {}
    left = keyring.has_outdated_keys()
    if counted:
        rows, current = keyring.count_rows_per_kek(), keyring.get_ring().current_id
        figures = {
            f"{kek}{' (current)' if kek == current else ''}": rows.get(kek, 0)
            for kek in sorted({*rows, *keyring.get_ring().ids})
        }
    if left:
        text = "A rotation is under way: some keys are under the one before."
        fix, command = "Go on with it:", "keys rotate"
        return _build_check(name, "warn", text, fix, command=command, **figures)
    return _build_check(name, "ok", "All keys are under the current one.", **figures)


def _check_backup(now: datetime) -> PrivacyCheck:
    name, current = "backup of the ring", keyring.get_ring().current_id
    rows = KekCheck.objects.using("keys").filter(kek_id=current)
    at, made_at = rows.values_list("backed_up_at", "created_at").first() or (None, None)
    if at is None:
        text = "No backup: should the file be lost, nobody can open what is stored."
        # A hub that was just set up has done nothing wrong yet.
        new = made_at is not None and now - made_at < BACKED_UP_WITHIN
        return _build_check(
            name,
            "" if new else "warn",
            text,
            "Make one:",
            command="keys backup FILE",
            since=None if new else made_at,
        )
    return _build_check(name, "ok", "The current key stands in a backup.", at=at)


def _check_scan(now: datetime) -> PrivacyCheck:
    name = "last scan"
    rows = AuditEntry.objects.order_by("-seq").values_list("at", "outcome")
    # Scans cover the whole instance; the index finds entries without a project.
    scanned = rows.filter(project=None, action="scanned").first()
    if scanned and scanned[1] != "done":
        # A later verified erasure changes nothing: its scan had its own targets alone.
        text, fix = "It found what should be gone, or proved nothing.", "See where:"
        return _build_check(name, "away", text, fix, command="scan", at=scanned[0])
    ats = [scanned[0]] if scanned else []
    if not ats or now - ats[0] > SCANNED_WITHIN:
        # The verification of an erasure scans everything, too.
        ended = Erasure.objects.filter(state__in=(State.VERIFIED, State.COMPLETE))
        verified = rows.filter(action="erasure.verified")
        ats += [each[0] for each in verified[:1]] if ended.exists() else []
    if not ats:
        return _build_check(name, "", "Nothing was erased yet, so nothing was scanned.")
    at = max(ats)
    if now - at > SCANNED_WITHIN:
        text, fix = "It is a while ago.", "Make another one:"
        return _build_check(name, "warn", text, fix, command="scan", at=at)
    return _build_check(name, "ok", "It found nothing undeclared.", at=at)


def _check_unfinished(project: Project, now: datetime) -> PrivacyCheck:
    name, rows = "unfinished erasures", _select_under_way(project)
    waiting = sorted(
        {word for word in rows.values_list("waiting_on", flat=True) if word}
    )
    late, under_way = count_late(project, now=now), rows.count()
    figures: dict[str, Any] = {"under_way": under_way, "late": late}
    if "broken" in waiting:
        defects = rows.filter(waiting_on="broken").order_by("defect").distinct()
        classes = ", ".join(defects.values_list("defect", flat=True))
        oldest = rows.filter(waiting_on="broken").aggregate(Min("confirmed_at"))
        text = f"A step of some failed by a defect of this server ({classes})."
        fix, since = "Report it, and update the server.", oldest["confirmed_at__min"]
        return _build_check(name, "away", text, fix, since=since, **figures)
    if late:
        oldest = rows.aggregate(Min("confirmed_at"))["confirmed_at__min"]
        text = "Some were confirmed more than 5 minutes ago"
        text += f" and wait for: {', '.join(waiting)}." if waiting else "."
        fix, since = "Open them: each says why.", oldest + LATE
        return _build_check(name, "away", text, fix, since=since, **figures)
    text = (
        "All that begins comes to its end." if not under_way else "Some are going on."
    )
    return _build_check(name, "ok", text, **figures)


def _check_deadlines(project: Project, now: datetime) -> PrivacyCheck:
    """Check the age of confirmed requests to erase that are not closed, held or not."""
    name = "answers in 30 days"
    rows = Erasure.objects.filter(project=project).exclude(state__in=_WISHES)
    oldest = rows.aggregate(Min("created_at"))["created_at__min"]
    days = ANSWERED_WITHIN.days
    if oldest is None:
        return _build_check(name, "ok", "Nobody waits for an answer.", days=days)
    due = oldest + ANSWERED_WITHIN
    figures: dict[str, Any] = {"days": days, "due": due}
    if due <= now:
        text, fix = "A wish is overdue.", "Finish it, or tell the person why not."
        return _build_check(name, "away", text, fix, since=due, **figures)
    if due - now < NEAR:
        text, fix = "A wish is due soon.", "Finish it, or tell the person why not."
        return _build_check(name, "warn", text, fix, since=due - NEAR, **figures)
    return _build_check(name, "ok", "The oldest wish has time.", **figures)


def _select_under_way(project: Project) -> QuerySet[Erasure]:
    rows = Erasure.objects.filter(project=project).exclude(confirmed_at=None)
    return rows.exclude(state__in=(*CLOSED, State.HELD))
