"""Consolidation: an exchange that is over is asked once, whatever crashes or races."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from memoryhub import journal
from memoryhub.errors import SubjectRestrictedError
from memoryhub.errors.trouble import ModelError
from memoryhub.kernel import state_json
from memoryhub.kernel.knowledge import consolidation, facts
from memoryhub.kernel.knowledge.consolidation import ExchangeConsolidated
from memoryhub.kernel.state.knowledge import Consolidated
from memoryhub.model_settings import Price
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import consolidations, homes
from memoryhub.services.knowledge.consolidations import Due
from memoryhub.services.model_client import ModelClient
from memoryhub.services.people import restrictions, subjects
from memoryhub.services.threads import threads
from tests.cast import bundled, forgetting, scripted_model
from tests.cast.factories import append, get_thread, make_thread, run
from tests.cast.knowing import every
from tests.queries.episodes.test_episodes import Talks, assistant, user
from tests.services.acts import state_of

pytestmark = pytest.mark.django_db

HOME = {"entity": "user", "predicate": "lives in", "value": "Bergen"}
SHOE = {"entity": "user", "predicate": "shoe size", "value": 42}


@dataclass(frozen=True)
class Said:
    text: str
    tokens_in: int = 100
    tokens_out: int = 10
    cost: float | None = None


class Model:
    """Answers from a script; an exception in it is raised, a function called first."""

    def __init__(self, *script: Any) -> None:
        self.script = [*script]
        self.questions: list[Sequence[dict[str, str]]] = []

    def __call__(self, messages: Sequence[dict[str, str]]) -> Said:
        self.questions.append(messages)
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        while callable(answer):
            answer = answer()
        return Said(answer if isinstance(answer, str) else json.dumps(answer))


@pytest.fixture
def ann(agent: Agent) -> Subject:
    make_thread(agent, "visit", user_id="ann")
    append(agent, "visit", "Bye.", "I wear 42.", "I moved to Bergen.")
    run(threads.close(agent=agent, thread="visit", reason="completed"))
    return subjects.find_or_create(agent.project, "ann")


def due(agent: Agent, thread: str = "visit") -> Due | None:
    return consolidations.find_due(get_thread(agent, thread), now=clock.now())


def must(agent: Agent, thread: str = "visit") -> Due:
    found = due(agent, thread)
    assert found is not None
    return found


def held(agent: Agent, subject: Subject) -> Consolidated:
    home = find_home(subject)
    assert home is not None
    thread = str(get_thread(agent, "visit").id)
    return state_of(home).knowledge.consolidated.get(thread, Consolidated())


def notes(subject: Subject) -> list[Event]:
    rows = Event.objects.filter(thread__subject=subject, type="exchange.consolidated")
    return [*rows.order_by("seq")]


def values(subject: Subject) -> list[str]:
    return sorted(fact.value for fact in every(subject))


def test_each_exchange_is_asked_newest_first_until_none_is_left(
    agent: Agent, ann: Subject
) -> None:
    model = Model([HOME], [SHOE, "no claim"], [])
    while found := due(agent):
        receipt = consolidations.consolidate(found, model)
        assert receipt is not None
        assert receipt.events[-1].actor == consolidations.ACTOR
    assert values(ann) == ["42", "Bergen"]
    assert held(agent, ann) == Consolidated(to=3)
    told = [json.loads(row.body) for row in notes(ann)]
    assert [(each["begin"], each["to"], each["learnt"]) for each in told] == [
        (2, 3, 1),
        (1, 2, 1),
        (0, 1, 0),
    ]
    assert [each["dropped"] for each in told] == [0, 1, 0]
    # It learnt what predicates there are, and was given data behind bars.
    assert "Predicates in use: lives in" in model.questions[1][1]["content"]
    assert "| user: I wear 42." in model.questions[1][1]["content"]


def test_a_model_is_asked_over_the_wire(agent: Agent, ann: Subject) -> None:
    fenced = f"Here:\n```json\n{json.dumps([HOME])}\n```"
    with scripted_model.running(scripted_model.saying(fenced)) as model:
        price = Price(price=2.0, cached=0.2, answers=8.0)
        client = ModelClient(replace(model.settings, price=price))
        receipt = consolidations.consolidate(must(agent), client.ask)
    assert receipt is not None
    event = receipt.one(ExchangeConsolidated)
    assert event.tokens_in > 100
    assert event.cost == price.cost(event.tokens_in, event.tokens_out) > 0
    assert values(ann) == ["Bergen"]
    assert "I moved to Bergen." in model.asked[0]["messages"][1]["content"]


def test_what_goes_on_is_not_asked_yet(agent: Agent) -> None:
    make_thread(agent, "talk", user_id="ann")
    append(agent, "talk", "one", "two")
    assert must(agent, "talk").episode.end == 1
    consolidations.consolidate(must(agent, "talk"), Model([]))
    assert due(agent, "talk") is None
    later = clock.now() + timedelta(minutes=11)
    assert consolidations.find_due(get_thread(agent, "talk"), now=later) is not None


def test_two_consolidators_one_result(agent: Agent, ann: Subject) -> None:
    """Both ask, one writes: whoever is slower finds it done."""
    first, second = must(agent), must(agent)
    assert consolidations.consolidate(first, Model([HOME])) is not None
    assert consolidations.consolidate(second, Model([SHOE])) is None
    assert values(ann) == ["Bergen"]
    assert len(notes(ann)) == 1


def test_killed_between_call_and_commit(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was told is lost; who comes next asks again, and writes it once."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(homes, "perform", killed)
        with pytest.raises(KeyboardInterrupt):
            consolidations.consolidate(must(agent), Model([HOME]))
    assert notes(ann) == []
    again = must(agent)
    assert again.episode.input.index == 2
    consolidations.consolidate(again, Model([HOME]))
    assert values(ann) == ["Bergen"]
    assert len(notes(ann)) == 1


def test_one_bad_exchange_fails_alone(agent: Agent, ann: Subject) -> None:
    """The others go on; it comes again after a minute, ten, an hour, and no more."""
    bad = ["I can't.", "Sorry."]
    model = Model(*bad, [SHOE], [])
    for _ in range(3):
        consolidations.consolidate(must(agent), model)
    assert values(ann) == ["42"]
    assert consolidations.AGAIN in model.questions[1][-1]["content"]
    assert due(agent) is None
    (failed,) = held(agent, ann).failed
    assert (failed.begin, failed.attempts) == (2, 1)
    now = clock.now()
    for seconds in consolidation.RETRIES:
        now += timedelta(seconds=seconds + 1)
        with time_machine.travel(now):
            consolidations.consolidate(must(agent), Model(ModelError("timeout")))
    (failed,) = held(agent, ann).failed
    assert (failed.attempts, failed.retry_at) == (4, None)
    with time_machine.travel(now + timedelta(days=9)):
        assert due(agent) is None


def test_a_retry_that_answers_ends_the_failure(agent: Agent, ann: Subject) -> None:
    consolidations.consolidate(must(agent), Model(ModelError("timeout")))
    with time_machine.travel(clock.now() + timedelta(seconds=61)):
        one, other = must(agent), must(agent)
        assert one.attempts == 1
        consolidations.consolidate(one, Model([HOME]))
        assert consolidations.consolidate(other, Model([HOME])) is None
    assert held(agent, ann) == Consolidated(to=3, skipped=((0, 2),))
    assert values(ann) == ["Bergen"]


ERASURES: dict[str, Callable[[Subject, Any], object]] = {
    "the message": lambda ann, thread: forgetting.forget(
        ann, "record", until="tombstoned", thread=thread, seq=4
    ),
    "another message": lambda ann, thread: forgetting.forget(
        ann, "record", until="tombstoned", thread=thread, seq=3
    ),
    "the thread": lambda ann, thread: forgetting.forget(
        ann, "thread", until="tombstoned", thread=thread
    ),
}


@pytest.mark.parametrize("what", ERASURES)
def test_forget_during_consolidation(agent: Agent, ann: Subject, what: str) -> None:
    """What the model answers of what is gone by then is written nowhere."""
    thread = get_thread(agent, "visit")

    def erased() -> list[Any]:
        ERASURES[what](ann, thread)
        return [HOME]

    found = must(agent)
    assert consolidations.consolidate(found, Model(erased)) is None
    assert notes(ann) == []
    assert values(ann) == []


def test_nothing_is_written_of_somebody_who_was_forgotten_meanwhile(
    agent: Agent, ann: Subject
) -> None:
    def erased() -> list[Any]:
        forgetting.forget(ann, until="fenced")
        return [HOME]

    assert consolidations.consolidate(must(agent), Model(erased)) is None
    assert notes(ann) == []


def test_nothing_is_written_of_somebody_who_was_restricted_meanwhile(
    agent: Agent, ann: Subject
) -> None:
    """What is in flight then is no exception."""

    def restricted() -> list[Any]:
        restrictions.restrict(ann.id, basis="accuracy_contested", actor="command")
        return [HOME]

    with pytest.raises(SubjectRestrictedError):
        consolidations.consolidate(must(agent), Model(restricted))
    assert notes(ann) == []


def test_what_may_not_come_back_is_left_out_alone(agent: Agent, ann: Subject) -> None:
    consolidations.consolidate(must(agent), Model([HOME]))
    home = find_home(ann)
    assert home is not None
    seq = Event.objects.get(thread=home, type="fact.asserted").seq
    forgetting.forget(ann, "record", until="tombstoned", thread=home, seq=seq)
    receipt = consolidations.consolidate(must(agent), Model([HOME, SHOE]))
    assert receipt is not None
    assert receipt.one(ExchangeConsolidated).dropped == 1
    assert values(ann) == ["42"]


def test_where_there_is_no_room_it_is_given_up(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_ASSERTIONS", 1)
    receipt = consolidations.consolidate(must(agent), Model([HOME, SHOE]))
    assert receipt is not None
    told = receipt.one(ExchangeConsolidated)
    assert (told.failed, told.retry_at, told.learnt) == ("full", None, 0)
    assert must(agent).episode.input.index == 1


def test_the_state_comes_back_from_a_snapshot(agent: Agent, ann: Subject) -> None:
    consolidations.consolidate(must(agent), Model(ModelError("timeout")))
    home = find_home(ann)
    assert home is not None
    state = journal.state_at(home, home.head_seq).state
    plain = json.loads(json.dumps(state_json.to_json(state), default=str))
    assert state_json.from_json(plain).knowledge == state.knowledge


def test_the_model_is_given_all_that_was_said(agent: Agent) -> None:
    make_thread(agent, "talk", user_id="ann")
    call = {"id": "c1", "function": {"name": "seats", "arguments": '{"row":12}'}}
    looks = {**assistant("Let me look."), "tool_calls": [call]}
    Talks(agent).say("talk", user("Is 12A free?"), looks, assistant("Yes, it is."))
    run(threads.close(agent=agent, thread="talk", reason="completed"))
    model = Model([])
    consolidations.consolidate(must(agent, "talk"), model)
    lines = model.questions[0][1]["content"].splitlines()
    given = [line for line in lines if line.startswith("| ")]
    assert given[0] == "| user: Is 12A free?"
    assert given[1].startswith("| assistant: Let me look.")
    assert any("seats" in line for line in given)
    assert given[-1] == "| assistant: Yes, it is."


def test_what_was_asked_elsewhere_is_not_asked_again_after_an_import(
    agent: Agent, ann: Subject, zeta: Project, stranger: Agent
) -> None:
    """What was learnt came along, what failed is due as it was, and it goes on."""
    model = Model([HOME], "I can't.", "Sorry.")
    for _ in range(2):
        consolidations.consolidate(must(agent), model)
    bundled.take(bundled.export(ann), zeta)
    there = subjects.find_or_create(zeta.id, "ann")
    assert values(there) == ["Bergen"]
    assert len(notes(there)) == 2
    assert held(stranger, there) == held(agent, ann)
    assert must(stranger).episode.input.index == 0
    asked = Model([SHOE], [HOME])
    consolidations.consolidate(must(stranger), asked)
    assert due(stranger) is None
    assert "Bye." in asked.questions[0][1]["content"]
    with time_machine.travel(clock.now() + timedelta(seconds=61)):
        consolidations.consolidate(must(stranger), asked)
        assert due(stranger) is None
    assert "I wear 42." in asked.questions[1][1]["content"]
    assert (values(there), values(ann)) == (["42", "Bergen"], ["Bergen"])


def test_of_equal_exchanges_one_is_asked(agent: Agent, ann: Subject) -> None:
    """The same is learnt of the others, and stays when the one that was is erased."""
    make_thread(agent, "again", user_id="ann")
    append(agent, "again", "I moved to Bergen.", "I moved to Bergen!")
    run(threads.close(agent=agent, thread="again", reason="completed"))
    home = HOME | {"valid_from": "2020-05-01T00:00:00Z"}
    model = Model([home, SHOE])
    consolidations.consolidate(must(agent), model)
    consolidations.consolidate(must(agent, "again"), other := Model([]))
    receipt = consolidations.consolidate(must(agent, "again"), other)
    assert receipt is not None
    made = receipt.one(ExchangeConsolidated)
    assert (made.learnt, made.tokens_in, made.host) == (2, 0, None)
    assert (len(model.questions), len(other.questions)) == (1, 1)
    before = {fact.value: fact.valid_from for fact in every(ann)}
    forgetting.forget(
        ann, "thread", until="tombstoned", thread=get_thread(agent, "visit")
    )
    after = {fact.value: fact.valid_from for fact in every(ann)}
    assert after.keys() == before.keys() == {"Bergen", "42"}
    assert after["Bergen"] == before["Bergen"]
