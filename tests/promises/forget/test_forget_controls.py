"""Hindered erasures: each waits, names its reason, and is never called complete.

Each fault is made on purpose, on the way that forgetting takes every day.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import orjson
import pytest
from django.conf import settings
from django.db import connections
from django.db.models import Model

from memoryhub.errors import SubjectErasedError
from memoryhub.journal.forget import purging, scrub
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.keys import SubjectKey
from memoryhub.models.pages import Page
from memoryhub.models.privacy import Privacy, list_declared_models
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.forget import erasure_counts
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasure_steps, erasures
from tests.cast import readers
from tests.cast.factories import append, make_page, make_thread
from tests.cast.forgetting import confirm, get_subject, plan

POSTGRES = "postgresql" in settings.DATABASES["default"]["ENGINE"]
State = Erasure.State

pytestmark = [
    pytest.mark.promise("P13", control=True),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure_steps, "SCRUB_SECONDS", 0.2)


@pytest.fixture
def label() -> str:
    """Return a name of the person that occurs nowhere else."""
    return f"label {secrets.token_hex(12)}"


@pytest.fixture
def ann(agent: Agent, label: str) -> None:
    """Make the person's memory, and another's that differs only in the label."""
    for user_id, name, value in (("ann", "hers", label), ("bob", "his", "lbl")):
        make_thread(agent, name, user_id=user_id, labels={"channel": value})
        append(agent, name, "I would like seat 12A by the window.")
        make_page(agent, "rules", thread=name)


@pytest.fixture
def fenced(agent: Agent, ann: None) -> Erasure:
    return confirmed(agent)


def confirmed(agent: Agent) -> Erasure:
    """Confirm the erasure of all of ann."""
    return confirm(plan(get_subject(agent, "ann")))


def advanced(row: Erasure) -> Erasure:
    """Advance an erasure as far as it goes: some of its steps fall back."""
    for _ in range(2 * len(State.values)):
        row = erasures.advance_erasure(row)
    return row


def waits(row: Erasure, word: str, *, state: str) -> Erasure:
    row = advanced(row)
    assert (row.state, row.waiting_on) == (state, word)
    assert not Receipt.objects.filter(erasure=row).exists()
    return row


def completes(row: Erasure) -> None:
    row = advanced(row)
    assert (row.state, row.waiting_on) == (State.COMPLETE, ""), row.verification


def list_undeclared_hits(row: Erasure) -> set[tuple[str, str]]:
    """Return needle and surface of each undeclared finding of the last scan."""
    facts = orjson.loads(row.verification)
    return {
        (hit["needle"], hit["surface"])
        for hit in facts["hits"]
        if hit["standing"] == "undeclared"
    }


def test_erasure_completes_without_a_fault(fenced: Erasure) -> None:
    completes(fenced)


@pytest.mark.promise("P18", load="a reader that holds on")
def test_erasure_waits_for_a_held_reader(fenced: Erasure) -> None:
    """The person is unreadable, with the key gone; only the proof is missing."""
    with readers.hold_snapshot():
        row = waits(fenced, "reader", state=State.CACHES_PURGED)
        assert not SubjectKey.objects.using("keys").filter(subject=row.subject_id)
        with pytest.raises(SubjectErasedError):
            require_subject(Subject.objects.get(id=row.subject_id))
    completes(fenced)


def test_freed_bytes_that_are_not_overwritten_are_not_scrubbed(
    sqlite: None, fenced: Erasure
) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("PRAGMA secure_delete = FAST")
        try:
            waits(fenced, "store", state=State.CACHES_PURGED)
        finally:
            cursor.execute("PRAGMA secure_delete = ON")
    completes(fenced)


def test_freed_bytes_without_overwriting_are_found_by_the_scan(
    sqlite: None, agent: Agent, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The overwriting is skipped, and bytes stay in the file: the scan sees them."""
    monkeypatch.setattr(scrub, "_has_secure_delete", lambda alias: True)
    make_thread(agent, "hers", user_id="ann", labels={"channel": label})
    append(agent, "hers", *(secrets.token_hex(3_000) for _ in range(20)))
    with connections["default"].cursor() as cursor:
        cursor.execute("PRAGMA secure_delete = OFF")
        try:
            row = waits(confirmed(agent), "store", state=State.SCRUBBED)
        finally:
            cursor.execute("PRAGMA secure_delete = ON")
    assert ("nonce", "database") in list_undeclared_hits(row)
    with connections["default"].cursor() as cursor:
        cursor.execute("VACUUM")
    assert scrub.scrub(seconds=30) == ""
    completes(row)


@pytest.fixture
def unlisted(label: str) -> Iterator[Callable[[], None]]:
    """Make an unregistered table that holds the person's name, as a new model might."""

    def fill() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("INSERT INTO unlisted VALUES ('hers and nobody else''s')")

    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE TABLE unlisted (name varchar(64))")
        yield fill
        cursor.execute("DROP TABLE unlisted")


def test_unlisted_table_is_found_by_the_scan(
    agent: Agent, unlisted: Callable[[], None]
) -> None:
    make_thread(agent, "hers and nobody else's", user_id="ann")
    unlisted()
    row = waits(confirmed(agent), "store", state=State.SCRUBBED)
    assert ("name", "unlisted") in list_undeclared_hits(row)
    with connections["default"].cursor() as cursor:
        cursor.execute("DELETE FROM unlisted")
    assert scrub.scrub(seconds=30) == ""
    completes(row)


def skipping(skipped: type[Model]) -> Callable[[], dict[type[Model], Privacy]]:
    declared = list_declared_models()
    declared.pop(skipped)
    return lambda: declared


@pytest.mark.parametrize("place", [Page, Slot])
def test_table_skipped_by_the_purge_is_found_by_the_count(
    fenced: Erasure, monkeypatch: pytest.MonkeyPatch, place: type[Model]
) -> None:
    """The count is done by other code than the purge."""
    with monkeypatch.context() as patch:
        patch.setattr(purging, "list_declared_models", skipping(place))
        waits(fenced, "store", state=State.KEY_DESTROYED)
        assert any(erasure_counts.count_subject(fenced.subject_id).values())
    completes(fenced)


def test_uncounted_table_is_found_by_the_scan(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither purge nor count knows the table; the scan reads every row."""
    make_thread(agent, "of-her-trip", user_id="ann")
    make_page(agent, "of-her-trip", thread="of-her-trip")
    with monkeypatch.context() as patch:
        for module in (purging, erasure_counts):
            patch.setattr(module, "list_declared_models", skipping(Page))
        row = waits(confirmed(agent), "store", state=State.SCRUBBED)
        assert ("name", "hers") in list_undeclared_hits(row)
    completes(row)


def test_row_written_beside_the_fence_is_erased_as_well(fenced: Erasure) -> None:
    """A writer passed the fence: the count finds its row, and the purge takes it."""
    row = fenced
    while row.state != State.SCRUBBED:
        row = erasures.advance_erasure(row)
    thread = Thread.objects.filter(subject=row.subject_id).first()
    assert thread is not None
    late = ThreadLabel.objects.create(
        thread=thread, project_id=thread.project_id, name="late", value="late value"
    )
    row = erasures.advance_erasure(row)
    assert row.state == State.KEY_DESTROYED
    assert not Receipt.objects.filter(erasure=row).exists()
    completes(row)
    assert not ThreadLabel.objects.filter(pk=late.pk).exists()
