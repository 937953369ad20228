"""Erasures that go together: one scrub and one scan do for all, and none for another.

What is found of one, or written of her beside the fence, keeps no other waiting.
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
from memoryhub.vault.scan.targets import unpacked
from tests.cast.factories import append
from tests.cast.forgetting import forget, make_person

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture
def people(agent: Agent) -> list[Subject]:
    """Three who go, beside one who stays."""
    make_person(agent, "bob")
    return [make_person(agent, name) for name in ("ann", "eve", "joe")]


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For how many each scan was."""
    counts, scan = list[int](), scans.scan

    def look(targets: scan_targets.Targets, **options: Any) -> Any:
        counts.append(len(targets.by_erasure))
        return scan(targets, **options)

    monkeypatch.setattr(scans, "scan", look)
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


def test_one_scrub_and_one_scan_do_for_all(
    agent: Agent, people: list[Subject], scrubbed: list[str], scanned: list[int]
) -> None:
    rows = [forget(each, until=State.CACHES_PURGED) for each in people]
    first = erasures.advance(rows[0])
    assert [state(row) for row in rows] == [State.SCRUBBED] * 3
    first = erasures.advance(first)
    assert [state(row) for row in rows] == [State.VERIFIED] * 3
    assert (scrubbed, scanned) == ([""], [3])
    for row in rows:
        assert erasures.advance(row).state == State.COMPLETE
        told = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)
        # Of her own needles, which all are alike here.
        assert told["verification"]["needles"]["user_id"] == 1
        assert told["verification"]["undeclared"] == 0
    append(agent, "bob-1", "The twin is there.")


def test_one_that_is_found_keeps_no_other_waiting(
    people: list[Subject], settings: Settings, tmp_path: Path
) -> None:
    rows = [forget(each, until=State.SCRUBBED) for each in people]
    settings.LOGS = tmp_path
    log = tmp_path / "server.log"
    log.write_text(unpacked(bytes(rows[1].needles))[0].data.hex())
    assert erasures.advance(rows[0]).state == State.VERIFIED
    found, other = Erasure.objects.get(id=rows[1].id), state(rows[2])
    assert (found.state, other) == (State.SCRUBBED, State.VERIFIED)
    assert orjson.loads(found.verification)["undeclared"] == 1
    # Its own scan says what it waits for, and it does until it is put right.
    assert erasures.advance(found).waiting_on == "store"
    log.unlink()
    assert erasures.advance(found).state == State.VERIFIED


def test_one_that_somebody_wrote_for_is_not_verified_by_another(
    people: list[Subject], scanned: list[int]
) -> None:
    rows = [forget(each, until=State.SCRUBBED) for each in people]
    written = people[1].threads.order_by("id").first()
    assert written is not None
    project = written.project_id
    ThreadLabel(thread=written, project_id=project, name="late", value="hers").save()
    assert erasures.advance(rows[0]).state == State.VERIFIED
    assert scanned == [2]
    assert state(rows[1]) == State.SCRUBBED
    # It goes back, and what was written goes as well.
    assert erasures.advance(rows[1]).state == State.KEY_DESTROYED
    row = rows[1]
    while state(row) != State.COMPLETE:
        assert not erasures.advance(row).waiting_on
    assert not ThreadLabel.objects.filter(name="late").exists()


def test_rows_that_go_during_a_scrub_wait_for_the_next(
    people: list[Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    early = forget(people[0], until=State.CACHES_PURGED)
    late = forget(people[1], until=State.ROWS_ERASED)
    moved = forget(people[2], until=State.CACHES_PURGED)
    scrub = scrubbing.scrub

    def work(*, seconds: float) -> str:
        erasures.advance(late)
        # As if it had fallen back and come again.
        Erasure.objects.filter(id=moved.id).update(times='{"caches_purged":"later"}')
        return scrub(seconds=seconds)

    monkeypatch.setattr(scrubbing, "scrub", work)
    row = erasures.advance(early)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "")
    assert [state(late), state(moved)] == [State.CACHES_PURGED] * 2


def test_a_pass_takes_as_many_as_memory_allows(
    people: list[Subject], scanned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [forget(each, until=State.SCRUBBED) for each in people]
    one = len(unpacked(bytes(rows[0].needles)))
    monkeypatch.setattr(scan_targets, "BY_DAY", 2 * one)
    for row in rows:
        while state(row) != State.COMPLETE:
            assert not erasures.advance(row).waiting_on
    assert sum(scanned) == 3
    assert len(scanned) > 1
