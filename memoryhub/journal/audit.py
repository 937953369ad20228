"""The audit log: a hash chain of who did what to whose memory, in closed words.

An entry is written in the transaction of the act that it records, so neither exists
without the other. An entry holds no free text, hence no content and no name that a
client chose.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import UUID

import orjson
from django.db import transaction

from memoryhub import errors
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.vault.keys import blind_index, keys

#: Hash that the first entry follows.
GENESIS = bytes(32)

#: Acts on the memory of people, and on the keys and accounts that guard memory.
ACTIONS = frozenset(
    {
        *("sign_in", "sign_out", "sudo"),
        #: An operator looked at content; outcomes `opened` and `closed` are of a
        #: socket.
        "content.read",
        #: An operator changed something; the journal's own events give the details.
        "operator.edited",
        *("subject.looked_up", "subject.revealed", "subject.readmitted"),
        *("subject.restricted", "subject.unrestricted"),
        *("subject.exported", "subject.imported", "import.done"),
        *(f"erasure.{state}" for state in Erasure.State.values),
        "erasure.rewritten",
        *("hold.opened", "hold.renewed", "hold.lifted"),
        *("tombstone.looked_up", "tombstone.lifted"),
        *("api_key.made", "api_key.rotated", "api_key.revoked"),
        *("webhook.made", "webhook.paused", "webhook.resumed"),
        *("webhook.tested", "webhook.deleted"),
        *("kek.made", "kek.rotated", "kek.retired", "kek.backed_up", "kek.restored"),
        "signing_key.rotated",
        *("operator.added", "operator.password_set", "operator.link_made"),
        *("operator.factor_added", "operator.factor_removed"),
        *("operator.disabled", "operator.enabled"),
        *("operator.passkey_added", "operator.passkey_removed"),
        *("operator.identity_bound", "operator.identity_unbound"),
        *("role.changed", "project.made", "project.changed"),
        *("project.deletion_begun", "project.deleted"),
        *("verified", "scanned", "drilled", "replayed", "journal.rebuilt"),
        "tables.distributed",
    }
)
#: Why an operator looks at content; chosen at sign-in.
PURPOSES = ("support", "debugging", "privacy_request", "incident", "evaluation")
#: How the act ended. A refusal may be recorded by its code instead.
OUTCOMES = frozenset({"done", "refused", "failed", "opened", "closed"})
ACTORS = frozenset({"operator", "agent", "worker", "command", "eraser", "import"})
TARGETS = frozenset(
    {
        *("thread", "subject", "erasure", "receipt", "hold", "tombstone", "import"),
        *("api_key", "kek", "signing_key", "operator", "project"),
        "webhook",
    }
)

#: Ids, prefixes of keys and numbers: no value that a client chooses.
_ID = re.compile(r"[0-9A-Za-z_-]{0,64}")
#: Templates of our routes: `p/<project:project>/threads/<name:thread>/keys`; or the
#: area of the settings that changed: `settings/prices`.
_ROUTE = re.compile(r"[a-z0-9_./:<>-]{1,120}")
_CODES = frozenset(
    each.code
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.Refusal)
)


class Details(TypedDict, total=False):
    """Optional fields of an audit entry, besides who did what."""

    target_kind: str | None
    target_id: str | None
    #: The person whose memory it is; stored as a pseudonym.
    subject: UUID | None
    purpose: str | None
    outcome: str
    count: int
    #: Template and seqs of a look at content, or of an edit.
    route: str | None
    first_seq: int | None
    last_seq: int | None
    #: Id of the view that a look belongs to.
    request_id: str | None
    #: None: the current time.
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditNote:
    """An audit entry to be appended: ids, numbers and closed words only."""

    #: `operator:<id>`, `agent:<key prefix>`, `worker:<kind>`, `command`.
    actor: str
    action: str
    #: None for an act that concerns the whole instance.
    project: UUID | None
    target_kind: str | None = None
    target_id: str | None = None
    subject: UUID | None = None
    purpose: str | None = None
    outcome: str = "done"
    count: int = 0
    route: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    request_id: str | None = None
    at: datetime | None = None


def append(
    *, actor: str, action: str, project: UUID | None, **details: Unpack[Details]
) -> int:
    """Append one audit entry in the writer's open transaction; return its seq.

    Call it last: it locks the row that every other appender waits for. `subject`
    becomes its pseudonym if its key still exists, else nothing. Four statements.
    """
    return append_all(
        [AuditNote(actor=actor, action=action, project=project, **details)]
    )


def append_all(entries: Iterable[AuditNote]) -> int:
    """Append several entries at once, and return the last one's seq."""
    assert transaction.get_connection().in_atomic_block
    listed = list(entries)
    for entry in listed:
        _require_plain(entry)
    pseudonyms = _list_pseudonyms({entry.subject for entry in listed})
    instance = Instance.objects.select_for_update().get()
    seq, digest = instance.audit_seq, bytes(instance.audit_hash) or GENESIS
    rows = []
    for entry in listed:
        seq += 1
        row = _build_row(entry, seq=seq, previous=digest, pseudonyms=pseudonyms)
        row.hash = digest = link(row)
        rows.append(row)
    AuditEntry.objects.bulk_create(rows)
    instance.audit_seq, instance.audit_hash = seq, digest
    instance.save(update_fields=["audit_seq", "audit_hash"])
    return seq


def link(row: AuditEntry) -> bytes:
    """Return an entry's hash: sha256(prev ‖ canonical JSON of the entry)."""
    return hashlib.sha256(bytes(row.prev) + encode_entry(row)).digest()


def encode_entry(row: AuditEntry) -> bytes:
    """Return the JSON that is hashed: keys sorted, without the chain's columns."""
    return orjson.dumps(to_json_values(row), option=orjson.OPT_SORT_KEYS)


def to_json_values(row: AuditEntry) -> dict[str, Any]:
    """Return the entry as JSON values; of the chain's columns only the seq."""
    return {
        "seq": row.seq,
        "at": row.at.isoformat(timespec="microseconds"),
        "project": str(row.project) if row.project else None,
        "actor_kind": row.actor_kind,
        "actor_ref": row.actor_ref,
        "action": row.action,
        "purpose": row.purpose,
        "target_kind": row.target_kind,
        "target_id": row.target_id,
        "subject": bytes(row.subject).hex() if row.subject else None,
        "outcome": row.outcome,
        "count": row.count,
        "route": row.route,
        "first_seq": row.first_seq,
        "last_seq": row.last_seq,
        "request_id": row.request_id,
    }


def find_pseudonym(subject: UUID) -> bytes | None:
    """Return the subject's pseudonym in the log; None once its key is gone.

    Two queries.
    """
    return _list_pseudonyms({subject}).get(subject)


def _list_pseudonyms(subjects: Iterable[UUID | None]) -> dict[UUID | None, bytes]:
    wanted = {subject for subject in subjects if subject}
    if not wanted:
        return {}
    rows = Subject.objects.filter(id__in=wanted).values_list("id", "epoch")
    found: dict[UUID | None, bytes] = {}
    for subject, epoch in rows:
        try:
            opened = keys.get_subject_keys(subject, epoch=epoch)
        except (errors.SubjectErasedError, errors.KeyMissingError):
            continue
        found[subject] = blind_index.digest_audit_subject(opened)
    return found


def _build_row(
    entry: AuditNote,
    *,
    seq: int,
    previous: bytes,
    pseudonyms: dict[UUID | None, bytes],
) -> AuditEntry:
    kind, _, ref = entry.actor.partition(":")
    return AuditEntry(
        seq=seq,
        at=entry.at or clock.now(),
        project=entry.project,
        actor_kind=kind,
        actor_ref=ref,
        action=entry.action,
        purpose=entry.purpose,
        target_kind=entry.target_kind,
        target_id=entry.target_id,
        subject=pseudonyms.get(entry.subject),
        outcome=entry.outcome,
        count=entry.count,
        route=entry.route,
        first_seq=entry.first_seq,
        last_seq=entry.last_seq,
        request_id=entry.request_id,
        prev=previous,
    )


def _require_plain(entry: AuditNote) -> None:
    """Assert that the entry holds closed words and ids only.

    The log would keep a name for ever.
    """
    kind, _, ref = entry.actor.partition(":")
    assert kind in ACTORS, kind
    assert _ID.fullmatch(ref)
    assert entry.action in ACTIONS, entry.action
    assert entry.purpose is None or entry.purpose in PURPOSES
    assert entry.outcome in OUTCOMES or entry.outcome in _CODES
    assert entry.target_kind is None or entry.target_kind in TARGETS
    assert (entry.target_kind is None) == (entry.target_id is None)
    assert _ID.fullmatch(entry.target_id or "")
    assert _ID.fullmatch(entry.request_id or "")
    assert entry.route is None or _ROUTE.fullmatch(entry.route)
