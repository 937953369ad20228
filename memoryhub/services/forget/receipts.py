"""Receipts: the effect of an erasure, stated once, signed, and never changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import orjson
from django.conf import settings
from django.db import transaction

from memoryhub import journal
from memoryhub.errors import NotCompleteError
from memoryhub.journal import audit
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_targets
from memoryhub.queries.forget.erasure_views import ErasureRemains
from memoryhub.services.forget import ledgers
from memoryhub.vault.proof import receipts, signing

#: Residue beyond this server's reach, by the word of the plan: its protection, and
#: until when it remains: with the backups, or until an event.
RESIDUE: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "backups": ("contents_sealed", "backup"),
        "key_backups": ("wrapped", "keys"),
        "free_blocks": ("contents_sealed", "overwritten"),
        "database_free_space": ("contents_sealed", "rewrite"),
        "wal": ("contents_sealed", "recycled"),
        "worker_files": ("contents_sealed", "overwritten"),
        "process_memory": ("process", "restart"),
        "replies_sent": ("none", "never"),
        "downloads": ("none", "never"),
        "recipients": ("named", "never"),
        "names_in_forks": ("in_the_clear", "last_fork"),
    }
)
#: Things that clients name. Names stand in the clear wherever sealed contents do, as
#: event bodies and their rows hold both.
NAMES: Final = (
    "threads",
    "agents",
    "sessions",
    "labels",
    "senders",
    "types",
    "keys",
    "pages",
    "checkpoints",
)
_WITH_NAMES: Final = frozenset({"contents_sealed", "in_the_clear"})


#: What is retained on purpose, so that chains can be verified: what it is, and why.
RETAINED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "envelopes": "chain",
        "tombstones": "stays_erased",
        "audit": "accountability",
        "ledger": "restores",
    }
)
#: Retained as well by scopes that keep threads.
RETAINED_NAMES: Final[Mapping[str, str]] = MappingProxyType({"names": "names"})


def issue_receipt(erasure: Erasure) -> Receipt:
    """Sign and store the receipt of an erasure; a repeat returns the stored receipt.

    Raises NotCompleteError unless all that was fenced is erased and the scan found
    nothing undeclared: no receipt states less.
    """
    if stored := _find_receipt(erasure.id, 0):
        return stored
    facts = _build_facts(erasure)
    gone = {place: part["count"] for place, part in facts["erased"].items()}
    if gone != facts["fenced"] or not _is_clean(facts["verification"]):
        raise NotCompleteError
    return _sign_receipt(erasure, 0, _build_statement(erasure, facts))


def add_addendum(
    erasure: Erasure,
    what: str,
    numbers: Mapping[str, int],
    *,
    ended: Sequence[str] = (),
) -> Receipt:
    """Sign a later fact about an erasure that has its receipt: an addendum.

    `what` is a closed word: `rewritten`, `scanned`, `recipients`. `ended` lists the
    residue of which a later check found nothing left. Raises NotCompleteError.
    """
    first = _find_receipt(erasure.id, 0)
    if first is None:
        raise NotCompleteError
    newest = Receipt.objects.filter(erasure=erasure).order_by("-n")[0]
    shape = {
        "v": receipts.ADDENDUM,
        "erasure": str(erasure.id),
        "to": str(first.id),
        "to_sha256": receipts.digest(first.text).hex(),
        "what": what,
        "numbers": dict(numbers),
        "ended": list(ended),
    }
    return _sign_receipt(erasure, newest.n + 1, shape)


def rotate_key(*, actor: str) -> str:
    """Sign with a new key from now on; returns its id. Old signatures stay valid."""
    signer = signing.rotate(at=clock.now())
    journal.run(partial(_note_rotated, signer.key_id, actor))
    return signer.key_id


def _build_facts(erasure: Erasure) -> dict[str, Any]:
    """Build the receipt's facts from the erasure's row: counts by place.

    Residue is dated from now on.
    """
    planned, done = orjson.loads(erasure.planned), orjson.loads(erasure.erased)
    places = planned.get("places", {})
    kept = {
        place: line["why"] or "kept"
        for place, line in places.items()
        if line.get("keep")
    }
    return {
        "planned": _filter_counts(places, "erase"),
        "fenced": _filter_counts(done, "fenced"),
        "erased": {
            place: {"count": count, "method": places[place]["method"]}
            for place, count in _filter_counts(done, "erased").items()
        },
        "rebuilt": _filter_counts(done, "rebuilt"),
        "retained": [*list_retained(erasure.scope), *_build_reasons(kept)],
        "recipients": planned.get("recipients", ()),
        "residue": [*map(_build_residue, planned.get("residue", ()))],
        # The scan's facts: surfaces, targets by kind, hits, undeclared.
        "verification": orjson.loads(erasure.verification),
    }


def list_retained(scope: str) -> list[dict[str, str]]:
    """List what is retained on purpose by an erasure of that scope."""
    whole = scope in (Erasure.Scope.SUBJECT, Erasure.Scope.THREAD)
    return _build_reasons(RETAINED if whole else {**RETAINED, **RETAINED_NAMES})


def build_expected_remains(scope: str, residue: Iterable[str]) -> ErasureRemains:
    """Build what a receipt of today would state as remaining after a plan."""
    return ErasureRemains(
        retained=list_retained(scope), residue=[*map(_build_residue, residue)]
    )


def _build_reasons(kept: Mapping[str, str]) -> list[dict[str, str]]:
    """Build the list of retained things and reasons."""
    return [{"what": what, "reason": reason} for what, reason in kept.items()]


def _is_clean(scanned: Mapping[str, Any]) -> bool:
    """Return whether a scan that found its probes found nothing undeclared."""
    believed = scanned.get("self_test") == "passed" and not scanned.get("unreachable")
    return believed and scanned.get("undeclared") == 0


def compute_threads_root(subject: UUID) -> bytes:
    """Hash (thread, head, head hash) of all the subject's threads, by id. One query.

    A later walk of the chains shows whether each still ends where the receipt says.
    """
    root = hashlib.sha256()
    rows = Thread.objects.filter(subject=subject).order_by("id")
    for thread, seq, digest in rows.values_list("id", "head_seq", "head_hash"):
        root.update(thread.bytes + seq.to_bytes(8) + bytes(digest))
    return root.digest()


def _filter_counts(lines: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, int]:
    """Filter the nonzero counts of this name, by place."""
    return {place: line[name] for place, line in lines.items() if line.get(name)}


def _build_residue(word: str) -> dict[str, Any]:
    """Build the statement of a residue: until when it remains, and its protection."""
    control, days = RESIDUE[word]
    limit = {"backup": settings.BACKUP_DAYS, "keys": settings.KEYS_BACKUP_DAYS}
    until = days
    if days in limit:
        until = (clock.now() + timedelta(days=limit[days])).date().isoformat()
    # The names that stand there in the clear until then.
    names = NAMES if control in _WITH_NAMES else ()
    return {"what": word, "until": until, "control": control, "names": names}


def _build_statement(erasure: Erasure, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Build the content of a receipt."""
    ref = ledgers.find_subject_ref(erasure)
    return {
        "v": receipts.RECEIPT,
        "erasure": str(erasure.id),
        "instance": str(Instance.objects.get().id),
        "project_ref": str(erasure.project_id),
        "subject_ref": ref.hex() if ref else None,
        "scope": erasure.scope,
        **_build_clock(erasure),
        "reason": erasure.reason,
        "ticket": erasure.ticket,
        "actor_ref": erasure.actor,
        "times": orjson.loads(erasure.times),
        **facts,
        "status": "verified_with_residue" if facts["residue"] else "verified",
        "threads_root": compute_threads_root(erasure.subject_id).hex(),
        "ledger_n": erasure.ledger_n,
    }


def _build_clock(erasure: Erasure) -> dict[str, str]:
    """Build the instant of the scope `before`, and the clock that counted."""
    if erasure.before is None:
        return {}
    at = erasure.before.isoformat(timespec="microseconds")
    return {"before": at, "clock": erasure_targets.get_clock(erasure)}


def _sign_receipt(erasure: Erasure, n: int, shape: Mapping[str, Any]) -> Receipt:
    """Sign a receipt or addendum and store it; returns the stored one."""
    row, at = uuid7(), clock.now()
    issued = {"receipt": str(row), "issued_at": at.isoformat(timespec="microseconds")}
    text = receipts.sign_statement({**shape, **issued}, signing.get_signer())
    made = Receipt(
        id=row,
        project_id=erasure.project_id,
        erasure=erasure,
        n=n,
        text=text,
        issued_at=at,
    )
    journal.run(partial(_insert_receipt, made))
    # If another process was first, its receipt is the valid one.
    kept = _find_receipt(erasure.id, n)
    assert kept is not None
    return kept


def _insert_receipt(receipt: Receipt) -> None:
    """Insert a receipt unless one of this number exists; runs in the writer."""
    with transaction.atomic():
        Erasure.objects.select_for_update().get(id=receipt.erasure_id)
        if _find_receipt(receipt.erasure_id, receipt.n) is None:
            receipt.save(force_insert=True)


def _note_rotated(key_id: str, actor: str) -> None:
    """Audit the rotation of the signing key."""
    with transaction.atomic():
        audit.append(
            actor=actor,
            action="signing_key.rotated",
            project=None,
            target_kind="signing_key",
            target_id=key_id,
        )


def _find_receipt(erasure: UUID, n: int) -> Receipt | None:
    """Find the receipt, or addendum `n`, of an erasure."""
    return Receipt.objects.filter(erasure=erasure, n=n).first()
