from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import orjson
import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from memoryhub.journal import audit
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.queries.scan.surface_kinds import LARGE
from memoryhub.queries.verify import privacy_checks
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import night_scans
from memoryhub.services.people import subjects
from memoryhub.services.scan import scan_probes, scan_targets, scans
from memoryhub.vault.proof import receipts, signing
from memoryhub.vault.scan import targets
from memoryhub.vault.scan.targets import unpack_targets
from tests.cast.erasings import sound
from tests.cast.factories import append, get_thread
from tests.cast.forgetting import finish, forget, make_person
from tests.cast.graves import make_erasure

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    make_person(agent, "bob")
    return make_person(agent, "ann")


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the memory larger than a scan by day may read."""
    monkeypatch.setattr(scans, "BUDGET_BYTES", 1)


def get_entry() -> AuditEntry:
    return AuditEntry.objects.filter(action="scanned").latest("seq")


def addenda(row: Erasure) -> list[dict[str, int]]:
    """List the numbers of an erasure's addenda, and check their signatures."""
    rows = Receipt.objects.filter(erasure=row, n__gt=0).order_by("n")
    keys = signing.list_public_keys()
    told = [receipts.verify(row.text.encode(), keys).says for row in rows]
    assert {each and each["what"] for each in told} <= {"scanned"}
    return [each["numbers"] for each in told if each]


def last_scan(project: Project) -> str:
    found = privacy_checks.list_checks(project, now=timezone.now())
    return {each.name: each.state for each in found}["last scan"]


# Hours at which a scan is due


def note(at: datetime, *, actor: str = night_scans.ACTOR, **more: object) -> None:
    with transaction.atomic():
        audit.append(actor=actor, action="scanned", project=None, at=at, **more)  # type: ignore[arg-type]


def list_due(first: datetime, hours: int) -> list[datetime]:
    times = [first + hour * HOUR for hour in range(hours)]
    return [at for at in times if night_scans.is_due(at)]


def test_night_scan_is_not_due_when_nothing_was_erased(ann: Subject) -> None:
    assert list_due(NOON, 48) == []


def test_night_scan_is_due_until_it_is_made(ann: Subject) -> None:
    make_erasure(ann, confirmed_at=NOON)
    night = NOON + 13 * HOUR
    assert list_due(NOON, 24) == [night + n * HOUR for n in range(4)]
    note(night + HOUR / 6)
    # One scan a night is due; a scan from a terminal does not count.
    assert list_due(night, 24) == []
    note(night + DAY - HOUR, actor="command")
    assert list_due(night + DAY, 4) == [night + DAY + n * HOUR for n in range(4)]


@pytest.mark.parametrize(("count", "again"), [(0, 2), (3, 0)])
def test_night_scan_that_proved_nothing_is_due_again(
    ann: Subject, count: int, again: int
) -> None:
    make_erasure(ann, confirmed_at=NOON)
    night = NOON + 13 * HOUR
    note(night + HOUR / 6, outcome="failed", count=count)
    assert len(list_due(night, 4)) == again


def test_missed_night_scan_is_due_by_day(ann: Subject) -> None:
    make_erasure(ann, confirmed_at=NOON)
    late = NOON + DAY + 5 * HOUR
    assert not night_scans.is_due(late - HOUR)
    assert night_scans.is_due(late)
    note(late)
    assert not night_scans.is_due(late + 2 * HOUR)


def test_each_erasure_has_its_own_scan_verdict(
    settings: Settings, tmp_path: Path
) -> None:
    settings.LOGS, text = tmp_path, secrets.token_hex(16)
    (tmp_path / "server.log").write_text(text)
    found, other = (
        targets.build_user_id_target(text),
        targets.build_user_id_target(secrets.token_hex(16)),
    )
    one, two, three = (uuid4() for _ in range(3))
    groups = {one: [found], two: [other], three: [other, found]}
    whole, each = scans.scan_surfaces(scan_targets.ScanTargets(by_erasure=groups))
    assert (whole.undeclared, whole.targets) == (1, {"user_id": 2})
    undeclared = {name: verdict.undeclared for name, verdict in each.items()}
    assert undeclared == {one: 1, two: 0, three: 1}
    assert {verdict.scanned_bytes for verdict in each.values()} == {whole.scanned_bytes}
    assert each[two].is_clean
    assert not each[one].is_clean


# Erasures that wait for the night


@pytest.mark.usefixtures("large")
def test_receipt_over_the_scan_budget_waits_for_the_night(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = finish(forget(ann, until=State.SCRUBBED))
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "night")
    assert orjson.loads(row.verification)["self_test"] == "passed"
    with monkeypatch.context() as patch:
        # The memory is not scanned a second time by day.
        patch.setattr(scans, "scan_surfaces", None)
        assert finish(row).state == State.SCRUBBED
    assert not Receipt.objects.exists()

    (verdict,) = night_scans.run_scans()
    assert verdict.is_clean
    assert not verdict.deferred
    # The night scan reads the large surfaces too.
    assert set(verdict.surfaces) & LARGE
    assert (get_entry().actor_kind, get_entry().outcome, get_entry().count) == (
        "worker",
        "done",
        0,
    )
    row = finish(row)
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    found = orjson.loads(Receipt.objects.get(erasure=row).text)["verification"]
    assert (found["deferred"], found["undeclared"]) == (False, 0)
    append(agent, "bob-1", "The twin is there.")
    sound(get_thread(agent, "bob-1"))


@pytest.mark.usefixtures("large")
def test_erasure_with_a_finding_delays_no_other(
    agent: Agent, acme: Project, ann: Subject, settings: Settings, tmp_path: Path
) -> None:
    eve = make_person(agent, "eve")
    rows = [finish(forget(each, until=State.SCRUBBED)) for each in (ann, eve)]
    settings.LOGS = tmp_path
    left = unpack_targets(bytes(rows[1].needles))[0].data
    (tmp_path / "server.log").write_text(left.hex())
    night_scans.run_scans()
    assert (get_entry().outcome, get_entry().count) == ("failed", 1)
    assert last_scan(acme) == "away"
    done, kept = map(finish, rows)
    assert (done.state, kept.state) == (State.COMPLETE, State.SCRUBBED)
    # The other erasure's success does not clear the check.
    assert last_scan(acme) == "away"
    assert not Receipt.objects.filter(erasure=kept).exists()

    (tmp_path / "server.log").unlink()
    night_scans.run_scans()
    assert finish(kept).state == State.COMPLETE
    assert last_scan(acme) == "ok"
    sound(get_thread(agent, "bob-1"))


def reenter_state(row: Erasure) -> None:
    """Pretend that the erasure fell back and returned."""
    Erasure.objects.filter(id=row.id).update(times=b'{"scrubbed":"later"}'.decode())


def leave_state(row: Erasure) -> None:
    Erasure.objects.filter(id=row.id).update(state=State.KEY_DESTROYED)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("change", [reenter_state, leave_state])
def test_erasure_that_moved_during_the_scan_is_not_verified(
    ann: Subject, change: Callable[[Erasure], None]
) -> None:
    row = finish(forget(ann, until=State.SCRUBBED))
    night_scans.run_scans(lambda amount: change(row))
    assert Erasure.objects.get(id=row.id).state != State.VERIFIED
    assert not AuditEntry.objects.filter(action="erasure.verified").exists()


@pytest.mark.usefixtures("large")
def test_failed_night_scan_ends_no_erasure(
    ann: Subject, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = finish(forget(ann, until=State.SCRUBBED))
    before = row.verification
    monkeypatch.setattr(scan_probes, "_plant_in_redis", lambda probes, key: None)
    settings.REDIS_URL = f"unix://{tmp_path / 'none.sock'}"
    (verdict,) = night_scans.run_scans()
    assert verdict.unreachable
    assert (get_entry().outcome, get_entry().count) == ("failed", 0)
    row = Erasure.objects.get(id=row.id)
    assert (row.state, row.verification) == (State.SCRUBBED, before)


# After the receipt


def test_each_receipt_gets_an_addendum_from_the_next_night_scan(
    agent: Agent, ann: Subject
) -> None:
    row = forget(ann)
    assert row.needles
    (verdict,) = night_scans.run_scans()
    (told,) = addenda(row)
    assert told == {
        "surfaces": len(verdict.surfaces),
        "bytes": verdict.scanned_bytes,
        "needles": sum(verdict.targets.values()),
        "undeclared": 0,
    }
    assert told["needles"] > 0
    assert not Erasure.objects.get(id=row.id).needles
    # The next night there is nothing to look for, and nothing to say.
    (verdict,) = night_scans.run_scans()
    assert verdict.is_clean
    assert not verdict.targets
    assert len(addenda(row)) == 1
    sound(get_thread(agent, "bob-1"))


def test_returned_text_is_reported_once_until_it_is_gone(
    acme: Project, ann: Subject, settings: Settings, tmp_path: Path
) -> None:
    row = forget(ann)
    settings.LOGS = tmp_path
    left = unpack_targets(bytes(row.needles))[0].data
    (tmp_path / "restored.log").write_text(left.hex())
    for _ in range(2):
        night_scans.run_scans()
        assert [each["undeclared"] for each in addenda(row)] == [1]
        assert last_scan(acme) == "away"
    (tmp_path / "restored.log").unlink()
    night_scans.run_scans()
    assert [each["undeclared"] for each in addenda(row)] == [1, 0]
    assert last_scan(acme) == "ok"
    assert not Erasure.objects.get(id=row.id).needles


def test_night_scan_splits_erasures_into_passes_by_memory(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for subject in (ann, make_person(agent, "eve")):
        forget(subject)
    monkeypatch.setattr(scan_targets, "AT_ONCE", 1)
    assert len(night_scans.run_scans()) == 2
    assert [len(addenda(row)) for row in Erasure.objects.all()] == [1, 1]
    assert subjects.find(agent.project, "bob") is not None
