"""A forget that is hindered waits, and says for what; it is never called complete.

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
from memoryhub.models.privacy import Privacy, tables
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.forget import erasure_counts
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasure_steps, erasures
from tests.cast import readers
from tests.cast.factories import append, make_page, make_thread
from tests.cast.forgetting import confirm, of, plan

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
    """A name of hers that stands nowhere else."""
    return f"label {secrets.token_hex(12)}"


@pytest.fixture
def ann(agent: Agent, label: str) -> None:
    """Her memory, and the same of somebody else but for the label."""
    for user_id, name, value in (("ann", "hers", label), ("bob", "his", "lbl")):
        make_thread(agent, name, user_id=user_id, labels={"channel": value})
        append(agent, name, "I would like seat 12A by the window.")
        make_page(agent, "rules", thread=name)


@pytest.fixture
def fenced(agent: Agent, ann: None) -> Erasure:
    return confirmed(agent)


def confirmed(agent: Agent) -> Erasure:
    """Everything of ann is to go."""
    return confirm(plan(of(agent, "ann")))


def advanced(row: Erasure) -> Erasure:
    """As far as it goes; twice as many steps as there are, since some fall back."""
    for _ in range(2 * len(State.values)):
        row = erasures.advance(row)
    return row


def waits(row: Erasure, word: str, *, state: str) -> Erasure:
    row = advanced(row)
    assert (row.state, row.waiting_on) == (state, word)
    assert not Receipt.objects.filter(erasure=row).exists()
    return row


def completes(row: Erasure) -> None:
    row = advanced(row)
    assert (row.state, row.waiting_on) == (State.COMPLETE, ""), row.verification


def found(row: Erasure) -> set[tuple[str, str]]:
    """Needle and surface of what the last scan calls undeclared."""
    facts = orjson.loads(row.verification)
    return {
        (hit["needle"], hit["surface"])
        for hit in facts["hits"]
        if hit["standing"] == "undeclared"
    }


def test_without_a_fault_it_completes(fenced: Erasure) -> None:
    completes(fenced)


@pytest.mark.promise("P18", load="a reader that holds on")
def test_a_held_reader_is_waited_for(fenced: Erasure) -> None:
    """She is unreadable, key and all; only the proof is not there."""
    with readers.held():
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


def test_what_was_freed_without_overwriting_is_found(
    sqlite: None, agent: Agent, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks, and every byte stays in the file: then the scan sees them."""
    monkeypatch.setattr(scrub, "_overwrites", lambda alias: True)
    make_thread(agent, "hers", user_id="ann", labels={"channel": label})
    append(agent, "hers", *(secrets.token_hex(3_000) for _ in range(20)))
    with connections["default"].cursor() as cursor:
        cursor.execute("PRAGMA secure_delete = OFF")
        try:
            row = waits(confirmed(agent), "store", state=State.SCRUBBED)
        finally:
            cursor.execute("PRAGMA secure_delete = ON")
    assert ("nonce", "database") in found(row)
    with connections["default"].cursor() as cursor:
        cursor.execute("VACUUM")
    assert scrub.scrub(seconds=30) == ""
    completes(row)


@pytest.fixture
def unlisted(label: str) -> Iterator[Callable[[], None]]:
    """A table that no registry knows keeps a name of hers, as a new model might."""

    def fill() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("INSERT INTO unlisted VALUES ('hers and nobody else''s')")

    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE TABLE unlisted (name varchar(64))")
        yield fill
        cursor.execute("DROP TABLE unlisted")


def test_a_table_that_nobody_listed_is_found(
    agent: Agent, unlisted: Callable[[], None]
) -> None:
    make_thread(agent, "hers and nobody else's", user_id="ann")
    unlisted()
    row = waits(confirmed(agent), "store", state=State.SCRUBBED)
    assert ("name", "unlisted") in found(row)
    with connections["default"].cursor() as cursor:
        cursor.execute("DELETE FROM unlisted")
    assert scrub.scrub(seconds=30) == ""
    completes(row)


def skipping(skipped: type[Model]) -> Callable[[], dict[type[Model], Privacy]]:
    declared = tables()
    declared.pop(skipped)
    return lambda: declared


@pytest.mark.parametrize("place", [Page, Slot])
def test_a_place_that_is_skipped_is_counted(
    fenced: Erasure, monkeypatch: pytest.MonkeyPatch, place: type[Model]
) -> None:
    """By who counts what is left, which is not who takes it."""
    with monkeypatch.context() as patch:
        patch.setattr(purging, "tables", skipping(place))
        waits(fenced, "store", state=State.KEY_DESTROYED)
        assert any(erasure_counts.count_subject(fenced.subject_id).values())
    completes(fenced)


def test_a_place_that_nobody_counts_is_found_by_the_scan(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither who takes nor who counts knows of it; the scan reads every row."""
    make_thread(agent, "of-her-trip", user_id="ann")
    make_page(agent, "of-her-trip", thread="of-her-trip")
    with monkeypatch.context() as patch:
        for module in (purging, erasure_counts):
            patch.setattr(module, "tables", skipping(Page))
        row = waits(confirmed(agent), "store", state=State.SCRUBBED)
        assert ("name", "hers") in found(row)
    completes(row)


def test_what_is_written_beside_the_fence_goes_as_well(fenced: Erasure) -> None:
    """A writer that no fence stopped: its row is met by the count, and taken."""
    row = fenced
    while row.state != State.SCRUBBED:
        row = erasures.advance(row)
    thread = Thread.objects.filter(subject=row.subject_id).first()
    assert thread is not None
    late = ThreadLabel.objects.create(
        thread=thread, project_id=thread.project_id, name="late", value="late value"
    )
    row = erasures.advance(row)
    assert row.state == State.KEY_DESTROYED
    assert not Receipt.objects.filter(erasure=row).exists()
    completes(row)
    assert not ThreadLabel.objects.filter(pk=late.pk).exists()
