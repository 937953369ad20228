"""Import intakes: messages that a thread takes of a file, and files it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from memoryhub import journal
from memoryhub.journal import Address, Order, OrderReceipt
from memoryhub.kernel.commands import RetireThread
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import threads
from tests.cast import factories
from tests.cast.factories import append, get_thread, make_agent, make_thread
from tests.cast.recordings import (
    array,
    build_message,
    dump,
    find,
    open_contents,
    run,
    take,
    took,
    write_lines,
)

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("size", [1, 199, 200, 201, 400])
def test_grown_file_adds_its_tail(
    acme: Project, zeta: Project, tmp_path: Path, size: int
) -> None:
    whole = run(messages=450)
    part = {**whole, "traj": whole["traj"][:size]}
    take(acme, array(tmp_path, part))
    job, bad = take(acme, array(tmp_path, whole))
    assert (bad, took(job)) == ([], (1, 0, 0, 0, 450 - size))
    take(zeta, array(tmp_path, whole))
    grown, at_once = dump(acme)[0], dump(zeta)[0]
    assert grown["slots"][-1][1] == at_once["slots"][-1][1]
    assert open_contents(Thread.objects.get(project=acme)) == whole["traj"]


def test_grown_chat_adds_its_tail(acme: Project, tmp_path: Path) -> None:
    sent = [build_message(f"{n}", thread=f"t-{n % 2}") for n in range(10)]
    take(acme, write_lines(tmp_path, *sent[:6]))
    job, _ = take(acme, write_lines(tmp_path, *sent))
    assert took(job) == (2, 0, 0, 0, 4)
    assert open_contents(find(acme, "t-1")) == sent[1::2]


def iter_changed(whole: dict[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    traj = whole["traj"]
    yield "another message", {**whole, "traj": [build_message("no"), *traj[1:]]}
    yield "a message more in front", {**whole, "traj": [build_message("no"), *traj]}
    yield "a message less", {**whole, "traj": traj[:-1]}
    yield "two messages swapped", {**whole, "traj": [traj[1], traj[0], *traj[2:]]}
    yield "another info", {**whole, "info": {**whole["info"], "cost": 1}}
    renamed = {**whole["info"], "task": {"user_id": "bob"}}
    yield "another subject", {**whole, "info": renamed}
    yield "no subject", {**whole, "info": {"cost": 0.25}}


CHANGES = dict(iter_changed(run(user_id="ann", messages=5)))


@pytest.mark.parametrize("change", CHANGES)
def test_changed_run_is_refused(acme: Project, tmp_path: Path, change: str) -> None:
    take(acme, array(tmp_path, run(user_id="ann", messages=5)))
    before = Event.objects.count()
    job, (bad,) = take(acme, array(tmp_path, CHANGES[change], run(1)), skip_bad=True)
    assert (bad.code, bad.run, bad.place.offset) == ("differs", 0, 1)
    assert took(job) == (1, 0, 0, 1, 2)
    assert Event.objects.filter(thread__name="desk:0:0").count() == before


def test_renamed_conversation_goes_on(acme: Project, tmp_path: Path) -> None:
    said = [{"sender": "human", "text": each} for each in ("Hi", "Ho")]
    whole = {"uuid": "c", "name": "New", "chat_messages": said[:1]}
    take(acme, array(tmp_path, whole))
    later = {**whole, "name": "Greetings", "chat_messages": said}
    job, bad = take(acme, array(tmp_path, later))
    assert (job.counts.slots, bad) == (1, [])


def test_key_order_and_spacing_are_no_change(acme: Project, tmp_path: Path) -> None:
    take(acme, array(tmp_path, run(messages=3)))
    turned = dict(reversed(run(messages=3).items()))
    turned["traj"] = [dict(reversed(each.items())) for each in turned["traj"]]
    path = tmp_path / "desk.json"
    path.write_text(json.dumps([turned], indent=3), encoding="utf-8")
    job, _ = take(acme, path)
    assert took(job) == (0, 1, 0, 0, 0)


@pytest.mark.parametrize("part", [2, 250])
def test_thread_with_foreign_messages_refuses_its_run(
    acme: Project, tmp_path: Path, part: int
) -> None:
    whole = run(messages=300)
    take(acme, array(tmp_path, {**whole, "traj": whole["traj"][:part]}))
    append(make_agent(acme), "desk:0:0", "mine")
    _, (bad,) = take(acme, array(tmp_path, whole))
    assert bad.code == "differs"
    assert Slot.objects.count() == part + 1


def test_empty_thread_takes_its_run(acme: Project, tmp_path: Path) -> None:
    agent = make_agent(acme)
    make_thread(agent, "desk:0:0", user_id="ann")
    job, _ = take(acme, array(tmp_path, run(user_id="ann")))
    assert took(job) == (1, 0, 0, 0, 2)
    make_thread(agent, "desk:1:0", user_id="bob")
    _, (bad,) = take(acme, array(tmp_path, run(1, user_id="ann")))
    assert bad.code == "differs"


def test_changed_chat_is_refused_at_its_first_line(
    acme: Project, tmp_path: Path
) -> None:
    sent = [build_message(f"{n}", thread=f"t-{n % 2}") for n in range(8)]
    take(acme, write_lines(tmp_path, *sent))
    sent[4] = build_message("other", thread="t-0")
    job, (bad,) = take(acme, write_lines(tmp_path, *sent), skip_bad=True)
    assert (bad.code, bad.message, bad.place.line) == ("differs", 0, 1)
    assert took(job) == (0, 1, 0, 4, 0)


def test_shortened_chat_is_refused(acme: Project, tmp_path: Path) -> None:
    sent = [build_message(f"{n}", thread=f"t-{n % 2}") for n in range(8)]
    take(acme, write_lines(tmp_path, *sent))
    job, (bad,) = take(acme, write_lines(tmp_path, *sent[:-1]), skip_bad=True)
    assert (bad.code, bad.message, bad.place.line) == ("differs", 1, 2)
    assert took(job) == (0, 1, 0, 1, 0)


# refusals


def erase_subject(project: Project, *, anonymous: bool) -> None:
    """Mark the subject as erased, without an eraser."""
    rows = Subject.objects.filter(project=project, anonymous=anonymous)
    rows.update(state=Subject.State.ERASED)


def test_runs_of_an_erased_subject_are_left_out(acme: Project, tmp_path: Path) -> None:
    """Write no thread of an erased subject, but the other threads of the file.

    The test sets the state that an eraser leaves.
    """
    take(acme, array(tmp_path, run(0, user_id="ann")))
    erase_subject(acme, anonymous=False)
    before = Event.objects.count()
    path = array(
        tmp_path, run(0, user_id="ann"), run(1, user_id="ann"), run(2, user_id="bob")
    )
    for dry_run in (True, False):
        job, bad = take(acme, path, dry_run=dry_run)
        assert (bad, job.complete, took(job)) == ([], True, (1, 0, 2, 0, 2))
    assert Event.objects.filter(thread__name="desk:2:0").count() + before == (
        Event.objects.count()
    )
    assert not Thread.objects.filter(name="desk:1:0").exists()


def test_lines_of_an_erased_subject_are_left_out(acme: Project, tmp_path: Path) -> None:
    sent = [
        build_message(f"{n}", thread=f"t-{n % 2}", user_id=f"u{n % 2}")
        for n in range(6)
    ]
    take(acme, write_lines(tmp_path, *sent[:2]))
    erase_subject(acme, anonymous=False)
    job, bad = take(
        acme, write_lines(tmp_path, *sent, build_message("new", user_id="bob"))
    )
    assert (bad, took(job)) == ([], (1, 0, 2, 0, 1))


def test_retired_thread_is_counted_as_erased(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(0), run(1))
    take(acme, path)
    retire(acme, "desk:0:0")
    job, bad = take(acme, path)
    assert (bad, took(job)) == ([], (0, 1, 1, 0, 0))


def retire(project: Project, name: str) -> OrderReceipt:
    return journal.perform(
        Order(
            address=Address(project=project.id, name=name),
            command=RetireThread(policy_days=1, idle_days=2),
            actor="worker:retention",
        )
    )


def test_closed_thread_takes_no_more_messages(acme: Project, tmp_path: Path) -> None:
    whole = run(messages=4)
    part = {**whole, "traj": whole["traj"][:2]}
    take(acme, array(tmp_path, part))
    agent = make_agent(acme)
    factories.run(threads.close(agent=agent, thread="desk:0:0", reason="completed"))
    _, (bad,) = take(acme, array(tmp_path, whole))
    assert bad.code == "thread_closed"
    job, bad_again = take(acme, array(tmp_path, part))
    assert (bad_again, took(job)) == ([], (0, 1, 0, 0, 0))


def test_full_project_takes_no_more_threads(tmp_path: Path) -> None:
    small = factories.make_project("small", max_threads=1)
    job, (bad,) = take(small, array(tmp_path, run(0), run(1), run(2)))
    assert (bad.code, bad.run, job.complete) == ("project_full", 1, False)
    assert took(job) == (1, 0, 0, 1, 2)


def test_full_thread_takes_no_part_of_a_batch(
    agent: Agent, acme: Project, tmp_path: Path
) -> None:
    make_thread(agent, "desk:0:0", max_slots=3)
    _, (bad,) = take(acme, array(tmp_path, run(messages=4)))
    assert bad.code == "thread_full"
    assert get_thread(agent, "desk:0:0").slot_count == 0


def test_import_for_a_restricted_subject_is_refused(
    acme: Project, tmp_path: Path
) -> None:
    path = array(tmp_path, run(user_id="ann"))
    take(acme, path)
    rows = Subject.objects.filter(project=acme, anonymous=False)
    rows.update(state=Subject.State.RESTRICTED)
    _, (bad,) = take(acme, array(tmp_path, run(1, user_id="ann")))
    assert bad.code == "subject_restricted"
