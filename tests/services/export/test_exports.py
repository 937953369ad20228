"""Exports: limits at once and a day, and audit entries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
import time_machine
from django.conf import settings

from memoryhub.errors import ExportBusyError, RateError, SubjectErasedError
from memoryhub.journal.writing.uses import uses
from memoryhub.models import Project, Subject
from memoryhub.models.access.audit import AuditEntry, DailyUse
from memoryhub.models.server.clock import clock
from memoryhub.models.server.leases import Lease
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.export import exports
from memoryhub.services.export.exports import BundleExport
from memoryhub.services.people import subjects
from tests.cast import bundled, factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


def begin(subject: Subject) -> BundleExport:
    return exports.begin_export(subject, actor="command")


def count_audited() -> int:
    return AuditEntry.objects.filter(action="subject.exported").count()


@pytest.fixture
def later(ann: Subject) -> Iterator[time_machine.Traveller]:
    with time_machine.travel(clock.now(), tick=False) as traveller:
        yield traveller


def test_export_holds_its_lease_until_the_end(ann: Subject) -> None:
    export = begin(ann)
    (lease,) = Lease.objects.all()
    assert lease.holder == export.id
    assert len(lease.name) <= 40
    assert export.sent == 0
    data = b"".join(export.stream())
    assert export.sent == len(data)
    assert not Lease.objects.exists()


def test_dropped_export_frees_its_lease(ann: Subject) -> None:
    export = begin(ann)
    assert len(export.take()) > 0
    export.drop()
    assert export.take() == b""
    assert not Lease.objects.exists()


def test_export_pieces_make_the_whole_bundle(
    ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "PIECE_BYTES", 1_000)
    export, pieces = begin(ann), []
    while piece := export.take():
        pieces.append(piece)
    assert {len(piece) >= 1_000 for piece in pieces[:-1]} == {True}
    assert bundled.open_bundle(b"".join(pieces)).testzip() is None
    assert not Lease.objects.exists()


def test_project_has_two_exports_at_once(ann: Subject) -> None:
    one, _ = begin(ann), begin(ann)
    with pytest.raises(ExportBusyError):
        begin(ann)
    assert count_audited() == 2
    one.close()
    begin(ann)
    assert count_audited() == 3


def test_instance_has_four_exports_at_once(ann: Subject) -> None:
    for n in range(2):
        other = projects.create(f"p-{n}")
        for _ in range(2):
            begin(subjects.find_or_create(other.id, "ann"))
    with pytest.raises(ExportBusyError):
        begin(ann)


def test_stalled_export_loses_its_lease(
    ann: Subject, later: time_machine.Traveller
) -> None:
    """Stall two exports, as a killed process or an idle client does."""
    still = [begin(ann), begin(ann)]
    later.shift(exports.LEASE - timedelta(seconds=1))
    with pytest.raises(ExportBusyError):
        begin(ann)
    later.shift(1)
    begin(ann)
    # The stalled export may still end, and takes nobody's lease.
    assert b"".join(still[0].stream())
    assert Lease.objects.count() == 1


def test_export_in_progress_keeps_its_lease(
    ann: Subject, later: time_machine.Traveller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "BEAT_SECONDS", 0.0)
    with closing(begin(ann).stream()) as stream:
        next(stream)
        later.shift(exports.LEASE - timedelta(seconds=1))
        next(stream)
        later.shift(2)
        begin(ann)
        with pytest.raises(ExportBusyError):
            begin(ann)


def test_subject_has_ten_exports_a_day(
    ann: Subject, acme: Project, later: time_machine.Traveller
) -> None:
    for _ in range(settings.EXPORTS_PER_DAY):
        begin(ann).close()
        later.shift(60)
    with pytest.raises(RateError) as refusal:
        begin(ann)
    assert refusal.value.detail == {
        "retry_after_seconds": 86_400 - 600,
        "max_per_day": 10,
    }
    begin(subjects.find_or_create(acme.id, "bob")).close()
    later.shift(86_400 - 600)
    begin(ann).close()


def test_refused_export_is_not_audited(ann: Subject) -> None:
    Subject.objects.filter(id=ann.id).update(state="erased")
    with pytest.raises(SubjectErasedError):
        begin(ann)
    Subject.objects.filter(id=ann.id).update(state="active")
    assert count_audited() == 0
    assert not Lease.objects.exists()


def test_export_is_audited_before_its_first_byte(agent: Agent, ann: Subject) -> None:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", "one", "two")
    begin(ann)
    entry = AuditEntry.objects.get(action="subject.exported")
    assert (entry.count, entry.outcome) == (3, "done")
    assert entry.subject is not None


def test_export_by_a_key_counts_as_a_read(agent: Agent, ann: Subject) -> None:
    for _ in range(2):
        exports.begin_export(ann, actor=agent.actor).close()
    begin(ann).close()
    uses.flush()
    use = DailyUse.objects.get(subject=ann, key=agent.key)
    assert (use.day, use.reads, use.writes) == (clock.now().date(), 2, 0)
