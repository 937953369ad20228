"""Erased values: withheld from any bundle that would bring them back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.models import Event, Project, Subject, Thread, Tombstone
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.export import withholding
from memoryhub.services.people import subjects
from tests.cast import bundled, factories, graves
from tests.oracles import memory_acts as acts
from tests.services.acts import fork

pytestmark = [pytest.mark.django_db, pytest.mark.promise("P14")]
VALUE = "The number of her passport is 4711-0815."
OTHER = "She would rather sit at the window, always."


@pytest.fixture
def data(agent: Agent, acme: Project) -> bytes:
    factories.make_thread(agent, "t-1", user_id="ann", **bundled.SMALL)
    factories.append(agent, "t-1", VALUE)
    factories.make_page(agent, "passport", text=VALUE)
    factories.make_page(agent, "made", text="Passport known.", provenance=("passport",))
    factories.make_page(agent, "window", text=OTHER)
    acts.set_key(agent, "passport", VALUE)
    acts.add_notes(agent, VALUE, OTHER)
    fork(agent, "t-1", "t-2")
    acts.set_key(agent, "again", VALUE, thread="t-2")
    return bundled.export(subjects.find_or_create(acme.id, "ann"))


@pytest.fixture
def ann(zeta: Project) -> Subject:
    """Make ann in the target project, with one of ann's values erased there."""
    ann = subjects.find_or_create(zeta.id, "ann")
    graves.bury_values(ann, [("page", {"text": VALUE})])
    ann.refresh_from_db()
    assert ann.tombstones == 1
    return ann


def list_erased_types(project: Project, name: str) -> list[str]:
    rows = Event.objects.filter(thread__project=project, thread__name=name)
    gone = rows.filter(erased_by__isnull=False).order_by("seq")
    assert not gone.filter(payload__isnull=False).exists()
    return [row.type for row in gone]


def test_erased_value_of_a_bundle_stays_out(
    data: bytes, ann: Subject, zeta: Project
) -> None:
    taken = bundled.take(data, zeta)
    assert taken.withheld == 5
    assert list_erased_types(zeta, "t-1") == [
        *("page.created", "page.created", "key.set", "note.added"),
    ]
    assert list_erased_types(zeta, "t-2") == ["key.set"]
    bundle = bundled.open_bundle(bundled.export(ann))
    values = [
        line["content"]
        for line in bundled.list_records(bundle, "events.jsonl")
        if VALUE in json.dumps(line["content"])
    ]
    # Messages are exempt, since only values are withheld.
    assert values == [{"content": VALUE}]
    for path in ("state/keys.jsonl", "state/notes.jsonl"):
        assert VALUE.encode() not in bundle.read(path)
    assert OTHER.encode() in bundle.read("state/notes.jsonl")


def test_each_withheld_record_is_named_by_an_event(
    data: bytes, ann: Subject, zeta: Project
) -> None:
    """Check the events by which `verify` explains the gaps after each test."""
    bundled.take(data, zeta)
    erasure = Tombstone.objects.get(subject=ann).erasure_id
    for name, count in (("t-1", 4), ("t-2", 5)):
        thread = Thread.objects.get(project=zeta, name=name)
        last = Event.objects.get(thread=thread, seq=thread.head_seq)
        body = json.loads(last.body)
        assert (last.type, last.actor) == ("records.erased", f"eraser:{erasure}")
        assert body["erasure"] == str(erasure)
        assert body["records"] == count
        gone = Event.objects.filter(thread=thread, erased_by__isnull=False)
        assert {row.erased_by for row in gone} == {last.seq}


def test_pages_and_keys_of_withheld_values_are_gone_from_the_state(
    data: bytes, ann: Subject, zeta: Project
) -> None:
    bundled.take(data, zeta)
    bundle = bundled.open_bundle(bundled.export(ann))
    assert bundled.list_records(bundle, "state/keys.jsonl") == []
    pages = {
        each["page_id"] for each in bundled.list_records(bundle, "state/pages.jsonl")
    }
    assert "window" in pages
    assert not pages & {"passport", "made"}


def test_many_withheld_records_need_several_events(
    data: bytes, ann: Subject, zeta: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(withholding, "MOST_RANGES", 2)
    bundled.take(data, zeta)
    rows = Event.objects.filter(thread__project=zeta, type="records.erased")
    per_thread = [rows.filter(thread__name=name).count() for name in ("t-1", "t-2")]
    assert per_thread == [2, 3]


def test_subject_without_tombstones_gets_every_value(
    data: bytes, acme: Any, zeta: Any
) -> None:
    assert bundled.take(data, zeta).withheld == 0
    assert list_erased_types(zeta, "t-1") == []
