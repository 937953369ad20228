"""The command `forget`: effects, output and errors."""

from __future__ import annotations

import io
import re
from uuid import uuid4

import pytest
from django.core.management import call_command

from memoryhub.models.erasures import Erasure
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from tests.cast import factories
from tests.management.operators.test_commands import answer, require_refusal, run

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State
BACKUPS = r"backups of the memory, until \d{4}-\d\d-\d\d"


@pytest.fixture(autouse=True)
def people(agent: Agent) -> Subject:
    """Make ann, and a twin who must stay."""
    for user_id in ("ann", "bob"):
        factories.make_thread(agent, f"{user_id}-1", user_id=user_id)
        factories.append(agent, f"{user_id}-1", "I would like seat 12A, please.")
    return subjects.find_or_create(agent.project, "ann")


def plan(
    monkeypatch: pytest.MonkeyPatch, *words: str, user_id: str = "ann"
) -> tuple[str, list[str]]:
    """Plan an erasure; return the output, and the words that confirm the plan."""
    answer(monkeypatch, f"{user_id}\n")
    out, _ = run("forget", "plan", "--project=acme", "--reason=test", *words)
    found = re.search(r"manage\.py (forget confirm .*)", out)
    assert found is not None
    return out, found[1].split()


def test_forget_plan_lists_what_goes_and_erases_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, _ = plan(monkeypatch)
    assert re.search(r"events +1 +nulled", out)
    assert re.search(f"{BACKUPS}: names of threads, .* in the clear", out)
    # The output shows neither the name nor any content of a thread.
    assert "ann" not in out.replace("manage.py", "").split()
    assert "seat" not in out
    assert Erasure.objects.get().state == State.PLANNED
    assert Thread.objects.filter(name="ann-1").exists()


def test_confirmed_forget_runs_to_the_receipt(
    monkeypatch: pytest.MonkeyPatch, people: Subject
) -> None:
    _, words = plan(monkeypatch, "--ticket=LEGAL-42")
    out, _ = run(*words)
    assert "complete since" in out
    assert "rows erased" in out
    assert Subject.objects.get(id=people.id).state == "erased"
    assert Thread.objects.filter(name="bob-1", status="open").exists()
    assert re.search(f"{BACKUPS}: names of threads, .* in the clear", out)
    assert run("forget", "status", words[2])[0] == out
    assert run("forget", "status")[0].strip() == "No erasure is unfinished."


def test_forget_plan_takes_a_thread_a_time_or_a_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for words in (
        ("--scope=record", "--thread=ann-1", "--record=2"),
        ("--scope=before", "--before=2020-01-01"),
        ("--scope=thread", "--thread=ann-1"),
    ):
        out, confirming = plan(monkeypatch, *words)
        assert f"scope {words[0].partition('=')[2]}:" in out
        done, _ = run("forget", "cancel", confirming[2])
        assert "nothing was erased" in done
    assert not Erasure.objects.exclude(state=State.CANCELLED).exists()


def test_stale_forget_plan_is_shown_anew(
    monkeypatch: pytest.MonkeyPatch, agent: Agent
) -> None:
    _, words = plan(monkeypatch)
    factories.append(agent, "ann-1", "One thing more.")
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit):
        call_command(*words, stdout=out, stderr=err, no_color=True)
    assert "moved since the plan" in err.getvalue()
    found = re.search(r"manage\.py (forget confirm .*)", out.getvalue())
    assert found is not None
    assert found[1].split() != words
    assert "complete" in run(*found[1].split())[0]


def test_wrong_forget_usage_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, words = plan(monkeypatch)
    wrong = [*words[:-1], "7"]
    assert require_refusal(*wrong).startswith("count_mismatch")
    assert require_refusal("forget", "cancel", str(uuid4())).startswith("not_found")
    assert "Say what to do" in require_refusal("forget", code=2)
    assert "Say what to do" in require_refusal("forget", "--resume", "status", code=2)
    answer(monkeypatch, "nobody\n")
    command = ("forget", "plan", "--project=acme", "--reason=test")
    assert "no such subject" in require_refusal(*command, code=2)
    assert "no project" in require_refusal(
        *command[:2], "--project=x", "--reason=test", code=2
    )


def test_begun_erasure_is_resumed_by_forget(
    monkeypatch: pytest.MonkeyPatch, people: Subject
) -> None:
    plan(monkeypatch)
    Erasure.objects.update(confirmed_at=people.created_at)
    out, _ = run("forget", "--resume")
    assert "complete since" in out
    assert run("forget", "--resume")[0] == ""
