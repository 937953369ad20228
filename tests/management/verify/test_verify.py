"""The commands `verify` and `rebuild`, as people and scripts use them."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from memoryhub.management import progress
from memoryhub.models.events import Event
from memoryhub.models.keys import NewestLine
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.verify import verification
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.proof import ledger
from memoryhub.workers.anchors import move
from tests.cast.factories import (
    append,
    get_thread,
    make_agent,
    make_project,
    make_thread,
)
from tests.cast.forgetting import confirm, finish, make_person, plan
from tests.cast.recordings import array, find, run, take
from tests.harness.instances import Instance
from tests.promises.tampering.damages import vanish

pytestmark = pytest.mark.django_db


def command(*words: str) -> tuple[str, str]:
    out, errors = io.StringIO(), io.StringIO()
    call_command(*words, stdout=out, stderr=errors)
    return out.getvalue(), errors.getvalue()


def require_refusal(*words: str) -> CommandError:
    with pytest.raises(CommandError) as refused:
        command(*words)
    return refused.value


def lift_guard() -> None:
    on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER memoryhub_event_update{on}")


def damage(thread: Thread, *, seq: int) -> None:
    lift_guard()
    Event.objects.filter(thread=thread, seq=seq).update(actor="agent:somebody")


def alter(thread: Thread, *, turn: int) -> None:
    """Alter a record, so that it counts one omitted page too many."""
    row = thread.turns.get(n=turn)
    event = thread.events.get(seq=row.packed_seq or 0)
    body = json.loads(event.body)
    body["manifest"]["omitted"] += 1
    lift_guard()
    rows = Event.objects.filter(thread=thread, seq=event.seq)
    rows.update(body=json.dumps(body))


def test_verify_says_how_much_was_checked(agent: Agent) -> None:
    append(agent, "t-1", "a", "b")
    append(agent, "t-2", "a")
    out, _ = command("verify", "--all")
    assert "2 threads, 5 events" in out


def test_verify_takes_a_thread_by_project_and_name_or_by_id(
    agent: Agent, stranger: Agent
) -> None:
    append(agent, "t-1", "a", "b")
    append(stranger, "t-1", "a")
    assert "1 threads, 3 events" in command("verify", "--thread", "acme/t-1")[0]
    assert "1 threads, 2 events" in command("verify", "--thread", "zeta/t-1")[0]
    thread = str(get_thread(agent, "t-1").id)
    assert "1 threads, 3 events" in command("verify", "--thread", thread)[0]


@pytest.mark.parametrize("address", ["acme/none", "none/t-1", "t-1", "", "acme/"])
def test_verify_of_an_unknown_thread_is_wrong_usage(agent: Agent, address: str) -> None:
    append(agent, "t-1", "a")
    assert require_refusal("verify", "--thread", address).returncode == 2


@pytest.mark.parametrize("words", [(), ("--all", "--thread", "acme/t-1")])
def test_verify_without_a_target_is_wrong_usage(words: tuple[str, ...]) -> None:
    require_refusal("verify", *words)


def test_verify_rebuilds_recorded_contexts(
    acme: Project, agent: Agent, tmp_path: Path
) -> None:
    assert command("verify", "--contexts", "--all")[0] == (
        "0 of 0 contexts byte-exact.\n"
    )
    append(agent, "t-1", "a")
    take(acme, array(tmp_path, run(messages=8)), budget=6000)
    for which in (["--all"], ["--thread", "acme/desk:0:0"]):
        out, _ = command("verify", "--contexts", *which)
        assert out == "4 of 4 contexts byte-exact.\n"
    out, _ = command("verify", "--contexts", "--thread", "acme/t-1")
    assert out == "0 of 0 contexts byte-exact.\n"


@pytest.mark.no_replay
def test_verify_of_a_differing_context_exits_1_and_names_the_turn(
    acme: Project, tmp_path: Path
) -> None:
    take(acme, array(tmp_path, run(messages=8)), budget=6000)
    row = find(acme, "desk:0:0")
    alter(row, turn=3)
    refused = require_refusal("verify", "--contexts", "--all")
    assert refused.returncode == 1
    assert str(refused) == f"thread {row.id}, turn 3: sha256"


@pytest.mark.no_replay
def test_verify_of_a_wrong_event_exits_1_and_names_the_event(
    agent: Agent,
) -> None:
    append(agent, "good", "a")
    append(agent, "bad", *range(9))
    row = get_thread(agent, "bad")
    damage(row, seq=4)
    refused = require_refusal("verify", "--all")
    assert refused.returncode == 1
    assert f"{row.id} differs at event 4: chain" in str(refused)
    assert require_refusal("verify", "--thread", "acme/bad").returncode == 1
    assert "1 threads" in command("verify", "--thread", "acme/good")[0]


def anchor() -> None:
    assert move(at=clock.now()) > 0


def test_verify_all_compares_the_anchors(agent: Agent) -> None:
    append(agent, "t-1", "a")
    assert "anchored" not in command("verify", "--all")[0]
    anchor()
    assert (
        "1 threads still reach where they were anchored"
        in (command("verify", "--all")[0])
    )
    assert "anchored" not in command("verify", "--thread", "acme/t-1")[0]


@pytest.mark.no_replay
def test_verify_of_a_vanished_thread_exits_1(agent: Agent) -> None:
    append(agent, "t-1", "a")
    append(agent, "t-2", "a")
    anchor()
    Thread.objects.filter(name="t-2").update(status=Thread.Status.IMPORTING)
    vanish(Thread.objects.get(name="t-2"))
    refused = require_refusal("verify", "--all")
    assert refused.returncode == 1
    assert "line 1 of the anchors: threads_missing" in str(refused)
    assert "anchor --anew" in str(refused)


@pytest.mark.no_replay
def test_verify_says_as_of_when_an_anchor_was_restored(agent: Agent) -> None:
    append(agent, "t-1", "a")
    anchor()
    row = get_thread(agent)
    append(agent, "t-1", "b")
    anchor()
    Thread.objects.filter(id=row.id).update(
        anchored_seq=row.head_seq, anchored_hash=row.head_hash
    )
    assert "; it is as of line 1" in str(require_refusal("verify", "--all"))


def test_verify_of_a_damaged_ledger_exits_1(agent: Agent) -> None:
    append(agent, "t-1", "a")
    anchor()
    ledger.path().write_text("{}\n")
    refused = require_refusal("verify", "--all")
    assert refused.returncode == 1
    assert "the ledger" in str(refused)


@pytest.mark.django_db(transaction=True, databases=["default", "keys"])
def test_verify_of_an_older_keys_database_names_the_replay(agent: Agent) -> None:
    finish(confirm(plan(make_person(agent, "ann"))))
    NewestLine.objects.using("keys").all().delete()
    refused = str(require_refusal("verify", "--all"))
    assert "forget --replay" in refused
    assert "good copy" not in refused


@pytest.mark.no_replay
@pytest.mark.django_db(transaction=True)
def test_verify_says_that_an_erasure_is_under_way(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = make_person(agent, "ann")
    confirm(plan(subject))
    Slot.objects.filter(thread__subject=subject).delete()
    monkeypatch.setattr(verification, "CONFIRM_SECONDS", 0.0)
    refused = require_refusal("verify", "--all")
    assert "slot_rows, while an erasure of its person is under way" in str(refused)


def test_rebuild_repairs_rows_and_counts_them(agent: Agent) -> None:
    append(agent, "t-1", "a", "b")
    append(agent, "t-2", "a")
    Slot.objects.filter(thread=get_thread(agent)).delete()
    Thread.objects.filter(name="t-2").update(token_count=99)
    assert require_refusal("verify", "--all").returncode == 1
    assert (
        "1 threads rebuilt from 3 events"
        in command("rebuild", "--thread", "acme/t-1")[0]
    )
    assert require_refusal("verify", "--all").returncode == 1
    assert "2 threads rebuilt from 5 events" in command("rebuild")[0]
    command("verify", "--all")
    command("rebuild")
    command("verify", "--all")


@pytest.mark.django_db(transaction=True)
def test_rebuild_waits_for_erasures(agent: Agent) -> None:
    """A rebuild during an erasure would write rows that must be erased again."""
    row = confirm(plan(make_person(agent, "ann")))
    make_person(agent, "bob")
    assert "forget --resume" in str(require_refusal("rebuild"))
    finish(row)
    assert "threads rebuilt" in command("rebuild")[0]


@pytest.mark.no_replay
def test_rebuild_does_not_hide_a_loss(agent: Agent) -> None:
    make_thread(agent)
    append(agent, "t-1", "a", "b", "c")
    on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER memoryhub_event_delete{on}")
    Event.objects.filter(seq=4).delete()
    before = Thread.objects.values().get()
    assert require_refusal("rebuild").returncode == 1
    assert Thread.objects.values().get() == before
    assert require_refusal("verify", "--all").returncode == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_verify_progress_is_drawn_and_cleared_on_a_terminal(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        append(agent, "t-1", *range(200))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_REDRAW_SECONDS", 0.0)
    out, _ = command("verify", "--all")
    drawn = terminal.getvalue()
    assert re.search(r"█.* 62% 500 of 801 events", drawn)
    assert re.search(r"█ 100% 801 of 801 events", drawn)
    assert drawn.endswith("\r\x1b[K")
    # A program that reads the result reads nothing else.
    assert out.startswith("1 threads, 801 events")


def test_verify_progress_off_a_terminal_is_an_occasional_line(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        append(agent, "t-1", *range(200))
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    command("rebuild")
    assert log.getvalue() == ""
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    command("rebuild")
    lines = log.getvalue().splitlines()
    assert [line.split(" · ")[0] for line in lines] == [
        " 62% 500 of 801 events",
        "100% 801 of 801 events",
    ]


@pytest.mark.no_replay
def test_verify_and_rebuild_commands_have_exit_codes_and_streams(
    instance: Instance,
) -> None:
    instance.call("tests.management.verify.test_verify:make_damaged")
    good = instance.manage("verify", "--thread", "acme/good")
    assert (good.returncode, good.stderr) == (0, "")
    bad = instance.manage("verify", "--all")
    assert bad.returncode == 1
    assert bad.stdout == ""
    assert re.search("thread [0-9a-f-]{36} differs at event 3: chain", bad.stderr)
    assert "Traceback" not in bad.stderr
    assert instance.manage("verify", "--thread", "acme/none").returncode == 2
    assert instance.manage("verify").returncode == 2


def make_damaged() -> None:
    """Make damaged threads. Runs in an instance."""
    agent = make_agent(make_project("acme"))
    append(agent, "good", "a")
    append(agent, "bad", "a", "b", "c")
    damage(get_thread(agent, "bad"), seq=3)
