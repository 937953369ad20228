"""Receipts: issued once, of proved facts alone."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from memoryhub.errors import NotCompleteError
from memoryhub.kernel.registry import EVOLVE
from memoryhub.kernel.text import names, strict_json
from memoryhub.models import privacy
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import ledgers, receipts
from memoryhub.services.people import subjects
from memoryhub.vault.proof import receipts as texts
from memoryhub.vault.proof import signing
from tests.cast.factories import append, make_thread
from tests.promises.tampering.damages import flipped

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PLANNED: dict[str, Any] = {
    "count": 15,
    "places": {
        "events": {"erase": 12, "method": "nulled"},
        "slots": {"erase": 3, "method": "deleted"},
        "pages": {"erase": 0, "method": "deleted", "keep": 2, "why": "forks"},
        "snapshots": {"erase": 0, "method": "deleted"},
    },
    "recipients": ["key:abcd"],
    "residue": ["backups", "key_backups", "process_memory"],
}
ERASED: dict[str, Any] = {
    "events": {"fenced": 12, "erased": 12},
    "slots": {"fenced": 3, "erased": 3},
    "pages": {"fenced": 0, "erased": 0},
    # A snapshot that was made between the plan and the fence.
    "snapshots": {"fenced": 1, "erased": 1},
}
LOOKED: dict[str, Any] = {
    "scanner": "memoryhub.scan/1",
    "surfaces": ["sqlite", "ledger"],
    "needles": {"nonce": 12},
    "self_test": "passed",
    "hits": [],
    "undeclared": 0,
    "unreachable": [],
}


@pytest.fixture
def ann(acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


def make_verified(subject: Subject, **changed: Any) -> Erasure:
    """Make an erasure whose scan is done."""
    facts = {"planned": PLANNED, "erased": ERASED, "verification": LOOKED} | changed
    return Erasure.objects.create(
        id=uuid7(),
        project_id=subject.project_id,
        subject=subject,
        scope="subject",
        reason="consent_withdrawn",
        ticket="GDPR-12",
        actor="command",
        state="verified",
        epoch=2,
        times=json.dumps({"fenced": AT.isoformat()}),
        ledger_n=7,
        created_at=AT,
        expires_at=AT,
        updated_at=AT,
        **{name: json.dumps(value) for name, value in facts.items()},
    )


def parse_receipt(receipt: Receipt) -> dict[str, Any]:
    shape: dict[str, Any] = strict_json.parse(receipt.text.encode())
    return shape


def test_receipt_says_what_was_done(ann: Subject) -> None:
    row = make_verified(ann)
    said = parse_receipt(receipts.issue_receipt(row))
    assert said["v"] == "memoryhub.receipt/2"
    assert said["erasure"] == str(row.id)
    assert said["subject_ref"] == bytes(ann.subject_ref or b"").hex()
    assert said["times"] == {"fenced": "2026-11-21T12:00:00+00:00"}
    assert (said["scope"], said["reason"]) == ("subject", "consent_withdrawn")
    assert (said["ticket"], said["actor_ref"]) == ("GDPR-12", "command")
    assert said["planned"] == {"events": 12, "slots": 3}
    assert said["fenced"] == {"events": 12, "slots": 3, "snapshots": 1}
    assert said["erased"] == {
        "events": {"count": 12, "method": "nulled"},
        "slots": {"count": 3, "method": "deleted"},
        "snapshots": {"count": 1, "method": "deleted"},
    }
    assert {"what": "pages", "reason": "forks"} in said["retained"]
    assert {"what": "envelopes", "reason": "chain"} in said["retained"]
    assert said["recipients"] == ["key:abcd"]
    assert said["verification"] == LOOKED
    assert said["ledger_n"] == 7
    assert said["status"] == "verified_with_residue"


def test_residue_has_an_end_and_a_control(ann: Subject, settings: Any) -> None:
    settings.BACKUP_DAYS, settings.KEYS_BACKUP_DAYS = 30, 7
    residue = {
        each["what"]: each
        for each in parse_receipt(receipts.issue_receipt(make_verified(ann)))["residue"]
    }
    later = datetime.fromisoformat(residue["backups"]["until"])
    sooner = datetime.fromisoformat(residue["key_backups"]["until"])
    assert (later - sooner).days == 23
    assert residue["process_memory"] == {
        "what": "process_memory",
        "until": "restart",
        "control": "process",
        "names": [],
    }


#: Body fields and columns in which names stand, by the kind of thing named.
NAMED = {
    "threads": {"name"},
    "agents": {"agent_type", "agent_instance"},
    "sessions": {"session"},
    "labels": {"name", "value", "labels"},
    "senders": {"from", "to", "own_name", "role", "from_name", "to_name"},
    "types": {"type"},
    "keys": {"key"},
    "pages": {
        *("page", "page_id", "page_ids", "displaced", "left_out"),
        *("derived_from", "provenance", "carries", "renamed_from"),
    },
    "checkpoints": {"name"},
}


def name_columns() -> Iterator[str]:
    """Yield columns in which clients' names stand, except event bodies."""
    for declared in privacy.list_declared_models().values():
        for column, holds in declared.holds.items():
            if holds & privacy.Holds.NAME and column != "body":
                yield column


def test_residue_with_sealed_contents_lists_clear_names(ann: Subject) -> None:
    row = make_verified(ann, planned={**PLANNED, "residue": sorted(receipts.RESIDUE)})
    residue = parse_receipt(receipts.issue_receipt(row))["residue"]
    named = {each["what"] for each in residue if each["names"]}
    assert named == {
        *("backups", "free_blocks", "database_free_space", "wal"),
        *("worker_files", "names_in_forks"),
    }
    assert "sealed" not in {each["control"] for each in residue}
    assert {*chain(*(each["names"] for each in residue))} == {*receipts.NAMES}


def test_every_client_name_field_has_a_kind() -> None:
    fields = {
        *chain(*(names.iter_marked_fields(event) for event in EVOLVE)),
        *name_columns(),
    }
    assert fields == {*chain(*NAMED.values())}
    assert NAMED.keys() == {*receipts.NAMES}


@pytest.mark.parametrize("scope", Erasure.Scope.values)
def test_narrow_scopes_declare_names_as_retained(scope: str) -> None:
    kept = {each["what"] for each in receipts.list_retained(scope)}
    assert ("names" in kept) is (scope in ("before", "record"))


def test_receipt_without_residue_is_just_verified(ann: Subject) -> None:
    row = make_verified(ann, planned={**PLANNED, "residue": []})
    assert parse_receipt(receipts.issue_receipt(row))["status"] == "verified"


def test_signed_receipt_detects_any_changed_bit(ann: Subject) -> None:
    receipt = receipts.issue_receipt(make_verified(ann))
    keys, text = signing.list_public_keys(), receipt.text.encode()
    assert texts.verify(text, keys).valid
    chance = random.Random(3)  # a seed repeats it
    for _ in range(300):
        assert not texts.verify(flipped(text, chance), keys).valid


def test_receipt_is_issued_once(ann: Subject) -> None:
    row = make_verified(ann)
    first = receipts.issue_receipt(row)
    Erasure.objects.filter(id=row.id).update(reason="test")
    row.refresh_from_db()
    assert receipts.issue_receipt(row).text == first.text
    assert Receipt.objects.count() == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"erased": {**ERASED, "slots": {"fenced": 3, "erased": 2}}},
        {"erased": {**ERASED, "slots": {"fenced": 0, "erased": 3}}},
        {"verification": {**LOOKED, "undeclared": 1}},
        {"verification": {**LOOKED, "self_test": "failed"}},
        {"verification": {**LOOKED, "unreachable": ["redis"]}},
        {"verification": {}},
    ],
)
def test_incomplete_erasure_gets_no_receipt(
    ann: Subject, changed: dict[str, Any]
) -> None:
    row = make_verified(ann, **changed)
    with pytest.raises(NotCompleteError):
        receipts.issue_receipt(row)
    with pytest.raises(NotCompleteError):
        receipts.add_addendum(row, "rewritten", {})
    assert not Receipt.objects.exists()


def test_zero_erased_is_a_success_only_when_zero_was_fenced(ann: Subject) -> None:
    """Issue a receipt of zeros only if nothing was fenced."""
    nothing = {place: {"fenced": 0, "erased": 0} for place in ERASED}
    assert (
        parse_receipt(receipts.issue_receipt(make_verified(ann, erased=nothing)))[
            "erased"
        ]
        == {}
    )
    bob = subjects.find_or_create(ann.project_id, "bob")
    untouched = {place: {**line, "erased": 0} for place, line in ERASED.items()}
    with pytest.raises(NotCompleteError):
        receipts.issue_receipt(make_verified(bob, erased=untouched))


def test_later_facts_become_addenda_of_the_receipt(ann: Subject) -> None:
    row = make_verified(ann)
    first = receipts.issue_receipt(row)
    added = receipts.add_addendum(row, "rewritten", {"tables": 12})
    again = receipts.add_addendum(row, "scanned", {"bytes": 1})
    assert [each.n for each in (first, added, again)] == [0, 1, 2]
    said = parse_receipt(added)
    assert said["v"] == "memoryhub.receipt-addendum/1"
    assert said["to_sha256"] == texts.digest(first.text).hex()
    assert (said["what"], said["numbers"]) == ("rewritten", {"tables": 12})
    keys = signing.list_public_keys()
    assert all(texts.verify(each.text.encode(), keys).valid for each in (added, again))
    first.refresh_from_db()
    assert receipts.issue_receipt(row) == first


def test_no_receipt_can_be_changed_or_removed(ann: Subject) -> None:
    receipt = receipts.issue_receipt(make_verified(ann))
    rows = Receipt.objects.filter(id=receipt.id)
    for change in (lambda: rows.update(text="{}"), rows.delete):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()
    assert rows.get().text == receipt.text


def test_threads_root_covers_the_threads_of_one_subject(agent: Agent) -> None:
    make_thread(agent, "t-1", user_id="ann")
    make_thread(agent, "t-2", user_id="bob")
    ann, bob = (subjects.find_or_create(agent.project, user) for user in ("ann", "bob"))
    before, other = (
        receipts.compute_threads_root(ann.id),
        receipts.compute_threads_root(bob.id),
    )
    assert before != other
    append(agent, "t-2", "more")
    assert receipts.compute_threads_root(ann.id) == before
    append(agent, "t-1", "more")
    assert receipts.compute_threads_root(ann.id) != before


def test_ledger_keeps_the_digest_of_the_receipt(ann: Subject) -> None:
    row = make_verified(ann)
    receipt = receipts.issue_receipt(row)
    line = ledgers.record_completion(row, receipt)
    assert line.receipt_sha256 == texts.digest(receipt.text)


def test_every_residue_has_an_end_and_a_control(ann: Subject) -> None:
    row = make_verified(ann, planned={**PLANNED, "residue": sorted(receipts.RESIDUE)})
    residue = parse_receipt(receipts.issue_receipt(row))["residue"]
    assert len(residue) == len(receipts.RESIDUE)
    assert all(each["until"] and each["control"] for each in residue)
