"""The observer: threads that are behind are asked of a model, and turns never wait."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, cast

import pytest

from memoryhub.kernel.observing import prompts
from memoryhub.kernel.state.observing import Observing
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import instructions, observers
from memoryhub.queries.observing.calls import (
    build_lease_name,
    find_call,
    list_leases,
)
from memoryhub.queries.people import recipients
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import observers as steering
from memoryhub.services.rebuild import rebuild
from memoryhub.workers import observing
from memoryhub.workers.leases import HeldLease
from memoryhub.workers.model_calls import build_model
from memoryhub.workers.observing import ThreadObserver
from tests.cast import scripted_model
from tests.cast.erasings import erase
from tests.cast.factories import append, get_thread, make_thread, run
from tests.cast.forgetting import confirm, finish, plan
from tests.cast.scripted_model import Reply, ScriptedModel, saying
from tests.services.acts import fork, state_of
from tests.services.observing.test_extraction import request_of, talk, told

pytestmark = pytest.mark.django_db(transaction=True)

SETTINGS: dict[str, Any] = {
    "observe": True,
    "budget_tokens": 24_800,
    "reserved_tokens": 800,
    "observe_keep_tokens": 2_000,
}


@pytest.fixture
def scripted(settings: Any) -> Iterator[ScriptedModel]:
    with scripted_model.running() as running:
        settings.MODEL = running.settings
        running.replies = reply_with_line
        yield running


def slots_of(question: dict[str, Any]) -> list[int]:
    """Return the slots that a model is asked about."""
    asked = question["messages"][1]["content"]
    return [int(n) for n in re.findall(r"^\[(\d+)\] ", asked, re.MULTILINE)]


def reply_with_line(_: str, question: dict[str, Any]) -> Reply:
    """Reply with one line for all the slots asked about."""
    slots = slots_of(question) or [0]
    line = {
        "mark": "medium",
        "text": f"They talked from {slots[0]} on.",
        "slots": [slots[0], slots[-1]],
    }
    return saying(json.dumps({"lines": [line], "current_task": "To go on."}))


def observer() -> ThreadObserver:
    return ThreadObserver(ask=build_model(), calls=1)


def get_observing(agent: Agent) -> Observing:
    return state_of(get_thread(agent)).observing


def make_late_thread(agent: Agent, end: int = 140) -> Thread:
    make_thread(agent, "t-1", **SETTINGS)
    talk(agent, 0, end)
    return get_thread(agent)


def later(observer: ThreadObserver, seconds: float) -> None:
    observer.clock = lambda: clock.now() + timedelta(seconds=seconds)


def test_observer_prompt_includes_the_projects_instructions(
    agent: Agent, acme: Project, scripted: ScriptedModel
) -> None:
    make_late_thread(agent)
    projects.set_observer_instructions(
        acme, observer="Keep order numbers.", reflector="Join."
    )
    assert observer().run_round() == 1
    prompt = scripted.asked[0]["messages"][0]["content"]
    assert prompt.endswith("Keep order numbers.")
    (made,) = observers.list_waiting(get_thread(agent))
    assert str(made.body.prompt).startswith("observer/2+")


def instruct(agent: Agent, thread: str = "t-1", **texts: str | None) -> int:
    command = steering.build_instructing(cast("Any", texts))
    return run(steering.submit_command(agent=agent, thread=thread, command=command)).seq


def list_sent_instructions(scripted: ScriptedModel) -> set[str]:
    """Observe all that is due, and return what prompts said behind their wording."""
    before = len(scripted.asked)
    while observer().run_round():
        continue
    sent = [each["messages"][0]["content"] for each in scripted.asked[before:]]
    return {text.partition(prompts.PROMPTS[prompts.OBSERVER])[2][-20:] for text in sent}


def test_threads_own_instructions_replace_the_projects(
    agent: Agent, acme: Project, scripted: ScriptedModel
) -> None:
    projects.set_observer_instructions(
        acme, observer="Keep all the orders.", reflector=""
    )
    make_late_thread(agent)
    instruct(agent, observer="Keep what Ann wears.")
    assert list_sent_instructions(scripted) == {"Keep what Ann wears."}
    named = observers.list_waiting(get_thread(agent))[-1].body.prompt or ""
    assert re.fullmatch(r"observer/2\+[0-9a-f]{8}", named)
    # Whoever guesses the text can't check the guess.
    assert hashlib.sha256(b"Keep what Ann wears.").hexdigest()[:8] not in named
    for first, text, sent in (
        (140, "", ""),
        (280, None, "Keep all the orders."),
    ):
        instruct(agent, observer=text)
        talk(agent, first, first + 140)
        assert list_sent_instructions(scripted) == {sent}
    instruct(agent, observer="Keep what Ann wears.")
    make_thread(agent, "t-2", **SETTINGS)
    talk(agent, 0, 140, thread="t-2")
    assert list_sent_instructions(scripted) == {"Keep all the orders."}
    rebuild(get_thread(agent))


def test_erased_instructions_yield_to_the_projects(
    agent: Agent, acme: Project, scripted: ScriptedModel
) -> None:
    projects.set_observer_instructions(
        acme, observer="Keep all the orders.", reflector=""
    )
    make_late_thread(agent)
    seq = instruct(agent, observer="Keep what Ann wears.")
    thread = get_thread(agent)
    fork(agent, "t-1", "t-2")
    assert list_sent_instructions(scripted) == {"Keep what Ann wears."}
    finish(confirm(plan(thread.subject, "record", thread=thread, seq=seq)))
    for name in ("t-1", "t-2"):
        state = state_of(get_thread(agent, name))
        assert not state.observing.instructions
        # The observations may repeat the text, and go with it.
        assert not (*state.observing.log, *state.observing.chunks)
        assert verify(get_thread(agent, name)) is None
    then = state_of(get_thread(agent), seq)
    assert then.observing.instructions
    assert not instructions.list_own_instructions(get_thread(agent), then)
    assert list_sent_instructions(scripted) == {"Keep all the orders."}
    # An agent that sends the text again is not refused.
    instruct(agent, observer="Keep what Ann wears.")


@pytest.mark.usefixtures("scripted")
def test_thread_that_is_behind_is_observed_before_a_turn_needs_it(
    agent: Agent,
) -> None:
    thread = make_late_thread(agent)
    assert thread.observer_due
    while observer().run_round():
        continue
    assert not get_thread(agent).observer_due
    assert get_observing(agent).watermark > 60
    assert get_observing(agent).cursor == 0
    begun = talk(agent, 140, 400)
    log, raw = request_of(begun)
    assert told(log) | raw == {*range(400 - 1)}
    assert "They talked from 0 on." in log
    assert {each.body.method for each in observers.list_log(get_thread(agent))} >= {
        "model"
    }
    assert recipients.list_recipients(thread.subject_id)[-1].startswith("model:127")
    rebuild(get_thread(agent))


def test_messages_sent_during_an_observer_call_stay_raw(
    agent: Agent, scripted: ScriptedModel
) -> None:
    make_late_thread(agent)

    def slow(key: str, question: dict[str, Any]) -> Reply:
        append(agent, "t-1", "What came meanwhile.")
        return reply_with_line(key, question)

    scripted.replies = slow
    assert observer().run_round() == 1
    state = state_of(get_thread(agent))
    assert state.observing.watermark < state.slot_count
    names = {frame.entry.slot for frame in state.paging.frames.values()}
    assert state.slot_count - 1 in names


def test_call_in_flight_is_told_until_it_is_over(
    agent: Agent, scripted: ScriptedModel
) -> None:
    thread, told = make_late_thread(agent), list[str | None]()

    def look(key: str, question: dict[str, Any]) -> Reply:
        told.append(find_call(thread.id))
        return reply_with_line(key, question)

    scripted.replies = look
    assert observer().run_round() == 1
    assert told == ["observer"]
    assert find_call(thread.id) is None
    # The lease of a process that died is deleted with the next round.
    HeldLease(name=build_lease_name("reflector", thread.id)).take()
    assert find_call(thread.id) == "reflector"
    observer().ask_all([])
    assert not list_leases().exists()


GARBAGE: dict[str, Callable[[str, dict[str, Any]], Reply]] = {
    "empty": lambda *_: saying('{"lines": []}'),
    "no_json": lambda *_: saying("I would rather not."),
    "degenerate": lambda *_: saying(json.dumps({"lines": [{"text": "so"}] * 9})),
    "too_large": lambda *_: saying(
        json.dumps({"lines": [{"text": f"{n} {'so on ' * 50}"} for n in range(300)]})
    ),
}


@pytest.mark.parametrize("failure", GARBAGE)
def test_failing_range_is_observed_extractively(
    agent: Agent, scripted: ScriptedModel, failure: str
) -> None:
    make_late_thread(agent)
    scripted.replies = GARBAGE[failure]
    asked = observer()
    for times in range(1, 4):
        assert asked.run_round() == 1
        assert get_observing(agent).observer[:1] == (times,)
        assert get_observing(agent).watermark == 0
        # One retry that says why; then not before it is due again.
        assert len(scripted.asked) == 2 * times
        assert asked.run_round() == 0
        later(asked, 100 * times)
    assert asked.run_round() == 1
    assert len(scripted.asked) == 6
    (made,) = observers.list_waiting(get_thread(agent))
    assert made.body.method == "extractive"
    runs = observers.list_runs(get_thread(agent))
    assert [run.outcome for run in runs] == ["extractive", *[failure] * 3]


@pytest.mark.parametrize(
    "reply", [Reply(deed="reset"), Reply(b"no", 401), Reply(b"<html>", 200)], ids=repr
)
def test_observer_errors_do_not_reach_a_turn(
    agent: Agent, scripted: ScriptedModel, reply: Reply
) -> None:
    make_late_thread(agent)
    scripted.replies = lambda *_: reply
    assert observer().run_round() == 1
    assert get_observing(agent).observer.times == 1
    # The turn that needs room has it all the same.
    log, raw = request_of(talk(agent, 140, 300))
    assert told(log) | raw == {*range(300 - 1)}
    assert b"<html>" not in b"".join(
        bytes(row.body, "utf-8") for row in Event.objects.filter(type="observer.failed")
    )


def test_subject_can_be_forgotten_during_an_observer_run(
    agent: Agent, scripted: ScriptedModel
) -> None:
    thread = make_late_thread(agent)

    def forgets(key: str, question: dict[str, Any]) -> Reply:
        erase(get_thread(agent), (1, 3))
        return reply_with_line(key, question)

    scripted.replies, asked = forgets, observer()
    assert asked.run_round() == 1
    assert (get_observing(agent).watermark, get_observing(agent).epoch) == (0, 1)
    # A refused range may be refused again, and costs tokens each time.
    assert asked.run_round() == 0
    scripted.replies = reply_with_line
    while observer().run_round():
        continue
    assert get_observing(agent).watermark > 0
    assert all("word0000" not in json.dumps(each) for each in scripted.asked[1:])
    assert thread.id == get_thread(agent).id


def test_observer_is_asked_by_one_of_two_workers(
    agent: Agent, scripted: ScriptedModel
) -> None:
    make_late_thread(agent)
    other = observer()
    rounds = list[int]()

    def other_too(key: str, question: dict[str, Any]) -> Reply:
        rounds.append(other.run_round())
        return reply_with_line(key, question)

    scripted.replies = other_too
    assert observer().run_round() == 1
    assert rounds == [0]
    assert observing.LEASE == "observing"


def test_no_project_waits_for_anothers_threads(
    agent: Agent,
    stranger: Agent,
    scripted: ScriptedModel,
) -> None:
    """Rounds are short, and projects take turns in each, however slow the model is."""
    words = [f"Number {n}: {'so on and on ' * 60}" for n in range(60)]
    for own, names in ((agent, ("a", "b", "c", "d", "e")), (stranger, ("late",))):
        for name in names:
            make_thread(own, name, **SETTINGS)
            append(own, name, *(f"{name} {each}" for each in words))
    worker = observer()
    # Each call lasts four seconds of the ten that a round has.
    worker.clock = lambda: clock.now() + timedelta(seconds=4 * len(scripted.asked))
    assert 1 < worker.run_round() < 4
    firsts = [each["messages"][1]["content"] for each in scripted.asked[:2]]
    assert any("late Number" in each for each in firsts)
