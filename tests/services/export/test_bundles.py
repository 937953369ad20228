"""Bundle imports: whole or not at all, and equal to the exported subject."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.errors import (
    BundleErasedError,
    NameTakenError,
    NotFoundError,
    ProjectFullError,
    Refusal,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadErasedError,
)
from memoryhub.journal import importing
from memoryhub.models import Event, Instance, Project, Subject, Thread
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.derivations import Derivation
from memoryhub.queries.verify import context_verification
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks
from memoryhub.services.knowledge.blocks import BlockDraft
from memoryhub.services.people import subjects
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import bundled, erasings, factories
from tests.replay import assert_replays

pytestmark = pytest.mark.django_db
Edit = Callable[[Any], None]


@pytest.fixture
def ann(agent: Agent, acme: Project) -> Subject:
    bundled.live_in_threads(agent)
    return subjects.find_or_create(acme.id, "ann")


@pytest.fixture(scope="module")
def kept() -> list[bytes]:
    return []


@pytest.fixture
def data(kept: list[bytes], request: pytest.FixtureRequest) -> bytes:
    """Return ann's bundle, made once, from a project that is gone since."""
    if not kept:
        kept.append(bundled.export(request.getfixturevalue("ann")))
    return kept[0]


def get_refusal(data: bytes, project: Project, **options: Any) -> Refusal:
    """Return the bundle's refusal, and check that nothing was written."""
    before = Thread.objects.count(), Event.objects.count(), Subject.objects.count()
    with pytest.raises(Refusal) as refusal:
        bundled.take(data, project, **options)
    after = Thread.objects.count(), Event.objects.count(), Subject.objects.count()
    assert after == before
    return refusal.value


# Imports


@pytest.mark.promise("P16", load="a bundle of every kind of record")
def test_import_of_an_export_equals_the_original(data: bytes, zeta: Project) -> None:
    taken = bundled.take(data, zeta)
    again = subjects.find_or_create(zeta.id, "ann")
    assert (taken.subject, taken.threads) == (again.id, 3)
    content = bundled.comparable(bundled.open_bundle(bundled.export(again)))
    assert content == bundled.comparable(bundled.open_bundle(data))
    assert taken.events == len(content["events.jsonl"])
    kinds = {line["type"] for line in content["events.jsonl"]}
    assert kinds >= {"turn.packed", "pages.evicted", "checkpoint.restored"}


def test_bound_keys_thread_is_found_by_the_new_subjects_key(
    agent: Agent, ann: Subject, acme: Project, zeta: Project
) -> None:
    """Find the thread by a key bound to the imported subject, who has another id."""
    bound = factories.make_agent(acme, subject=ann)
    factories.append(bound, "own", "hello")
    factories.run(turns.begin_turn(agent=bound, thread="own", new=turns.NewTurn()))
    again = bundled.take(bundled.export(ann), zeta).subject
    assert again is not None
    there = factories.make_agent(zeta, subject=Subject.objects.get(id=again))
    factories.append(there, "own", "and on")
    row = Thread.objects.select_related("subject").get(name=f"{again}:own")
    assert (row.subject_id, row.slot_count) == (again, 2)
    checked = [*context_verification.iter_checks(row)]
    assert [(each.wrong, each.erased) for each in checked] == [(None, False)]


def test_imported_contexts_have_the_same_hash(data: bytes, zeta: Project) -> None:
    bundled.take(data, zeta)
    rows = Thread.objects.select_related("subject").filter(project=zeta)
    checked = [each for row in rows for each in context_verification.iter_checks(row)]
    assert len(checked) == 7
    assert {(each.wrong, each.erased) for each in checked} == {(None, False)}


def test_imported_thread_can_be_written_to(data: bytes, zeta: Project) -> None:
    bundled.take(data, zeta)
    other = factories.make_agent(zeta)
    before = factories.get_thread(other, "t-1").head_seq
    assert factories.append(other, "t-1", "more").seq == before + 1
    assert factories.get_thread(other, "t-2").status == "closed"


def test_imported_ids_salts_and_hashes_are_new(
    ann: Subject, zeta: Project, acme: Project
) -> None:
    bundled.take(bundled.export(ann), zeta)
    for name in ("t-1", "t-2", "t-3"):
        was = Thread.objects.get(project=acme, name=name)
        row = Thread.objects.get(project=zeta, name=name)
        instance = str(Instance.objects.get().id)
        origin = [instance, str(was.id), bytes(was.head_hash).hex()]
        assert json.loads(row.origin) == origin
        assert row.id != was.id
        assert row.subject_id != was.subject_id
        assert bytes(row.name_salt) != bytes(was.name_salt)
        assert bytes(row.head_hash) != bytes(was.head_hash)
        assert (row.head_seq, row.created_at) == (was.head_seq, was.created_at)
        assert row.listed_at == row.last_event_at


def test_import_is_audited(data: bytes, zeta: Project) -> None:
    taken = bundled.take(data, zeta)
    (entry,) = AuditEntry.objects.filter(action="subject.imported")
    assert (entry.project, entry.count) == (zeta.id, taken.events)
    assert entry.target_id == str(taken.subject)


def test_imported_threads_are_counted(data: bytes, zeta: Project) -> None:
    bundled.take(data, zeta)
    zeta.refresh_from_db()
    assert zeta.thread_count == 3


def test_anonymous_bundle_joins_the_anonymous_subject(
    agent: Agent, acme: Project, zeta: Project
) -> None:
    factories.append(agent, "t-1", "hello")
    data = bundled.export(subjects.get_anonymous(acme.id))
    assert bundled.take(data, zeta).subject == subjects.get_anonymous(zeta.id).id


def test_subject_without_threads_is_imported(acme: Project, zeta: Project) -> None:
    data = bundled.export(subjects.find_or_create(acme.id, "bob"))
    assert bundled.take(data, zeta).threads == 0
    assert subjects.find(zeta.id, "bob") is not None


def test_deleted_page_is_imported_as_erased(
    agent: Agent, acme: Project, zeta: Project, ann: Subject
) -> None:
    """Import the texts of deleted pages as erased records."""
    bundled.delete_page(agent, "rules")
    data = bundled.export(ann)
    content = bundled.comparable(bundled.open_bundle(data))
    assert content["erased"] == 1
    bundled.take(data, zeta)
    again = subjects.find_or_create(zeta.id, "ann")
    assert bundled.comparable(bundled.open_bundle(bundled.export(again))) == content
    gone = Event.objects.filter(thread__project=zeta, erased_by__isnull=False)
    assert gone.get().payload is None


def assert_same_elsewhere(subject: Subject, elsewhere: Project) -> dict[str, Any]:
    """Import the bundle elsewhere, compare its export, and return the content."""
    data = bundled.export(subject)
    content = bundled.comparable(bundled.open_bundle(data))
    bundled.take(data, elsewhere)
    again = subjects.find_or_create(elsewhere.id, "ann")
    assert bundled.comparable(bundled.open_bundle(bundled.export(again))) == content
    return content


def test_erased_records_are_imported_as_erased(
    agent: Agent, ann: Subject, zeta: Project
) -> None:
    thread = factories.get_thread(agent, "t-1")
    before = bundled.comparable(bundled.open_bundle(bundled.export(ann)))
    erasings.erase(thread, (2, 6))
    content = assert_same_elsewhere(ann, zeta)
    assert content["erased"] > before["erased"]
    lines = [line for line in content["events.jsonl"] if line["thread"] == "thread 0"]
    assert lines[-1]["type"] == "records.erased"
    assert lines[-1]["body"]["ranges"] == [["thread 0", 2, 6]]
    assert [line["content"] for line in lines[1:6]] == [None] * 5
    gone = {line["erased"] for line in lines[1:6]} - {None}
    assert gone == {lines[-1]["seq"]}


@pytest.mark.parametrize("purged", [False, True])
def test_erased_thread_is_imported_without_its_names(
    agent: Agent, ann: Subject, zeta: Project, purged: bool
) -> None:
    """Show no content of the thread, before and after the purge of its rows."""
    thread = factories.get_thread(agent, "t-3")
    erasure = erasings.end(thread)
    if purged:
        erasings.purge(thread)
        erasings.close_erasure(erasure)
    content = assert_same_elsewhere(ann, zeta)
    (cut,) = (each for each in content["cut"] if each["status"] == "erased")
    assert cut["name"].startswith("~")
    lines = [
        line for line in content["events.jsonl"] if line["thread"] == cut["thread"]
    ]
    assert {line["content"] for line in lines} == {None}
    text = json.dumps(lines)
    assert "deep" not in text
    assert '"own"' not in text
    row = Thread.objects.get(project=zeta, name=cut["name"])
    assert (row.status, bytes(row.name_salt)) == ("erased", b"")
    assert row.slot_count == Thread.objects.get(id=thread.id).slot_count


def test_erased_parent_still_carries_its_forks(
    agent: Agent, ann: Subject, zeta: Project
) -> None:
    parent = factories.get_thread(agent, "t-1")
    erasure = erasings.end(parent)
    erasings.purge(parent)
    erasings.close_erasure(erasure)
    content = assert_same_elsewhere(ann, zeta)
    assert content["cut"][0]["status"] == "erased"
    other = factories.make_agent(zeta)
    assert factories.append(other, "t-3", "still here").seq


def test_dry_run_of_a_bundle_import_writes_nothing(data: bytes, zeta: Project) -> None:
    taken = bundled.take(data, zeta, dry_run=True)
    assert (taken.subject, taken.threads) == (None, 3)
    assert not Thread.objects.filter(project=zeta).exists()
    assert subjects.find(zeta.id, "ann") is None


def test_progress_counts_each_event_twice(data: bytes, zeta: Project) -> None:
    steps: list[int] = []
    taken = bundled.take(data, zeta, progress=steps.append)
    assert sum(steps) == 2 * taken.events


def test_repeated_bundle_writes_nothing(
    agent: Agent, ann: Subject, acme: Project, zeta: Project
) -> None:
    erasings.end(factories.get_thread(agent, "t-3"))
    data = bundled.export(ann)
    first = bundled.take(data, zeta)
    # Threads may have grown since.
    factories.append(factories.make_agent(zeta), "t-1", "more")
    before = Event.objects.count(), AuditEntry.objects.count()
    again = bundled.take(data, zeta)
    assert (again.is_repeat, again.subject) == (True, first.subject)
    assert (again.threads, again.events) == (first.threads, first.events)
    assert bundled.take(data, zeta, dry_run=True).is_repeat
    assert (Event.objects.count(), AuditEntry.objects.count()) == before
    factories.append(agent, "t-1", "later")
    assert isinstance(get_refusal(bundled.export(ann), zeta), NameTakenError)


# Refusals


def test_taken_thread_name_refuses_the_whole_bundle(
    ann: Subject, zeta: Project, acme: Project
) -> None:
    """Cover row 137 of the bad inputs."""
    data = bundled.export(ann)
    factories.make_thread(factories.make_agent(zeta), "t-3")
    assert isinstance(get_refusal(data, zeta), NameTakenError)
    assert isinstance(get_refusal(data, acme), NameTakenError)


def test_bundle_of_an_erased_subject_is_refused(data: bytes, zeta: Project) -> None:
    bundled.take(data, zeta)
    whom = Subject.objects.filter(id=subjects.find_or_create(zeta.id, "ann").id)
    for state in ("erasing", "erased"):
        whom.update(state=state)
        assert isinstance(get_refusal(data, zeta), SubjectErasedError)
    whom.update(state="active")


def test_bundle_of_an_erased_generation_is_refused(
    acme: Project, ann: Subject, zeta: Project
) -> None:
    """Refuse the bundle after a readmission and in another project too."""
    data = bundled.export(ann)
    Subject.objects.filter(id=ann.id).update(state="erased", subject_ref=None)
    assert isinstance(get_refusal(data, zeta), BundleErasedError)
    subjects.find_or_create(acme.id, "ann")
    assert isinstance(get_refusal(data, acme), BundleErasedError)
    Subject.objects.filter(id=ann.id).update(state="active")


def test_restricted_subject_takes_no_bundle(data: bytes, zeta: Project) -> None:
    subject = subjects.find_or_create(zeta.id, "ann")
    whom = Subject.objects.filter(id=subject.id)
    whom.update(state="restricted")
    assert isinstance(get_refusal(data, zeta), SubjectRestrictedError)
    whom.update(state="active")


def test_full_project_takes_no_bundle(data: bytes, zeta: Project) -> None:
    zeta.max_threads = 2
    zeta.save()
    assert isinstance(get_refusal(data, zeta), ProjectFullError)


def test_erased_thread_name_refuses_the_whole_bundle(
    data: bytes, zeta: Project
) -> None:
    bundled.bury_name(zeta, "t-2")
    assert isinstance(get_refusal(data, zeta), ThreadErasedError)


def test_erasure_between_two_batches_leaves_nothing_of_a_bundle(
    data: bytes, zeta: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Change the subject's epoch between two batches, as an erasure does."""
    subject = subjects.find_or_create(zeta.id, "ann")
    monkeypatch.setattr(importing, "BATCH", 7)
    write, written = importing.write, []

    def write_and_move(*args: Any, **options: Any) -> None:
        write(*args, **options)
        written.append(Event.objects.filter(thread__project=zeta).count())
        if len(written) == 4:
            Subject.objects.filter(id=subject.id).update(epoch=2)

    monkeypatch.setattr(importing, "write", write_and_move)
    assert get_refusal(data, zeta).code == "stale"
    assert written[-1] > 0


def test_import_is_invisible_until_it_is_whole(
    data: bytes, zeta: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, seen = factories.make_agent(zeta), []
    write = importing.write

    def looked(*args: Any, **options: Any) -> None:
        write(*args, **options)
        seen.append(Thread.objects.filter_visible(zeta).count())
        with pytest.raises(NotFoundError):
            factories.append(other, "t-1", "mine")

    monkeypatch.setattr(importing, "write", looked)
    bundled.take(data, zeta)
    assert seen == [0, 0, 0]
    assert Thread.objects.filter_visible(zeta).count() == 3


def test_batch_size_does_not_change_the_import(
    data: bytes, zeta: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 1)
    bundled.take(data, zeta)
    for row in Thread.objects.select_related("subject").filter(project=zeta):
        assert_replays(row)


@pytest.mark.django_db(transaction=True)
def test_block_carried_by_an_older_thread_is_imported(
    agent: Agent, acme: Project, zeta: Project
) -> None:
    """Import a block whose home thread is younger than the thread that carries it."""
    factories.make_thread(agent, "t-1", user_id="ann")
    ann = subjects.find_or_create(acme.id, "ann")
    draft = BlockDraft(block="persona", text="Flies often.")
    factories.run(blocks.put_block(agent=agent, subject=ann, draft=draft))
    factories.run(turns.begin_turn(agent=agent, thread="t-1", new=NewTurn()))
    bundled.take(bundled.export(ann), zeta)
    carried = Derivation.objects.get(thread__project=zeta)
    assert (carried.thread.home, carried.source_seq) == (True, 2)
    there = Thread.objects.get(id=carried.derived_thread)
    assert (there.name, there.project_id) == ("t-1", zeta.id)
    assert_replays(there)
