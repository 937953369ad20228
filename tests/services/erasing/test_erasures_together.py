"""Concurrent erasures: one scrub and one scan serve all, each with its own verdict.

A finding of one erasure, or a row written beside its fence, delays no other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from pytest_django import Settings

from memoryhub.journal.forget import scrub as scrubbing
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import ThreadLabel
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.scan import scan_targets, scans
from memoryhub.vault.scan.targets import unpack_targets
from tests.cast.factories import append
from tests.cast.forgetting import forget, make_person

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture
def people(agent: Agent) -> list[Subject]:
    """Make three subjects to erase, beside one who stays."""
    make_person(agent, "bob")
    return [make_person(agent, name) for name in ("ann", "eve", "joe")]


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List how many erasures each scan was for."""
    counts, scan = list[int](), scans.scan_surfaces

    def look(targets: scan_targets.ScanTargets, **options: Any) -> Any:
        counts.append(len(targets.by_erasure))
        return scan(targets, **options)

    monkeypatch.setattr(scans, "scan_surfaces", look)
    return counts


@pytest.fixture
def scrubbed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told, scrub = list[str](), scrubbing.scrub

    def work(*, seconds: float) -> str:
        told.append(scrub(seconds=seconds))
        return told[-1]

    monkeypatch.setattr(scrubbing, "scrub", work)
    return told


def state(row: Erasure) -> str:
    return str(Erasure.objects.get(id=row.id).state)


def test_erasures_share_one_scrub_and_one_scan(
    agent: Agent, people: list[Subject], scrubbed: list[str], scanned: list[int]
) -> None:
    rows = [forget(each, until=State.CACHES_PURGED) for each in people]
    first = erasures.advance_erasure(rows[0])
    assert [state(row) for row in rows] == [State.SCRUBBED] * 3
    first = erasures.advance_erasure(first)
    assert [state(row) for row in rows] == [State.VERIFIED] * 3
    assert (scrubbed, scanned) == ([""], [3])
    for row in rows:
        assert erasures.advance_erasure(row).state == State.COMPLETE
        told = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
        # The counts are of the erasure's own needles, alike for all three.
        assert told["verification"]["needles"]["user_id"] == 1
        assert told["verification"]["undeclared"] == 0
    append(agent, "bob-1", "The twin is there.")


def test_erasure_with_a_finding_delays_no_other(
    people: list[Subject], settings: Settings, tmp_path: Path
) -> None:
    rows = [forget(each, until=State.SCRUBBED) for each in people]
    settings.LOGS = tmp_path
    log = tmp_path / "server.log"
    log.write_text(unpack_targets(bytes(rows[1].needles))[0].data.hex())
    assert erasures.advance_erasure(rows[0]).state == State.VERIFIED
    found, other = Erasure.objects.get(id=rows[1].id), state(rows[2])
    assert (found.state, other) == (State.SCRUBBED, State.VERIFIED)
    assert orjson.loads(found.verification)["undeclared"] == 1
    # A scan of that erasure alone says what the erasure waits for.
    assert erasures.advance_erasure(found).waiting_on == "store"
    log.unlink()
    assert erasures.advance_erasure(found).state == State.VERIFIED


def test_erasure_with_a_late_row_is_not_verified_by_another(
    people: list[Subject], scanned: list[int]
) -> None:
    rows = [forget(each, until=State.SCRUBBED) for each in people]
    written = people[1].threads.order_by("id").first()
    assert written is not None
    project = written.project_id
    ThreadLabel(thread=written, project_id=project, name="late", value="hers").save()
    assert erasures.advance_erasure(rows[0]).state == State.VERIFIED
    assert scanned == [2]
    assert state(rows[1]) == State.SCRUBBED
    # The erasure goes back a step, and erases the late row too.
    assert erasures.advance_erasure(rows[1]).state == State.KEY_DESTROYED
    row = rows[1]
    while state(row) != State.COMPLETE:
        assert not erasures.advance_erasure(row).waiting_on
    assert not ThreadLabel.objects.filter(name="late").exists()


def test_rows_erased_during_a_scrub_wait_for_the_next(
    people: list[Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    early = forget(people[0], until=State.CACHES_PURGED)
    late = forget(people[1], until=State.ROWS_ERASED)
    moved = forget(people[2], until=State.CACHES_PURGED)
    scrub = scrubbing.scrub

    def work(*, seconds: float) -> str:
        erasures.advance_erasure(late)
        # Pretend that this erasure fell back and returned meanwhile.
        Erasure.objects.filter(id=moved.id).update(times='{"caches_purged":"later"}')
        return scrub(seconds=seconds)

    monkeypatch.setattr(scrubbing, "scrub", work)
    row = erasures.advance_erasure(early)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "")
    assert [state(late), state(moved)] == [State.CACHES_PURGED] * 2


def test_scan_takes_as_many_erasures_as_memory_allows(
    people: list[Subject], scanned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [forget(each, until=State.SCRUBBED) for each in people]
    one = len(unpack_targets(bytes(rows[0].needles)))
    monkeypatch.setattr(scan_targets, "BY_DAY", 2 * one)
    for row in rows:
        while state(row) != State.COMPLETE:
            assert not erasures.advance_erasure(row).waiting_on
    assert sum(scanned) == 3
    assert len(scanned) > 1
