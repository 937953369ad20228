from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.kernel.formats.transcripts import Item
from memoryhub.kernel.text import strict_json
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.slots import list_slots
from memoryhub.services.imports import imports
from memoryhub.services.imports.imports import Import
from tests.cast import sample
from tests.cast.recordings import (
    array,
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


# imported threads and slots


def test_integers_of_any_size_are_imported(acme: Project, tmp_path: Path) -> None:
    sent = {**build_message("hello"), "ids": [2**63, 10**30 + 7]}
    take(acme, array(tmp_path, run(messages=[sent])))
    take(acme, write_lines(tmp_path, sent, name="talk.jsonl"))
    for name in ("desk:0:0", "talk"):
        assert open_contents(find(acme, name)) == [sent], name
    job, (bad,) = take(acme, array(tmp_path, run(trial=2**63), name="other.json"))
    assert (bad.code, job.counts.runs) == ("integer_range", 0)


def test_run_becomes_a_thread_with_its_turns(acme: Project, tmp_path: Path) -> None:
    made = run(7, 1, user_id="ann", messages=3)
    job, bad = take(acme, array(tmp_path, made))
    assert (job.complete, bad, took(job)) == (True, [], (1, 0, 0, 0, 3))
    thread = Thread.objects.get(project=acme)
    assert thread.name == "desk:7:1"
    assert types(thread) == [
        "thread.created",
        "run.recorded",
        "slot.appended",
        "turn.began",
        "slot.appended",
        "slot.appended",
        "import.advanced",
    ]
    assert [*thread.slots.order_by("index").values_list("role", "turn")] == [
        ("user", 0),
        ("assistant", 1),
        ("user", 1),
    ]
    assert open_contents(thread) == made["traj"]
    assert set(Event.objects.values_list("actor", flat=True)) == {"import"}
    (found,) = dump(acme)
    assert found["user_id"] == "ann"
    assert found["scope"] == ["desk", "task-7", "trial-1"]
    assert found["labels"]["reward"] == 1.0
    recorded = found["events"][1]
    assert recorded[3] == {"format": "runs", "messages": 3}
    assert recorded[4] == {"trial": 1, "reward": 1.0, "info": made["info"]}


def test_import_batches_hold_200_messages_and_an_advance(
    acme: Project, tmp_path: Path
) -> None:
    take(acme, array(tmp_path, run(messages=450)))
    thread = Thread.objects.get(project=acme)
    advances = thread.events.filter(type="import.advanced").order_by("seq")
    assert [json.loads(each.body)["count"] for each in advances] == [200, 400, 450]
    assert types(thread).count("run.recorded") == 1
    assert types(thread)[-1] == "import.advanced"


def test_import_batch_holds_4_mib_at_most(acme: Project, tmp_path: Path) -> None:
    large = [build_message("x" * 1_000_000) for _ in range(6)]
    take(acme, array(tmp_path, run(messages=large)))
    advances = Event.objects.filter(type="import.advanced").order_by("seq")
    assert [json.loads(each.body)["count"] for each in advances] == [5, 6]


def test_chat_line_becomes_a_slot_of_its_thread(acme: Project, tmp_path: Path) -> None:
    first = build_message("hi", thread="t-1", user_id="ann", at="2024-05-15T15:00:00Z")
    sent = [
        first,
        build_message("hello"),
        build_message("yes", "assistant", thread="t-1"),
    ]
    job, _ = take(acme, write_lines(tmp_path, *sent))
    assert took(job) == (2, 0, 0, 0, 3)
    rows = Thread.objects.select_related("subject")
    desk, talk = rows.get(name="desk"), rows.get(name="t-1")
    assert open_contents(talk) == [sent[0], sent[2]]
    assert open_contents(desk) == [sent[1]]
    assert desk.subject.anonymous
    assert not talk.subject.anonymous
    assert (talk.agent_type, talk.turn_count) == ("desk", 1)
    (slot, _) = list_slots(talk).items
    assert slot.agent_at == datetime(2024, 5, 15, 15, tzinfo=UTC)


def test_lines_of_many_threads_wait_for_a_batch_each(
    acme: Project, tmp_path: Path
) -> None:
    sent = [build_message(f"{n}", thread=f"t-{n % 3}") for n in range(660)]
    take(acme, write_lines(tmp_path, *sent))
    advances = Event.objects.filter(type="import.advanced").order_by("thread", "seq")
    assert [json.loads(each.body)["count"] for each in advances] == [200, 220] * 3


def test_waiting_lines_are_written_at_their_limit(
    acme: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "WAITING_LINES", 5)
    sent = [build_message(f"{n}", thread=f"t-{n}") for n in range(12)]
    written = []

    def watched() -> Iterator[Item]:
        for item in items(write_lines(tmp_path, *sent)):
            written.append(Slot.objects.count())
            yield item

    assert list(Import(acme).import_items(watched()))
    assert written == [0] * 5 + [5] * 5 + [10] * 2


def test_unknown_calls_and_fields_are_counted(acme: Project, tmp_path: Path) -> None:
    answer = build_message("12:10", "tool", tool_call_id="x")
    job, _ = take(acme, array(tmp_path, run(messages=[answer], seed=1)))
    assert job.counts.warnings == {"unknown_call": 1, "extra_field": 1}
    assert Slot.objects.get().from_name == "tool:tool"


def test_dry_run_writes_nothing(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(0, user_id="ann"), run(1))
    before = Subject.objects.count()
    job, _ = take(acme, path, dry_run=True)
    assert took(job) == (2, 0, 0, 0, 4)
    assert (Thread.objects.count(), Subject.objects.count()) == (0, before)
    take(acme, path)
    job, _ = take(acme, path, dry_run=True)
    assert took(job) == (0, 2, 0, 0, 0)


def test_import_costs_the_same_queries_at_any_size(
    acme: Project, tmp_path: Path
) -> None:
    costs = []
    for size in (3, 150):
        path = array(tmp_path, run(size, messages=size))
        with CaptureQueriesContext(connection) as queries:
            take(acme, path)
        costs.append(len(queries))
    assert costs[0] == costs[1]


# repeated imports


def test_sample_file_is_imported_with_its_recorded_counts(acme: Project) -> None:
    path = sample.require_path()
    job, bad = take(acme, path)
    assert (job.complete, bad) == (True, [])
    assert took(job) == (sample.THREADS, 0, 0, 0, sample.SLOTS)
    named = Subject.objects.filter(project=acme, anonymous=False)
    assert named.count() == sample.SUBJECTS
    assert Counter(Slot.objects.values_list("role", flat=True)) == sample.ROLES
    assert Turn.objects.count() == sample.TURNS
    assert Event.objects.count() == sample.EVENTS
    rows = Thread.objects.select_related("subject")
    stored = {row.name: open_contents(row) for row in rows}
    recorded = {
        f"{sample.NAME}:{each['task_id']}:{each['trial']}": each["traj"]
        for each in json.loads(path.read_bytes())
    }
    assert strict_json.dump_stored(stored) == strict_json.dump_stored(
        {name: recorded[name] for name in stored}
    )
    assert stored.keys() == recorded.keys()

    out = StringIO()
    call_command("import", path, project="acme", json=True, stdout=out, stderr=out)
    assert json.loads(out.getvalue())["present"] == sample.THREADS
    assert Event.objects.count() == sample.EVENTS


def test_second_import_writes_nothing(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(0, user_id="ann"), run(1, messages=450))
    take(acme, path)
    before = [*Event.objects.order_by("thread", "seq").values_list("chain")]
    job, _ = take(acme, path)
    assert took(job) == (0, 2, 0, 0, 0)
    assert [*Event.objects.order_by("thread", "seq").values_list("chain")] == before


# bad records


def test_first_bad_record_stops_and_what_came_before_stays(
    acme: Project, tmp_path: Path
) -> None:
    path = array(
        tmp_path, run(0), run(1, messages=[build_message(role="critic")]), run(2)
    )
    job, (bad,) = take(acme, path)
    assert (bad.code, bad.run, bad.message) == ("role", 1, 0)
    assert (job.complete, took(job)) == (False, (1, 0, 0, 1, 2))
    job, (bad,) = take(acme, path, skip_bad=True)
    assert (job.complete, took(job)) == (True, (1, 1, 0, 1, 2))


def test_run_with_a_bad_message_is_left_out_whole(
    acme: Project, tmp_path: Path
) -> None:
    traj = [build_message(f"{n}") for n in range(250)]
    path = array(
        tmp_path, run(0, messages=[*traj, build_message(role="critic")]), run(1)
    )
    job, _ = take(acme, path, skip_bad=True)
    assert took(job) == (1, 0, 0, 1, 2)
    assert [*Thread.objects.values_list("name", flat=True)] == ["desk:1:0"]


def test_lines_before_a_bad_line_stay(acme: Project, tmp_path: Path) -> None:
    sent = [
        build_message("one"),
        build_message("two"),
        build_message(role="critic"),
        build_message("three"),
    ]
    job, (bad,) = take(acme, write_lines(tmp_path, *sent))
    assert (bad.message, job.complete, took(job)) == (2, False, (1, 0, 0, 1, 2))
    job, _ = take(acme, write_lines(tmp_path, *sent), skip_bad=True)
    assert (job.complete, took(job)) == (True, (1, 0, 0, 1, 1))
    assert open_contents(find(acme, "desk")) == [sent[0], sent[1], sent[3]]


def test_broken_json_in_an_array_always_stops(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(0), run(1), run(2))
    path.write_bytes(path.read_bytes().replace(b'"trial": 0', b'"trial": 0 0', 2))
    job, (bad,) = take(acme, path, skip_bad=True)
    assert (bad.code, bad.run, job.complete) == ("invalid_json", 0, False)
    assert Thread.objects.count() == 0


def test_two_imports_do_not_mix_projects(
    acme: Project, zeta: Project, tmp_path: Path
) -> None:
    path = array(tmp_path, run(user_id="ann"))
    take(acme, path)
    job, _ = take(zeta, path)
    assert took(job) == (1, 0, 0, 0, 2)
    assert dump(acme) == dump(zeta)
    digests = Event.objects.filter(type="import.advanced").values_list("body")
    assert len(set(digests)) == 2  # keyed by the subject: never equal for two
