"""The consolidator: what is said is asked of a model, by whatever project wants it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from memoryhub import journal
from memoryhub.errors import InvalidError
from memoryhub.journal.writing.activity import activity
from memoryhub.kernel.knowledge.consolidation import ExchangeRequested
from memoryhub.kernel.state.knowledge import ConsolidationState
from memoryhub.model_settings import Price
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.episodes import backlog, pending
from memoryhub.queries.episodes.pending import PendingCounts
from memoryhub.queries.knowledge import model_use
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.overview.checks import ServerCheck, list_checks
from memoryhub.queries.people import recipients
from memoryhub.queries.verify import verification
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import consolidations, homes
from memoryhub.services.people import restrictions
from memoryhub.workers.consolidation import Consolidator
from memoryhub.workers.model_calls import build_model
from tests.cast import forgetting, scripted_model
from tests.cast.factories import append, get_thread, make_thread, run
from tests.cast.knowing import every
from tests.cast.scripted_model import Reply, ScriptedModel, saying
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db(transaction=True)

Running = Callable[..., Consolidator]


@pytest.fixture
def scripted() -> Iterator[ScriptedModel]:
    with scripted_model.running() as running:
        yield running


@pytest.fixture
def start(acme: Project, scripted: ScriptedModel, settings: Any) -> Running:
    """Start a consolidator with these replies, in a project that wants it."""
    settings.MODEL = scripted.settings
    projects.set_consolidation(acme, auto=True)

    def started(*script: Reply) -> Consolidator:
        scripted.script += script
        return Consolidator(ask=build_model())

    return started


def learnt(*values: str) -> Reply:
    claims = [{"entity": "user", "predicate": "likes", "value": v} for v in values]
    return saying(json.dumps(claims), prompt_tokens=90, completion_tokens=10)


def ann(agent: Agent, *threads: str) -> Subject:
    for name in threads:
        make_thread(agent, name, user_id="ann")
        append(agent, name, f"First {name}.", f"Then {name}.")
    return forgetting.get_subject(agent, "ann")


def list_values(subject: Subject) -> set[str]:
    return {fact.value for fact in every(subject)}


def test_ended_exchange_is_consolidated_and_running_one_waits(
    agent: Agent, scripted: ScriptedModel, start: Running
) -> None:
    subject = ann(agent, "one", "two")
    append(agent, "nobody", "Who am I?", "Nobody.")
    worker = start(learnt("tea"), learnt("rye"))
    assert worker.run_round() == 2
    assert list_values(subject) == {"tea", "rye"}
    assert pending.count(subject) == PendingCounts(2, 0, 0)
    assert worker.run_round() == 0
    with time_machine.travel(clock.now() + timedelta(minutes=11)):
        scripted.script += [learnt("jazz"), learnt()]
        assert worker.run_round() == 2
    assert pending.count(subject) == PendingCounts(0, 0, 0)
    journal.run(activity.flush)
    used = model_use.get_use(agent.project, now=clock.now())
    assert (used.calls, used.tokens) == (4, 400)
    assert f"model:127.0.0.1:{scripted.port}" in recipients.list_recipients(subject.id)


def test_consolidation_skips_projects_without_it_and_restricted_subjects(
    agent: Agent, acme: Project, scripted: ScriptedModel, start: Running
) -> None:
    subject = ann(agent, "one")
    projects.set_consolidation(acme, auto=False)
    worker = start()
    assert worker.run_round() == 0
    projects.set_consolidation(acme, auto=True)
    restrictions.restrict_subject(
        subject.id, basis="accuracy_contested", actor="command"
    )
    assert Consolidator(ask=build_model()).run_round() == 0
    assert scripted.asked == []


def test_model_that_is_away_uses_up_no_attempt(
    agent: Agent, scripted: ScriptedModel, start: Running
) -> None:
    subject = ann(agent, "one")
    worker = start(Reply(status=401), Reply(deed="reset"))
    now = clock.now()
    for minutes in (0, 2):
        with time_machine.travel(now + timedelta(minutes=minutes)):
            assert worker.run_round() == 0
            assert worker.run_round() == 0
    assert len(scripted.asked) == 2
    assert pending.count(subject) == PendingCounts(2, 0, 0)
    with time_machine.travel(now + timedelta(minutes=4)):
        scripted.script += [learnt("tea")]
        assert worker.run_round() == 1
    assert list_values(subject) == {"tea"}


def test_failed_exchange_is_retried_by_any_worker(
    agent: Agent, scripted: ScriptedModel, start: Running
) -> None:
    subject = ann(agent, "one")
    garbage = saying("I would rather not.")
    assert start(garbage, garbage).run_round() == 1
    assert pending.count(subject) == PendingCounts(1, 1, 0)
    with time_machine.travel(clock.now() + timedelta(seconds=61)):
        scripted.script += [learnt("tea")]
        # Another process, which was never told of it.
        assert Consolidator(ask=build_model()).run_round() == 1
    assert list_values(subject) == {"tea"}
    assert pending.count(subject) == PendingCounts(1, 0, 0)
    (held,) = pending.get_consolidated(subject).values()
    assert held == ConsolidationState(to=1)


def test_consolidation_keeps_to_the_projects_tokens_a_day(
    agent: Agent, settings: Any, start: Running
) -> None:
    settings.MODEL_DAILY_TOKENS = 100
    ann(agent, "one", "two")
    worker = start(learnt("tea"), learnt("rye"))
    assert worker.run_round() == 1
    assert worker.run_round() == 0
    with time_machine.travel(clock.now() + timedelta(days=2)):
        assert worker.run_round() > 0


def test_health_reports_the_state_of_the_model(
    agent: Agent, acme: Project, settings: Any, start: Running
) -> None:
    ann(agent, "one", "two")
    assert start(learnt("tea"), learnt("rye")).run_round() == 2
    journal.run(activity.flush)
    assert (health(acme).tone, health(acme).figures["calls"]) == (None, 2)
    settings.MODEL_DAILY_TOKENS = 150
    assert health(acme).tone == "attn"
    assert "used up" in health(acme).text
    settings.MODEL_DAILY_TOKENS = 1_000
    for _ in range(3):
        activity.count_model_run(acme.id, "observer", "no_model", calls=1, tokens=0)
    journal.run(activity.flush)
    assert health(acme).tone == "attn"
    assert "in vain" in health(acme).text
    days = model_use.list_days(acme.id, now=clock.now())
    assert [(each.role, each.written, each.no_model) for each in days] == [
        ("consolidation", 2, 0),
        ("observer", 0, 3),
    ]
    assert [(each.calls, each.tokens) for each in days] == [(2, 200), (3, 0)]
    settings.MODEL = None
    assert not [
        each for each in list_checks(acme, now=clock.now()) if each.key == "model"
    ]


def health(project: Project) -> ServerCheck:
    project.refresh_from_db()
    found = list_checks(project, now=clock.now())
    return next(each for each in found if each.key == "model")


def test_earlier_exchanges_are_consolidated_only_with_their_count(
    agent: Agent, acme: Project, scripted: ScriptedModel, start: Running
) -> None:
    """A running worker asks; from the change on it omits them, the newest first."""
    subject, now = ann(agent, "one", "two"), clock.now()
    worker = start()
    projects.set_consolidation(acme, auto=False)
    with time_machine.travel(now + timedelta(minutes=20)):
        projects.set_consolidation(acme, auto=True)
        append(agent, "two", "I like tea.", "I like rye.")
        scripted.script += [learnt("tea")]
        assert worker.run_round() == 1
        assert backlog.get_backlog(acme).exchanges == 4
        with pytest.raises(InvalidError, match="value"):
            projects.set_consolidation(acme, auto=True, backlog=3)
        assert worker.run_round() == 0
        projects.set_consolidation(acme, auto=True, backlog=4)
        assert backlog.get_backlog(acme) == (0, 0, None)
        scripted.script += [learnt("jazz"), learnt(), learnt(), learnt()]
        assert worker.run_round() == 4
    texts = [each["messages"][1]["content"] for each in scripted.asked]
    said = [text.rpartition("user: ")[2] for text in texts]
    newest = ["I like tea.", "Then two.", "First two.", "Then one.", "First one."]
    assert said == newest
    assert list_values(subject) == {"tea", "jazz"}
    assert pending.count(subject) == PendingCounts(1, 0, 0)


def test_consolidation_backlog_has_a_price(
    agent: Agent, acme: Project, settings: Any, start: Running
) -> None:
    ann(agent, "one", "two")
    start()
    projects.set_consolidation(acme, auto=False)
    price = Price(price=2.0, cached=0.2, answers=8.0)
    settings.MODEL = replace(settings.MODEL, price=price)
    found = backlog.get_backlog(acme)
    assert (found.exchanges, found.cost) == (
        4,
        price.compute_cost(found.tokens - 400, 400),
    )
    assert 4 * 400 < found.tokens < 4 * 500


def test_no_project_waits_for_anothers_backlog(
    agent: Agent,
    stranger: Agent,
    scripted: ScriptedModel,
    start: Running,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rounds are short, and projects take turns in each, however slow the model is."""
    scripted.replies = lambda _, question: learnt()
    projects.set_consolidation(Project.objects.get(id=stranger.project), auto=True)
    ann(agent, *(f"t-{n}" for n in range(12)))
    worker = start()
    # Each call lasts four seconds of the ten that a round has.
    worker.clock = lambda: clock.now() + timedelta(seconds=4 * len(scripted.asked))
    assert 1 < worker.run_round() < 4
    # It goes on at once, but not while it may not ask.
    assert worker._loop.pause() == 0
    with monkeypatch.context() as away:
        away.setattr(worker, "ask", None)
        assert worker.run_round() == 0
    assert worker._loop.pause() == worker.poll_seconds
    ann(stranger, "late")
    begun = len(scripted.asked)
    while worker.run_round():
        pass
    texts = [each["messages"][1]["content"] for each in scripted.asked]
    assert any("First late." in text for text in texts[begun : begun + 2])
    assert len(texts) == 13


def test_lifted_restriction_resumes_consolidation_within_an_hour(
    agent: Agent, start: Running
) -> None:
    subject, now = ann(agent, "one"), clock.now()
    restrictions.restrict_subject(
        subject.id, basis="accuracy_contested", actor="command"
    )
    worker = start(learnt("tea"), learnt("rye"))
    for minutes in (0, 20):
        with time_machine.travel(now + timedelta(minutes=minutes)):
            assert worker.run_round() == 0
    restrictions.unrestrict_subject(subject.id, actor="command")
    with time_machine.travel(now + timedelta(minutes=61)):
        assert worker.run_round() == 2


def test_abandoned_exchange_is_consolidated_again_on_demand(
    agent: Agent, scripted: ScriptedModel, start: Running
) -> None:
    subject, now = ann(agent, "one"), clock.now()
    worker = start(*[saying("I would rather not.")] * 16)
    for minutes in (0, 11, 30, 50, 120, 190):
        with time_machine.travel(now + timedelta(minutes=minutes)):
            worker.run_round()
    assert pending.count(subject) == PendingCounts(0, 0, 2)
    assert scripted.script == []
    with time_machine.travel(now + timedelta(minutes=195)):
        assert worker.run_round() == 0
        thread = get_thread(agent, "one").id
        consolidations.retry_exchange(
            subject, thread, 0, now=clock.now(), actor="command"
        )
        scripted.script.append(learnt("tea"))
        assert worker.run_round() == 1
    assert list_values(subject) == {"tea"}


def test_failing_exchange_delays_no_other(
    agent: Agent, scripted: ScriptedModel, start: Running
) -> None:
    subject, now = ann(agent, "one", "two"), clock.now()
    # The reply is for the first thread, which is asked about first each time.
    broken = Reply(deed="reset")
    worker = start(learnt("tea"), broken)
    with time_machine.travel(now + timedelta(minutes=11)):
        scripted.script += [learnt("rye"), learnt("jazz")]
        assert worker.run_round() == 4
    assert list_values(subject) == {"tea", "rye", "jazz"}
    assert pending.count(subject) == PendingCounts(0, 1, 0)


def test_key_writes_do_not_delay_the_silence_of_a_thread(
    agent: Agent, start: Running
) -> None:
    make_thread(agent, "one", user_id="ann")
    append(agent, "one", "I drink tea.")
    now, worker = clock.now(), start(learnt("tea"))
    for minutes in range(0, 10, 3):
        with time_machine.travel(now + timedelta(minutes=minutes)):
            assert worker.run_round() == 0
            memory_acts.set_key(agent, "beat", minutes, thread="one")
    with time_machine.travel(now + timedelta(minutes=11)):
        assert worker.run_round() == 1


def test_requested_exchanges_are_consolidated_once_in_a_manual_project(
    agent: Agent, acme: Project, scripted: ScriptedModel, start: Running
) -> None:
    """Two requests at once, of one client or of two, and two workers: one result."""
    subject, now = ann(agent, "one", "two"), clock.now()
    worker = start(*[saying("I would rather not.")] * 2)
    projects.set_consolidation(acme, auto=False)
    with time_machine.travel(now + timedelta(minutes=11)):
        assert worker.run_round() == 0
        command = consolidations.build_request(subject, None, limit=2)
        # Both clients have read before either of them writes.
        receipts = [
            run(homes.submit(agent=agent, subject=subject, command=command))
            for _ in range(2)
        ]
        numbers = [len(each.list_events(ExchangeRequested)) for each in receipts]
        assert numbers == [2, 0]
        assert pending.count(subject).waiting == 4
        scripted.script.append(learnt("tea"))
        assert worker.run_round() == 2
        assert Consolidator(ask=build_model()).run_round() == 0
        assert pending.count(subject) == PendingCounts(2, 1, 0)
    with time_machine.travel(now + timedelta(minutes=13)):
        # The one that failed is requested still; nobody requested the others.
        scripted.script.append(learnt("rye"))
        assert Consolidator(ask=build_model()).run_round() == 1
        assert worker.run_round() == 0
    assert list_values(subject) == {"tea", "rye"}
    assert pending.count(subject) == PendingCounts(2, 0, 0)
    home = find_home(subject)
    assert home is not None
    assert not home.has_requests
    assert verification.verify(home) is None
