"""Bundles: all of a subject and of nobody else, readable by people and programs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from jsonschema_rs import validator_for

from memoryhub.errors import SubjectErasedError
from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models import ApiKey, Event, Hold, Project, Subject, Thread
from memoryhub.models.access.audit import DailyUse
from memoryhub.models.privacy import Holds, list_declared_models
from memoryhub.models.server.clock import clock
from memoryhub.queries.export import bundle_cuts, bundle_pages, bundles
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.export import exports
from memoryhub.services.people import subjects
from memoryhub.services.turns import marks
from memoryhub.vault.proof import signing
from tests.cast import bundled, factories, knowing, recordings
from tests.oracles import memory_acts as acts
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent, acme: Project) -> Subject:
    bundled.live_in_threads(agent)
    return subjects.find_or_create(acme.id, "ann")


def bundle_of(subject: Subject) -> ZipFile:
    return bundled.open_bundle(bundled.export(subject))


# Contents


def test_every_registered_kind_has_a_part() -> None:
    """A new table declares where its rows are exported, or why no export needs them."""
    exported = {privacy.exported for privacy in list_declared_models().values()} - {
        None
    }
    assert exported == bundles.list_record_files() - {"state/tasks.jsonl"} - UNSTORED


#: Folded from events alone: they have no table.
UNSTORED = {"state/notes.jsonl"}
#: Tables that another part covers, or that hold no memory of the subject.
OTHERS = {
    "memoryhub.Snapshot": "made of the events alone",
    "memoryhub.SubjectKey": "opens the rest",
    "memoryhub.ThreadTerms": "made of the events alone",
}


def test_subject_tables_with_content_or_names_are_exported() -> None:
    for model, privacy in list_declared_models().items():
        holds = privacy.holds.values()
        content = any(each & (Holds.SEALED | Holds.NAME) for each in holds)
        if privacy.subject and content and model._meta.label not in OTHERS:
            assert privacy.exported, model


@pytest.mark.promise("P16", load="a canary in each place of the registry")
def test_bundle_holds_the_canary_of_each_place(agent: Agent, acme: Project) -> None:
    ann = subjects.find_or_create(acme.id, "canary-user")
    planted = plant(agent, ann)
    whole = bundle_of(ann)
    texts = {name: whole.read(name).decode() for name in whole.namelist()}
    for canary, part in planted.items():
        assert canary in texts[part], canary
    places = {privacy.exported for privacy in list_declared_models().values()} - {None}
    assert places <= {*planted.values()} | {"access.jsonl"}


def plant(agent: Agent, ann: Subject) -> dict[str, str]:
    """Plant a canary in each place; return by canary the part that must have it."""
    labels: dict[str, Any] = {"canary-label": "canary-value"}
    factories.make_thread(
        agent,
        "canary-thread",
        user_id="canary-user",
        labels=labels,
        scope=ScopeLabels(session="canary-session"),
    )
    at: dict[str, Any] = {"thread": "canary-thread"}
    factories.append(agent, "canary-thread", "canary-content")
    factories.make_page(agent, "canary-page", text="canary-text", hint="canary-h", **at)
    acts.set_key(agent, "canary-key", "canary-keyed", **at)
    acts.add_notes(agent, "canary-note", **at)
    knowing.say(agent, ann, knowing.claim("canary-fact"))
    acts.take(agent, "canary-checkpoint", **at)
    acts.set_task(agent, fields={"current_step": b"4711"}, **at)
    act(agent, BeginTurn(), "canary-thread")
    row = factories.get_thread(agent, "canary-thread")
    marks.mark_for_operator(row, 1, "wrong", "canary-comment", actor="operator:x")
    key = ApiKey.objects.get(id=agent.key)
    DailyUse.objects.create(subject=ann, day=clock.now().date(), key=key, reads=4712)
    Hold.objects.create(
        project_id=ann.project_id,
        subject=ann,
        basis="archiving",
        opened_by="command",
        opened_at=clock.now(),
        expires_at=clock.now(),
    )
    return {
        "canary-user": "manifest.json",
        "canary-comment": "state/marks.jsonl",
        "archiving": "manifest.json",
        "canary-thread": "state/threads.jsonl",
        "canary-label": "state/threads.jsonl",
        "canary-session": "state/threads.jsonl",
        "canary-value": "events.jsonl",
        "canary-content": "events.jsonl",
        "canary-text": "events.jsonl",
        "canary-h": "timeline/00001.html",
        "canary-page": "state/pages.jsonl",
        "canary-key": "state/keys.jsonl",
        "canary-keyed": "state/keys.jsonl",
        "canary-note": "state/notes.jsonl",
        "canary-fact": "state/assertions.jsonl",
        "canary-checkpoint": "state/checkpoints.jsonl",
        "4711": "state/tasks.jsonl",
        "4712": "access.jsonl",
        key.prefix: "recipients.json",
    }


def test_bundle_holds_nothing_of_another_subject(
    agent: Agent, acme: Project, ann: Subject
) -> None:
    """The other subject's threads are full of the same words."""
    bundled.live_in_threads(agent, "bob", prefix="b-")
    bob = subjects.find_or_create(acme.id, "bob")
    bundle = bundle_of(ann)
    for name in bundle.namelist():
        text = bundle.read(name)
        assert str(bob.id).encode() not in text, name
        assert b"b-t-1" not in text, name
    assert len(bundled.manifest(bundle)["cut"]) == 3


def test_bundle_holds_every_event_byte_for_byte(ann: Subject) -> None:
    lines = bundled.list_records(bundle_of(ann), "events.jsonl")
    rows = Event.objects.filter(thread__subject=ann)
    assert len(lines) == rows.count()
    stored = {(str(row.thread_id), row.seq): row for row in rows}
    for line in lines:
        row = stored[line["thread"], line["seq"]]
        assert (line["type"], line["actor"]) == (row.type, row.actor)
        assert line["at"] == row.at.isoformat(timespec="microseconds")
        assert line["chain"] == bytes(row.chain).hex()
        assert (line["content"] is None) == (row.payload is None)
    assert lines[2]["content"] == {"content": {"a": [1, 2.5, None]}}


def test_parents_come_before_their_forks(ann: Subject) -> None:
    cut = bundled.manifest(bundle_of(ann))["cut"]
    assert [each["name"] for each in cut] == ["t-1", "t-2", "t-3"]
    assert [each["parent"] for each in cut] == [None, *(x["thread"] for x in cut[:2])]


def test_manifest_has_the_digest_of_every_other_file(ann: Subject) -> None:
    whole = bundle_of(ann)
    manifest = bundled.manifest(whole)
    named = {file["path"]: file for file in manifest["files"]}
    assert [*named, "manifest.json"] == whole.namelist()
    for path, file in named.items():
        data = whole.read(path)
        assert (len(data), hashlib.sha256(data).hexdigest()) == (
            file["bytes"],
            file["sha256"],
        )
        if path.endswith(".jsonl"):
            assert file["records"] == len(data.splitlines())
    sig = bytes.fromhex(manifest["signature"]["sig"])
    key_id, keys = manifest["signature"]["key_id"], signing.list_public_keys()
    assert signing.is_signed(key_id, bundles.build_canonical(manifest), sig, keys)
    manifest["erased"] += 1
    assert not signing.is_signed(key_id, bundles.build_canonical(manifest), sig, keys)


def test_bundle_lines_match_their_schemas(ann: Subject) -> None:
    whole = bundle_of(ann)
    described = [each for each in bundled.manifest(whole)["files"] if each["schema"]]
    assert len(described) == 9
    bodies = set()
    for file in described:
        schema = validator_for(bundled.load(whole, file["schema"]))
        for record in bundled.list_records(whole, file["path"]):
            schema.validate(record)
            if file["path"] == "events.jsonl" and record["type"] not in bodies:
                path = f"schemas/events/{record['type']}.json"
                validator_for(bundled.load(whole, path)).validate(record["body"])
                bodies.add(record["type"])
    assert len(bodies) > 12


def test_bundle_states_equal_those_of_the_threads(ann: Subject) -> None:
    whole = bundle_of(ann)
    threads = bundled.list_records(whole, "state/threads.jsonl")
    named = {each["id"]: each["name"] for each in threads}
    keys = bundled.list_records(whole, "state/keys.jsonl")
    values = {(named[each["thread"]], each["key"]): each["value"] for each in keys}
    assert values["t-1", "seat"] == "12A"
    # Left before the restore.
    assert values["t-3", "seat"] == "14C"
    assert {named[each["thread"]] for each in keys} == {"t-1", "t-2", "t-3"}
    notes = bundled.list_records(whole, "state/notes.jsonl")
    assert [each["text"] for each in notes] == ["she hesitates"] * 3
    pages = bundled.list_records(whole, "state/pages.jsonl")
    own = {each["page_id"] for each in pages if named[each["thread"]] == "t-3"}
    assert own >= {"fares", "rules", "own", "slot-0", "slot-9"}
    assert {each["name"] for each in threads} == {"t-1", "t-2", "t-3"}
    assert threads[1]["status"] == "closed"


def test_file_names_of_a_bundle_contain_no_user_text(
    agent: Agent, acme: Project
) -> None:
    bundled.live_in_threads(agent, "a@b.example", prefix="x.y@z-")
    whole = bundle_of(subjects.find_or_create(acme.id, "a@b.example"))
    plain = re.compile(r"[a-zA-Z/.]+[0-9]{0,5}\.(md|jsonl|json|html|css)")
    assert [name for name in whole.namelist() if not plain.fullmatch(name)] == []
    assert not any("x.y" in name or "a@b" in name for name in whole.namelist())


# For people


@pytest.mark.parametrize("info", [None, [1], "a text", {"score": "much"}])
def test_bundle_page_shows_the_imported_run_info(
    acme: Project, tmp_path: Path, info: Any
) -> None:
    made = {
        "task_id": 0,
        "trial": 0,
        "info": info,
        "traj": [recordings.build_message()],
    }
    recordings.take(acme, recordings.array(tmp_path, made), user_id="ann")
    whole = bundle_of(subjects.find_or_create(acme.id, "ann"))
    page = whole.read("timeline/00001.html").decode()
    assert re.search(r"run\.recorded[^<]*</small><pre", page)


def test_bundle_pages_escape_user_text(agent: Agent, acme: Project) -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"&"
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", hostile, {hostile: hostile})
    whole = bundle_of(subjects.find_or_create(acme.id, "ann"))
    page = whole.read("timeline/00001.html").decode()
    assert "&lt;script&gt;alert(1)" in page
    assert not re.search(
        r"<(?!/?(html|head|meta|title|link|body|p|a|h2|ol|li|time|b"
        r"|small|pre|em|!doctype)\b)",
        page,
    )
    assert "style=" not in page
    assert "://" not in page


def test_timeline_pages_have_equal_numbers_of_events(
    agent: Agent, acme: Project, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_pages, "EVENTS_A_PAGE", 7)
    whole = bundle_of(ann)
    paths = [n for n in whole.namelist() if n.startswith("timeline/0")]
    total = Event.objects.filter(thread__subject=ann).count()
    assert len(paths) == -(-total // 7)
    shown = [whole.read(path).decode().count("<li>") for path in paths]
    assert sum(shown) == total
    assert {*shown[:-1]} == {7}
    index = whole.read("timeline.html").decode()
    assert [path for path in paths if f'href="{path}"' not in index] == []


# One moment


def test_bundle_excludes_records_written_after_its_cut(
    agent: Agent, ann: Subject
) -> None:
    export = exports.begin_export(ann, actor="command")
    before = bundled.comparable(bundle_of(ann))
    stream = export.stream()
    parts = [next(stream)]
    factories.append(agent, "t-1", "later")
    acts.set_key(agent, "seat", "99Z")
    factories.make_page(agent, "late")
    factories.make_thread(agent, "t-9", user_id="ann")
    parts += stream
    assert bundled.comparable(bundled.open_bundle(b"".join(parts))) == before


def test_bundle_tells_of_an_erasure_during_its_export(
    agent: Agent, ann: Subject, zeta: Project
) -> None:
    """A page is deleted after the cut, which moves no epoch."""
    export = exports.begin_export(ann, actor="command")
    bundled.delete_page(agent, "rules")
    data = b"".join(export.stream())
    manifest = bundled.manifest(bundled.open_bundle(data))
    assert manifest["erased"] == 1
    head = factories.get_thread(agent, "t-1").head_seq
    assert manifest["cut"][0]["head_seq"] == head
    lines = bundled.list_records(bundled.open_bundle(data), "events.jsonl")
    (gone,) = (line for line in lines if line["erased"])
    assert gone["erased"] <= head
    assert bundled.take(data, zeta).threads == 3


def test_same_memory_makes_the_same_bundle(ann: Subject) -> None:
    one, two = bundle_of(ann), bundle_of(ann)
    assert one.namelist() == two.namelist()
    differing = [name for name in one.namelist() if one.read(name) != two.read(name)]
    # When it was made stands in two files, in one of them by the second.
    assert "manifest.json" in differing
    assert {*differing} <= {"README.md", "manifest.json"}


@pytest.mark.promise("P16", load="cut at each of its parts, and at 200 places between")
def test_bundle_cut_anywhere_never_opens(ann: Subject) -> None:
    parts = [*exports.begin_export(ann, actor="command").stream()]
    data = b"".join(parts)
    places, at = {*range(1, len(data), max(1, len(data) // 200))}, 0
    for part in parts[:-1]:
        at += len(part)
        places.add(at)
    for place in sorted(places):
        with pytest.raises(BadZipFile):
            bundled.open_bundle(data[:place])
    assert bundled.open_bundle(data).testzip() is None


@pytest.mark.parametrize("change", [{"epoch": 2}, {"state": "erasing"}])
def test_export_stops_when_its_subject_is_erased(
    ann: Subject, change: dict[str, Any]
) -> None:
    export = exports.begin_export(ann, actor="command")
    parts = []

    def take() -> None:
        for part in export.stream():
            parts.append(part)
            if len(parts) == 5:
                Subject.objects.filter(id=ann.id).update(**change)

    with pytest.raises(SubjectErasedError):
        take()
    Subject.objects.filter(id=ann.id).update(epoch=1, state="active")
    assert len(parts) == 5
    with pytest.raises(BadZipFile):
        bundled.open_bundle(b"".join(parts))


@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_bundle_cut_of_an_erased_subject_is_refused(ann: Subject, state: str) -> None:
    Subject.objects.filter(id=ann.id).update(state=state)
    with pytest.raises(SubjectErasedError):
        bundle_cuts.take(ann)
    Subject.objects.filter(id=ann.id).update(state="active")


def test_bundle_excludes_a_thread_that_is_being_imported(ann: Subject) -> None:
    Thread.objects.filter(name="t-3").update(status="importing")
    cut = bundle_cuts.take(ann)
    Thread.objects.filter(name="t-3").update(status="open")
    assert [part.name for part in cut.parts] == ["t-1", "t-2"]


# Costs


def queries(work: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as captured:
        work()
    return len(captured)


def test_bundle_of_a_longer_thread_costs_no_more_queries(
    agent: Agent, acme: Project
) -> None:
    counts = []
    for user_id, events in (("ann", 5), ("bob", 150)):
        factories.make_thread(agent, user_id, user_id=user_id)
        factories.append(agent, user_id, *(f"message {n}" for n in range(events)))
        subject = subjects.find_or_create(acme.id, user_id)
        cut = bundle_cuts.take(subject)
        sign = exports._sign_data
        bundle = bundles.stream(cut, user_id=user_id, sign=sign)
        counts.append(queries(partial(list, bundle)))
    assert counts[0] == counts[1]
