"""Simulated paging of imports: turns and faults, each played once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memoryhub import journal
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.evicted_pages import split_evictions
from memoryhub.queries.turns import contexts
from memoryhub.services.imports.imports import Import
from memoryhub.services.turns import simulations
from tests.cast.factories import make_agent, make_thread
from tests.cast.recordings import (
    array,
    bookings,
    build_message,
    dump,
    find,
    items,
    open_contents,
    run,
    take,
    took,
    types,
    write_lines,
)

pytestmark = pytest.mark.django_db

BUDGET = 2_000


def bodies(thread: Thread, kind: str) -> list[dict[str, Any]]:
    """List bodies of one kind of event in order, without the subject's tool names."""
    rows = thread.events.order_by("seq")
    each = (split_evictions(row.type, json.loads(row.body)) for row in rows)
    found = [body for event in each for name, body in event if name == kind]
    return [{name: each[name] for name in each if name != "tools"} for each in found]


def test_simulated_turn_is_recorded_before_each_answer(
    acme: Project, tmp_path: Path
) -> None:
    made = run(messages=4)
    job, bad = take(acme, array(tmp_path, made), budget=6_000)
    assert (bad, took(job), job.counts.turns) == ([], (1, 0, 0, 0, 4), 2)
    thread = find(acme, "desk:0:0")
    advance = ["slot.appended", "slot.appended", "import.advanced"]
    turn = ["turn.began", "turn.packed"]
    assert types(thread) == [
        "thread.created",
        "run.recorded",
        *advance[1:],
        *turn,
        *advance,
        *turn,
        *advance[1:],
    ]
    assert [each["simulated"] for each in bodies(thread, "turn.began")] == [True] * 2
    assert [each["simulated"] for each in bodies(thread, "turn.packed")] == [True] * 2
    assert [*thread.slots.order_by("index").values_list("turn", flat=True)] == [
        *[0, 1, 1, 2]
    ]
    assert open_contents(thread) == made["traj"]
    assert set(thread.events.values_list("actor", flat=True)) == {"import"}


def test_simulated_request_ends_with_the_message_to_answer(
    acme: Project, tmp_path: Path
) -> None:
    take(acme, array(tmp_path, run(messages=bookings(3))), budget=BUDGET)
    thread = find(acme, "desk:0:0")
    for turn in range(1, thread.turn_count + 1):
        whole = contexts.reassemble_request(
            thread, contexts.get_recorded_turn(thread, turn)
        )
        assert whole.verified
        sent = json.loads(contexts.require_request(whole))
        roles = [each["role"] for each in sent["messages"]]
        assert roles[-1] == ("user" if turn % 2 else "tool")


@pytest.mark.parametrize(
    ("budget", "reserved"), [(2_000, 1_000), (6_000, 3_000), (8_000, 4_000)]
)
def test_imported_thread_gets_the_simulated_budget(
    acme: Project, tmp_path: Path, budget: int, reserved: int
) -> None:
    take(acme, array(tmp_path, run()), budget=budget)
    (created,) = bodies(find(acme, "desk:0:0"), "thread.created")
    assert created["config"]["budget_tokens"] == budget
    assert created["config"]["reserved_tokens"] == reserved


def test_evicted_page_named_again_is_faulted_in(acme: Project, tmp_path: Path) -> None:
    talk = bookings(12)
    job, _ = take(acme, array(tmp_path, run(messages=talk)), budget=BUDGET)
    thread = find(acme, "desk:0:0")
    faults = bodies(thread, "page.faulted")
    assert job.counts.paging["faults"] == len(faults) > 2
    assert job.counts.paging["evictions"] == len(bodies(thread, "page.evicted")) > 5
    for fault in faults:
        assert fault["tier_before"] in ("L1", "L2")
        assert fault["reason"] == "resolve_reference"
        assert fault["by"] in ("system", "tool")
        assert named_again(thread, talk, fault)


def named_again(thread: Thread, talk: list[Any], fault: dict[str, Any]) -> bool:
    """Return whether a message since the turn before has an id of the page."""
    slot = int(fault["page_id"].removeprefix("slot-"))
    text = json.dumps(talk[slot])
    ids = {word for word in text.replace(":", " ").split() if "BK" in word}
    ids = {"BK" + word.partition("BK")[2][:4] for word in ids}
    held = [row.index for row in thread.slots.filter(turn=fault["turn"])]
    return any(each in json.dumps(talk[n]) for n in held if n > slot for each in ids)


def test_refused_fault_does_not_stop_the_import(acme: Project, tmp_path: Path) -> None:
    """Name many evicted pages in one turn, which has three faults."""
    notes = [
        build_message(f"REF{n:03}A " + "far away, long ago, once more. " * 30)
        for n in range(20)
    ]
    question = build_message(" ".join(f"REF{n:03}A" for n in range(20)))
    traj = [*notes, question, build_message("ok", "assistant")]
    job, bad = take(acme, array(tmp_path, run(messages=traj)), budget=BUDGET)
    assert bad == []
    paging = job.counts.paging
    assert (paging["faults"], paging["refusals"]) == (3, simulations.MAX_FAULTS - 3)
    assert types(find(acme, "desk:0:0")).count("fault.refused") == paging["refusals"]


def test_import_without_a_budget_simulates_nothing(
    acme: Project, tmp_path: Path
) -> None:
    job, _ = take(acme, array(tmp_path, run(messages=bookings(12))))
    thread = find(acme, "desk:0:0")
    assert job.counts.paging == {}
    assert not {each for each in types(thread) if each.startswith("page.")}
    assert "turn.packed" not in types(thread)
    assert {each["simulated"] for each in bodies(thread, "turn.began")} == {False}


def test_second_simulated_import_writes_nothing(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(0, messages=bookings(5)), run(1))
    take(acme, path, budget=BUDGET)
    before = Event.objects.count()
    for budget in (BUDGET, None):
        job, _ = take(acme, path, budget=budget)
        assert took(job) == (0, 2, 0, 0, 0)
    job, (bad,) = take(acme, path, budget=BUDGET + 1_000)
    assert (bad.code, bad.final, job.counts.present) == ("budget_differs", True, 0)
    assert Event.objects.count() == before


def test_dry_run_simulates_no_paging(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(messages=bookings(3)))
    job, _ = take(acme, path, dry_run=True, budget=BUDGET)
    assert (took(job), job.counts.turns) == ((1, 0, 0, 0, 13), 6)
    assert (Thread.objects.count(), job.counts.paging) == (0, {})


def test_run_that_begins_with_an_answer_is_imported(
    acme: Project, tmp_path: Path
) -> None:
    talk = [
        build_message("Hello!", "assistant"),
        build_message("hi"),
        build_message("so?", "assistant"),
    ]
    job, bad = take(acme, array(tmp_path, run(messages=talk)), budget=BUDGET)
    assert (bad, took(job)) == ([], (1, 0, 0, 0, 3))
    thread = find(acme, "desk:0:0")
    assert types(thread)[:4] == [
        "thread.created",
        "turn.began",
        "turn.packed",
        "run.recorded",
    ]
    assert (open_contents(thread), thread.turn_count) == (talk, 2)


def test_chat_lines_are_simulated_like_a_run(
    acme: Project, zeta: Project, tmp_path: Path
) -> None:
    talk = bookings(8)
    take(acme, write_lines(tmp_path, *talk), budget=BUDGET)
    take(zeta, array(tmp_path, run(messages=talk)), budget=BUDGET)
    of_lines, of_run = find(acme, "desk"), find(zeta, "desk:0:0")
    for kind in ("slot.appended", "page.faulted", "page.evicted", "turn.began"):
        assert bodies(of_lines, kind) == bodies(of_run, kind)


# imports that ended early


class Stopped(Exception):
    """The end of an import, as if its process had been killed between two commits."""


def stop_after(
    monkeypatch: pytest.MonkeyPatch, project: Project, path: Path, commits: int
) -> bool:
    """Stop an import after so many commits, and return whether it had more to do."""
    left = commits
    perform = journal.perform

    def perform_counted(order: journal.Order) -> journal.OrderReceipt:
        nonlocal left
        if not left:
            raise Stopped
        left -= 1
        return perform(order)

    with monkeypatch.context() as patched:
        patched.setattr(journal, "perform", perform_counted)
        try:
            list(Import(project, budget=BUDGET).import_items(items(path)))
        except Stopped:
            return True
    return False


def test_import_killed_between_any_two_commits_goes_on(
    acme: Project, zeta: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = array(tmp_path, run(messages=bookings(7)))
    take(zeta, path, budget=BUDGET)
    stops = 0
    while stop_after(monkeypatch, acme, path, 1):
        stops += 1
    assert stops > 3 * 14
    assert dump(acme) == dump(zeta)


@pytest.mark.parametrize("commits", range(1, 12))
def test_import_resumed_without_a_budget_begins_no_turn_twice(
    acme: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    path = array(tmp_path, run(messages=bookings(3)))
    assert stop_after(monkeypatch, acme, path, commits)
    job, bad = take(acme, path)
    assert (bad, job.complete) == ([], True)
    thread = find(acme, "desk:0:0")
    assert (thread.turn_count, thread.slot_count) == (6, 13)
    turns = [each["n"] for each in bodies(thread, "turn.began")]
    assert turns == [*range(1, 7)]


def test_thread_made_before_the_import_keeps_its_settings(
    acme: Project, tmp_path: Path
) -> None:
    make_thread(make_agent(acme), "desk:0:0")
    take(acme, array(tmp_path, run(messages=bookings(12))), budget=BUDGET)
    thread = find(acme, "desk:0:0")
    packed = bodies(thread, "turn.packed")
    assert len(packed) == thread.turn_count == 24
    assert max(each["tokens"] for each in packed) <= BUDGET
    assert not {"page.evicted", "pages.evicted"} & {*types(thread)}
    again, bad = take(acme, array(tmp_path, run(messages=bookings(12))), budget=BUDGET)
    assert (bad, again.counts.present) == ([], 1)
