"""Receipts: what an erasure did, said once, signed, and never changed."""

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
from memoryhub.queries.forget.erasure_views import Remains
from memoryhub.services.forget import ledgers
from memoryhub.vault.proof import receipts, signing

#: What an erasure leaves where we do not reach, by the word of its plan: what guards
#: it meanwhile, and until when: with the backups, or what ends it.
RESIDUE: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "backups": ("contents_sealed", "backup"),
        "key_backups": ("wrapped", "keys"),
        "free_blocks": ("contents_sealed", "overwritten"),
        "database_free_space": ("contents_sealed", "rewrite"),
        "wal": ("contents_sealed", "recycled"),
        "process_memory": ("process", "restart"),
        "replies_sent": ("none", "never"),
        "downloads": ("none", "never"),
        "recipients": ("named", "never"),
        "names_in_forks": ("in_the_clear", "last_fork"),
    }
)
#: What clients call by a name. It stands in the clear wherever sealed contents lie, for
#: bodies of events and their rows hold both.
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


#: What stays on purpose, in the journal and beside it, so that its chains can still be
#: walked: what it is, and why.
RETAINED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "envelopes": "chain",
        "tombstones": "stays_erased",
        "audit": "accountability",
        "ledger": "restores",
    }
)
#: As well, of scopes that leave threads standing.
RETAINED_NAMES: Final[Mapping[str, str]] = MappingProxyType({"names": "names"})


def issue(erasure: Erasure) -> Receipt:
    """Sign what was done and keep it; the one there is if that was done before.

    Raises NotCompleteError unless all that was fenced is erased and the scan found
    nothing undeclared: there is no receipt for less, and none with a softer word.
    """
    if stored := _stored(erasure.id, 0):
        return stored
    facts = _facts(erasure)
    gone = {place: part["count"] for place, part in facts["erased"].items()}
    if gone != facts["fenced"] or not _clean(facts["verification"]):
        raise NotCompleteError
    return _keep(erasure, 0, _statement(erasure, facts))


def add(
    erasure: Erasure,
    what: str,
    numbers: Mapping[str, int],
    *,
    ended: Sequence[str] = (),
) -> Receipt:
    """Sign a later fact about an erasure that has its receipt: an addendum.

    `what` is a closed word: `rewritten`, `scanned`, `recipients`. `ended` is the
    residue that is over, of which a look has found nothing left. Raises
    NotCompleteError.
    """
    first = _stored(erasure.id, 0)
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
    return _keep(erasure, newest.n + 1, shape)


def rotate_key(*, actor: str) -> str:
    """Sign with a new key from now on; its id. What the old one signed stays good."""
    signer = signing.rotate(at=clock.now())
    journal.run(partial(_note_rotated, signer.key_id, actor))
    return signer.key_id


def _facts(erasure: Erasure) -> dict[str, Any]:
    """Return what the eraser noted, as a receipt says it: counts by place.

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
        "planned": _counts(places, "erase"),
        "fenced": _counts(done, "fenced"),
        "erased": {
            place: {"count": count, "method": places[place]["method"]}
            for place, count in _counts(done, "erased").items()
        },
        "rebuilt": _counts(done, "rebuilt"),
        "retained": [*retained(erasure.scope), *_reasons(kept)],
        "recipients": planned.get("recipients", ()),
        "residue": [*map(_declared, planned.get("residue", ()))],
        # What the scan says of itself: surfaces, targets by kind, hits, undeclared.
        "verification": orjson.loads(erasure.verification),
    }


def retained(scope: str) -> list[dict[str, str]]:
    """Return what stays on purpose whatever an erasure of that scope takes."""
    whole = scope in (Erasure.Scope.SUBJECT, Erasure.Scope.THREAD)
    return _reasons(RETAINED if whole else {**RETAINED, **RETAINED_NAMES})


def expect(scope: str, residue: Iterable[str]) -> Remains:
    """Tell what a receipt of today would say remains of a plan."""
    return Remains(retained=retained(scope), residue=[*map(_declared, residue)])


def _reasons(kept: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"what": what, "reason": reason} for what, reason in kept.items()]


def _clean(scanned: Mapping[str, Any]) -> bool:
    """Tell whether a scan that found its probes found nothing undeclared."""
    believed = scanned.get("self_test") == "passed" and not scanned.get("unreachable")
    return believed and scanned.get("undeclared") == 0


def threads_root(subject: UUID) -> bytes:
    """Hash (thread, head, its hash) of all its threads, by id. One query.

    Who walks their chains later finds whether they still end where they ended then.
    """
    root = hashlib.sha256()
    rows = Thread.objects.filter(subject=subject).order_by("id")
    for thread, seq, digest in rows.values_list("id", "head_seq", "head_hash"):
        root.update(thread.bytes + seq.to_bytes(8) + bytes(digest))
    return root.digest()


def _counts(lines: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, int]:
    return {place: line[name] for place, line in lines.items() if line.get(name)}


def _declared(word: str) -> dict[str, Any]:
    """Say of what lies out of our reach until when, and what guards it meanwhile."""
    control, days = RESIDUE[word]
    limit = {"backup": settings.BACKUP_DAYS, "keys": settings.KEYS_BACKUP_DAYS}
    until = days
    if days in limit:
        until = (clock.now() + timedelta(days=limit[days])).date().isoformat()
    # What names stand there in the clear until then.
    names = NAMES if control in _WITH_NAMES else ()
    return {"what": word, "until": until, "control": control, "names": names}


def _statement(erasure: Erasure, facts: Mapping[str, Any]) -> dict[str, Any]:
    ref = ledgers.subject_ref(erasure)
    return {
        "v": receipts.RECEIPT,
        "erasure": str(erasure.id),
        "instance": str(Instance.objects.get().id),
        "project_ref": str(erasure.project_id),
        "subject_ref": ref.hex() if ref else None,
        "scope": erasure.scope,
        "reason": erasure.reason,
        "ticket": erasure.ticket,
        "actor_ref": erasure.actor,
        "times": orjson.loads(erasure.times),
        **facts,
        "status": "verified_with_residue" if facts["residue"] else "verified",
        "threads_root": threads_root(erasure.subject_id).hex(),
        "ledger_n": erasure.ledger_n,
    }


def _keep(erasure: Erasure, n: int, shape: Mapping[str, Any]) -> Receipt:
    row, at = uuid7(), clock.now()
    issued = {"receipt": str(row), "issued_at": at.isoformat(timespec="microseconds")}
    text = receipts.signed({**shape, **issued}, signing.current())
    made = Receipt(
        id=row,
        project_id=erasure.project_id,
        erasure=erasure,
        n=n,
        text=text,
        issued_at=at,
    )
    journal.run(partial(_insert, made))
    # If another process was first, its receipt is the one.
    kept = _stored(erasure.id, n)
    assert kept is not None
    return kept


def _insert(receipt: Receipt) -> None:
    with transaction.atomic():
        Erasure.objects.select_for_update().get(id=receipt.erasure_id)
        if _stored(receipt.erasure_id, receipt.n) is None:
            receipt.save(force_insert=True)


def _note_rotated(key_id: str, actor: str) -> None:
    with transaction.atomic():
        audit.append(
            actor=actor,
            action="signing_key.rotated",
            project=None,
            target_kind="signing_key",
            target_id=key_id,
        )


def _stored(erasure: UUID, n: int) -> Receipt | None:
    return Receipt.objects.filter(erasure=erasure, n=n).first()
