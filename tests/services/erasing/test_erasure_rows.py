from __future__ import annotations

import pytest

from memoryhub.journal.forget import erasing
from memoryhub.models.erasures import Erasure, Tombstone
from memoryhub.models.events import Event
from memoryhub.models.pages import PageLevel
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_counts
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasure_steps
from memoryhub.services.people import subjects
from tests.cast import bundled
from tests.cast.erasings import erase, sound
from tests.cast.factories import append, get_thread, make_page, make_thread
from tests.cast.forgetting import plan
from tests.oracles.page_acts import act, new_text
from tests.services.acts import fork

pytestmark = pytest.mark.django_db

FIRST = "Her knee was operated on in the spring of last year."
SECOND = "She would rather not be called before nine in the morning."


@pytest.fixture
def ann(agent: Agent) -> Subject:
    """Make a subject with every kind of record, beside a twin with the same."""
    bundled.live_in_threads(agent, "ann", prefix="ann-")
    bundled.live_in_threads(agent, "bob", prefix="bob-")
    return subjects.find_or_create(agent.project, "ann")


def make_plan(subject: Subject, scope: str = "subject", **given: object) -> Erasure:
    return plan(subject, scope, reason="mistake", **given)


def list_last_event_types(subject: Subject) -> set[str]:
    rows = Thread.objects.filter(subject=subject)
    return {*rows.values_list("last_event_type", flat=True)}


def count_left(subject: Subject) -> int:
    """Count the subject's rows, except the subject's own row and key."""
    counts = erasure_counts.count_subject(subject.id)
    return sum(counts.values()) - counts["subjects"] - counts["subject_keys"]


def test_every_thread_gets_its_event_and_loses_its_rows(
    ann: Subject, agent: Agent
) -> None:
    bob = subjects.find_or_create(agent.project, "bob")
    before = erasure_counts.count_subject(bob.id)
    row = make_plan(ann)
    erasure_steps.order_erasure(row)
    assert list_last_event_types(ann) == {"thread.erased"}
    assert count_left(ann) > 0
    erasure_steps.take_rows(row)
    assert count_left(ann) == 0
    assert erasure_counts.count_subject(bob.id) == before
    assert Tombstone.objects.filter(kind="thread").count() == (
        Thread.objects.filter(subject=ann).count()
    )


def test_repeated_erasure_steps_change_nothing(ann: Subject) -> None:
    row = make_plan(ann)
    for _ in range(2):
        erasure_steps.order_erasure(row)
        erasure_steps.take_rows(row)
    erased = Event.objects.filter(thread__subject=ann, type="thread.erased")
    assert erased.count() == Thread.objects.filter(subject=ann).count()


def test_many_threads_are_erased_in_batches(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "AT_ONCE", 2)
    for n in range(5):
        make_thread(agent, f"ann-{n}", user_id="ann")
    ann = subjects.find_or_create(agent.project, "ann")
    erasure_steps.order_erasure(make_plan(ann))
    assert list_last_event_types(ann) == {"thread.erased"}


def test_thread_being_imported_leaves_nothing(agent: Agent) -> None:
    for name in ("ann-1", "ann-2"):
        make_thread(agent, name, user_id="ann")
        append(agent, name, "one")
    Thread.objects.filter(name="ann-2").update(status=Thread.Status.IMPORTING)
    ann = subjects.find_or_create(agent.project, "ann")
    erasure_steps.order_erasure(make_plan(ann))
    (one,) = Thread.objects.filter(subject=ann)
    assert one.status == Thread.Status.ERASED


def test_record_erasure_keeps_out_its_own_values_alone(agent: Agent) -> None:
    make_thread(agent, "ann-1", user_id="ann")
    make_page(agent, "one", thread="ann-1", text=FIRST)
    make_page(agent, "two", thread="ann-1", text=SECOND)
    thread = get_thread(agent, "ann-1")
    made = Event.objects.filter(thread=thread, type="page.created").order_by("seq")
    row = make_plan(
        subjects.find_or_create(agent.project, "ann"),
        "record",
        thread=thread,
        seq=made[0].seq,
    )
    erasure_steps.order_erasure(row)
    assert Tombstone.objects.filter(kind="value").count() == 1
    assert made[0].payload is None
    assert made[1].payload is not None
    erasure_steps.order_erasure(row)
    erasure_steps.take_rows(row)
    assert Tombstone.objects.filter(kind="value").count() == 1
    assert Event.objects.filter(thread=thread, type="records.erased").count() == 1


def test_page_derived_since_the_plan_is_erased_too(agent: Agent) -> None:
    """Derive a page between the plan and the order."""
    make_thread(agent, "ann-1", user_id="ann")
    make_page(agent, "source", thread="ann-1", text=FIRST)
    make_page(agent, "other", thread="ann-1", text=SECOND)
    thread = get_thread(agent, "ann-1")
    seq = Event.objects.get(thread=thread, page="source").seq
    ann = subjects.find_or_create(agent.project, "ann")
    row = make_plan(ann, "record", thread=thread, seq=seq)
    make_page(agent, "made", thread="ann-1", provenance=("source",))
    erasure_steps.order_erasure(row)
    left = Event.objects.filter(thread=thread, payload__isnull=False)
    assert [*left.values_list("page", flat=True)] == ["other"]


def test_erased_text_leaves_a_fork_that_has_changed_its_page(agent: Agent) -> None:
    born = make_page(agent, "note")
    fork(agent, "t-1", "child")
    child = get_thread(agent, "child")
    act(agent, new_text("note", "other"), "child")
    levels = PageLevel.objects.filter(source=get_thread(agent).id)
    assert levels.filter(thread=child).exists()
    erase(get_thread(agent), (born.seq, born.seq))
    assert not levels.exists()
    for name in ("t-1", "child"):
        sound(get_thread(agent, name))
