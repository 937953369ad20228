"""Records: lines of the console of privacy as JSON. Pure."""

from __future__ import annotations

from inspector.web.records import Record
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.forget.holds import HoldLine
from memoryhub.queries.forget.receipt_views import ReceiptLine
from memoryhub.queries.people.subject_lists import SubjectLine

#: The fields of each kind of record, in order: the headings of a table.
SUBJECT = (
    "subject", "state", "anonymous", "generation", "threads", "held", "first_seen",
    "last_seen",
)  # fmt: skip
ERASURE = (
    "erasure", "subject", "state", "waiting_on", "scope", "thread", "seq", "before",
    "reason", "ticket", "actor", "count", "created_at", "confirmed_at", "times",
)  # fmt: skip

RECEIPT = (
    "receipt", "erasure", "status", "scope", "reason", "ticket", "erased", "addenda",
    "issued_at",
)  # fmt: skip
HOLD = (
    "hold", "subject", "basis", "opened_by", "reviewer", "opened_at", "expires_at",
    "lifted_at", "lifted_by", "in_force",
)  # fmt: skip


def subject(line: SubjectLine) -> Record:
    return {
        "subject": str(line.id),
        "state": line.state,
        "anonymous": line.anonymous,
        "generation": line.generation,
        # None where there are more than are counted.
        "threads": None if line.many else line.threads,
        "held": line.held,
        "first_seen": line.created_at.isoformat(),
        "last_seen": line.last_seen.isoformat() if line.last_seen else None,
    }


def erasure(line: ErasureLine) -> Record:
    return {
        "erasure": str(line.id),
        "subject": str(line.subject),
        "state": line.state,
        "waiting_on": line.waiting_on,
        "scope": line.scope,
        "thread": str(line.thread) if line.thread else None,
        "seq": line.seq,
        "before": line.before.isoformat() if line.before else None,
        "reason": line.reason,
        "ticket": line.ticket,
        "actor": line.actor,
        "count": line.count,
        "created_at": line.created_at.isoformat(),
        "confirmed_at": line.confirmed_at.isoformat() if line.confirmed_at else None,
        "times": dict(line.times),
    }


def hold(line: HoldLine) -> Record:
    return {
        "hold": str(line.id),
        "subject": str(line.subject),
        "basis": line.basis,
        "opened_by": line.opened_by,
        "reviewer": line.reviewer,
        "opened_at": line.opened_at.isoformat(),
        "expires_at": line.expires_at.isoformat(),
        "lifted_at": line.lifted_at.isoformat() if line.lifted_at else None,
        "lifted_by": line.lifted_by,
        "in_force": line.in_force,
    }


def receipt(line: ReceiptLine) -> Record:
    return {
        "receipt": str(line.id),
        "erasure": str(line.erasure),
        "status": line.status,
        "scope": line.scope,
        "reason": line.reason,
        "ticket": line.ticket,
        "erased": line.erased,
        "addenda": line.addenda,
        "issued_at": line.issued_at.isoformat(),
    }
