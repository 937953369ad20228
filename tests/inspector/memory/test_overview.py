"""Task, notes and the timeline's tab of working memory, as operators look at them.

Events of the thread `desk`: 4 and 10 the task, 5, 6 and 11 notes, 15 restores, 17
the task, 18 a note.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from inspector.drawing import summaries
from inspector.memory import task
from inspector.templatetags import values
from memoryhub.kernel.commands import AmendThread
from memoryhub.kernel.memory.tasks import ClearTask, UpdateTask
from memoryhub.kernel.registry import TYPES
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import task_views
from memoryhub.queries.memory.task_views import TaskStep
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks, items
from memoryhub.services.knowledge.blocks import BlockDraft
from memoryhub.services.threads import operator_threads
from tests.cast import factories, forgetting
from tests.inspector.paged import text_of
from tests.inspector.remembered import make_desk
from tests.oracles import memory_acts
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/desk"


@pytest.fixture
def desk(agent: Agent) -> Thread:
    return make_desk(agent)


def fetch_records(client: Client, path: str) -> list[dict[str, Any]]:
    """Return the records of an export."""
    answer: Any = client.get(path)
    assert answer.status_code == 200, path
    return [
        json.loads(line) for line in b"".join(answer.streaming_content).splitlines()
    ]


def test_task_page_shows_the_task_and_its_history(
    viewer: Client, agent: Agent, desk: Thread
) -> None:
    # The whole overview is pushed, so no part of the page stands still.
    assert "data-standing" not in text_of(viewer, f"{T}/memory")
    page = text_of(viewer, f"{T}/task")
    assert "last heartbeat" in page
    assert "55 %" in page
    assert "Rebook ann" in page
    assert 'data-live="task"' in page
    steps = task_views.get_history(desk).steps
    assert [(s.seq, s.progress_percent, s.turned) for s in steps] == [
        (4, None, True),
        (10, 40.0, False),
        (15, None, False),
        (17, 55.0, False),
    ]
    assert "M0 100" in page
    as_of = text_of(viewer, f"{T}/task?at_seq=10")
    assert "40 %" in as_of
    assert "55 %" not in as_of
    assert "No task as of this event" in text_of(viewer, f"{T}/task?at_seq=3")
    Thread.objects.filter(name="desk").update(status="closed")
    assert "was running when the thread closed" in text_of(viewer, f"{T}/task")
    Thread.objects.filter(name="desk").update(status="open")
    act(agent, ClearTask(), "desk")
    assert "The task was cleared" in text_of(viewer, f"{T}/task")
    assert "task.cleared" in text_of(viewer, f"{T}/task")


def test_progress_chart_has_gaps_where_no_progress_is_known() -> None:
    said = [(1, None), (11, 50.0), (21, None), (31, 80.0)]
    steps = [TaskStep(seq=n, progress_percent=p) for n, p in said]
    assert task.draw_path(steps, end=31) == "M200.0 50.0H400.0M600.0 20.0H600"
    assert task.draw_path(steps[:1], end=9) == ""
    assert task.draw_path([], end=9) == ""


@pytest.mark.parametrize("count", [2, 30])
def test_task_page_costs_the_same_for_any_number_of_changes(
    agent: Agent, count: int, django_assert_num_queries: Any
) -> None:
    factories.make_thread(agent, "busy")
    for _ in range(count):
        memory_acts.set_task(agent, "busy", status="running")
    row = factories.get_thread(agent, "busy")
    task_views.get_history(row)
    with django_assert_num_queries(2):
        task_views.get_history(row)


def test_notes_are_listed_newest_first_with_gaps(
    viewer: Client, agent: Agent, desk: Thread
) -> None:
    with time_machine.travel(timezone.now() + timedelta(minutes=7), tick=False):
        memory_acts.add_notes(agent, "Much later.", thread="desk")
    page = text_of(viewer, f"{T}/notes")
    order = ["Much later.", "7 min earlier", "Now with", "Asked for"]
    assert [page.index(each) for each in order] == sorted(map(page.index, order))
    # The restore removed the note; as of an earlier event the note is shown.
    assert "It was a mistake" not in page
    assert "It was a mistake" in text_of(viewer, f"{T}/notes?at_seq=11")
    assert f'href="{T}/notes?at_seq=18#note-18"' in page
    assert 'data-live="notes"' in page


def test_paused_notes_page_counts_new_notes(viewer: Client, desk: Thread) -> None:
    paused = text_of(viewer, f"{T}/notes?at_seq=12")
    assert ">1 new note since" in paused
    # The live pill tells that the page is paused.
    assert "paused" not in paused.partition("<main")[2].lower()
    assert "data-live=" not in paused.split('id="notes"')[1]
    assert "new note" not in text_of(viewer, f"{T}/notes")


def test_trimmed_notes_are_shown_as_of_before_the_trim(
    viewer: Client, agent: Agent, desk: Thread
) -> None:
    act(agent, AmendThread(config={"max_notes": 1}), "desk")
    memory_acts.add_notes(agent, "The last.", thread="desk")
    page = text_of(viewer, f"{T}/notes")
    assert "Now with the right seat" not in page
    assert "Now with the right seat" in text_of(viewer, f"{T}/notes?at_seq=19")
    # A search reads the journal.
    assert "Now with the right seat" in text_of(viewer, f"{T}/notes?q=seq:18")
    assert "3 older removed for it" in text_of(viewer, f"{T}/notes?q=seq:20")


def test_note_search_finds_notes(viewer: Client, desk: Thread) -> None:
    def list_found_seqs(query: str) -> list[int]:
        return [
            each["seq"] for each in fetch_records(viewer, f"{T}/notes.ndjson?{query}")
        ]

    assert list_found_seqs("") == [5, 6, 18]
    assert list_found_seqs("at_seq=11") == [5, 6, 11]
    assert list_found_seqs("q=seq:6..11") == [6, 11]
    assert list_found_seqs("q=agent") == [5, 6, 11, 18]
    assert list_found_seqs("q=actor:operator*") == []
    assert "No note here" in text_of(viewer, f"{T}/notes?q=actor:operator*")
    assert "Did you mean" in text_of(viewer, f"{T}/notes?q=seqq:4", 422)
    assert "text" not in fetch_records(viewer, f"{T}/notes.ndjson")[0]
    whole = fetch_records(viewer, f"{T}/notes.ndjson?content=1&q=seq:11")
    assert whole == [whole[0] | {"seq": 11, "text": "It was a mistake."}]


def test_notes_page_links_to_older_notes(
    viewer: Client, agent: Agent, desk: Thread
) -> None:
    texts = [f"note {n:03}" for n in range(70)]
    memory_acts.add_notes(agent, *texts, thread="desk")
    first = text_of(viewer, f"{T}/notes")
    link = first.split("Older notes")[0].rsplit('href="', 1)[1].split('"')[0]
    both = first + text_of(viewer, link)
    assert all(both.count(text) == 1 for text in texts)
    assert both.count("Asked for the number.") == 1


def test_timeline_tab_shows_the_working_memory(viewer: Client, desk: Thread) -> None:
    page = text_of(viewer, f"{T}?tab=working-memory")
    assert 'id="working-memory"' in page
    for text in ("Rebook ann", "/keys/token", "Now with the right seat", ">before<"):
        assert text in page
    before = text_of(viewer, f"{T}?tab=working-memory&at_seq=1")
    empty = before.partition("Empty as of this event")[2]
    for path in ("task", "keys", "notes", "observer"):
        assert f'href="{T}/{path}?at_seq=1"' in empty
    marks = text_of(viewer, f"{T}?at_seq=13")
    assert 'data-previous="12" data-next="14"' in marks
    assert "checkpoints" in text_of(viewer, f"{T}/events/12")


def test_every_event_type_has_a_summary() -> None:
    """Each event type has its own sentence, or shows its figures."""
    silent = {
        name: event.model_fields
        for name, event in TYPES.items()
        if name not in summaries._SUMMARISERS
        and not any(field.annotation is int for field in event.model_fields.values())
    }
    assert silent == {}


def test_event_summary_without_a_sentence_shows_its_figures() -> None:
    for name, body, said in (
        ("note.added", {"bytes": 1_024, "trimmed": 2}, "1,024 bytes, 2 trimmed"),
        ("note.added", {"bytes": 64, "trimmed": 0}, "64 bytes"),
        ("notes.cleared", {"count": 1}, "1 note"),
        ("keys.cleared", {"count": 0}, "0 keys"),
    ):
        assert summaries.summarise_body(name, body) == said


def test_memory_events_are_summarised_on_the_timeline(
    viewer: Client, desk: Thread
) -> None:
    page = text_of(viewer, f"{T}?at_seq=18&view=events")
    for said in (
        "seat, 64 bytes",
        "running, data, description, started at",
        "current step, progress percent",
        "before, 2 keys, 2 notes",
        "keys, notes, task of checkpoint 7; keys: 2 set, 1 removed",
        "It was a mistake.",
    ):
        assert said in page, said


def test_fork_inherits_the_task(viewer: Client, agent: Agent, desk: Thread) -> None:
    operator_threads.fork(desk, actor="operator:x", name="alt", seq=10)
    act(agent, UpdateTask(fields={"current_step": b"3"}), "alt")
    (step,) = task_views.get_history(factories.get_thread(agent, "alt")).steps
    assert (step.status, step.progress_percent, step.turned) == ("running", 40.0, False)
    assert "40 %" in text_of(viewer, "/p/acme/threads/alt/task")


def test_overview_lists_blocks_and_items_as_kept(viewer: Client, agent: Agent) -> None:
    factories.make_thread(agent, user_id="bea")
    subject = forgetting.get_subject(agent, "bea")
    page = text_of(viewer, "/p/acme/threads/t-1/memory")
    assert "Nothing is remembered yet" in page
    draft = BlockDraft(block="memories:travel:to@20do.md", text="Window.")
    factories.run(blocks.put_block(agent=agent, subject=subject, draft=draft))
    page = text_of(viewer, "/p/acme/threads/t-1/memory")
    assert "Nothing is remembered" not in page
    assert ">/memories/travel/to do.md</span>" in page
    assert "Items of the person" not in page
    write = items.put_item(
        agent=agent, subject=subject, namespace="trips", key="seat", value="12A"
    )
    factories.run(write)
    assert "Items of the person" in text_of(viewer, "/p/acme/threads/t-1/memory")
    then = text_of(viewer, "/p/acme/threads/t-1/memory?at_seq=1")
    assert "Nothing is remembered as of this event" in then


def test_keys_of_a_langgraph_thread_say_what_they_hold() -> None:
    held = values.key_kind("c.root.xvz", "langgraph:order")
    assert held == "checkpoint of the graph"
    held = values.key_kind("c.root.xvz.17", "langgraph:order")
    assert held == "writes after a checkpoint"
    assert values.key_kind("v.abcd", "langgraph:order") == "text that checkpoints share"
    assert values.key_kind("v.abcd", "t-1") == ""


def test_file_path_is_the_path_that_a_memory_tool_used() -> None:
    assert values.file_path("memories:a:to@20do.md@@2") == "/memories/a/to do.md"
    assert values.file_path("memories:long@@h0123") == ""
    assert values.file_path("persona") == ""
