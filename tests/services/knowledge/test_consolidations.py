"""Consolidation: each finished exchange is asked once, despite crashes and races."""

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
from memoryhub.kernel.state.knowledge import ConsolidationState
from memoryhub.model_settings import Price
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import consolidations, homes
from memoryhub.services.knowledge.consolidations import DueExchange
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
    """A model that answers from a script of texts, exceptions and functions."""

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


@pytest.fixture(autouse=True)
def set_projects_automatic(agent: Agent, stranger: Agent) -> None:
    Project.objects.update(consolidate=Project.Consolidate.AUTO)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    make_thread(agent, "visit", user_id="ann")
    append(agent, "visit", "Bye.", "I wear 42.", "I moved to Bergen.")
    run(threads.close(agent=agent, thread="visit", reason="completed"))
    return subjects.find_or_create(agent.project, "ann")


def find_due(agent: Agent, thread: str = "visit") -> DueExchange | None:
    return consolidations.find_due_exchange(get_thread(agent, thread), now=clock.now())


def must(agent: Agent, thread: str = "visit") -> DueExchange:
    found = find_due(agent, thread)
    assert found is not None
    return found


def get_consolidation(agent: Agent, subject: Subject) -> ConsolidationState:
    home = find_home(subject)
    assert home is not None
    thread = str(get_thread(agent, "visit").id)
    return state_of(home).knowledge.consolidated.get(thread, ConsolidationState())


def notes(subject: Subject) -> list[Event]:
    rows = Event.objects.filter(thread__subject=subject, type="exchange.consolidated")
    return [*rows.order_by("seq")]


def list_values(subject: Subject) -> list[str]:
    return sorted(fact.value for fact in every(subject))


def test_exchanges_are_consolidated_newest_first(agent: Agent, ann: Subject) -> None:
    model = Model([HOME], [SHOE, "no claim"], [])
    while found := find_due(agent):
        receipt = consolidations.consolidate_exchange(found, model)
        assert receipt is not None
        assert receipt.events[-1].actor == consolidations.ACTOR
    assert list_values(ann) == ["42", "Bergen"]
    assert get_consolidation(agent, ann) == ConsolidationState(to=3)
    told = [json.loads(row.body) for row in notes(ann)]
    assert [(each["begin"], each["to"], each["learnt"]) for each in told] == [
        (2, 3, 1),
        (1, 2, 1),
        (0, 1, 0),
    ]
    assert [each["dropped"] for each in told] == [0, 1, 0]
    # The prompt lists the predicates in use, and quotes messages behind bars.
    assert "Predicates in use: lives in" in model.questions[1][1]["content"]
    assert "| user: I wear 42." in model.questions[1][1]["content"]


def test_consolidation_asks_a_model_over_http(agent: Agent, ann: Subject) -> None:
    fenced = f"Here:\n```json\n{json.dumps([HOME])}\n```"
    with scripted_model.running(scripted_model.saying(fenced)) as model:
        price = Price(price=2.0, cached=0.2, answers=8.0)
        client = ModelClient(replace(model.settings, price=price))
        receipt = consolidations.consolidate_exchange(must(agent), client.ask)
    assert receipt is not None
    event = receipt.get_event(ExchangeConsolidated)
    assert event.tokens_in > 100
    assert event.cost == price.compute_cost(event.tokens_in, event.tokens_out) > 0
    assert list_values(ann) == ["Bergen"]
    assert "I moved to Bergen." in model.asked[0]["messages"][1]["content"]


def test_exchange_in_progress_is_not_consolidated_yet(agent: Agent) -> None:
    make_thread(agent, "talk", user_id="ann")
    append(agent, "talk", "one", "two")
    assert must(agent, "talk").episode.end == 1
    consolidations.consolidate_exchange(must(agent, "talk"), Model([]))
    assert find_due(agent, "talk") is None
    later = clock.now() + timedelta(minutes=11)
    assert (
        consolidations.find_due_exchange(get_thread(agent, "talk"), now=later)
        is not None
    )


def test_two_consolidators_write_one_result(agent: Agent, ann: Subject) -> None:
    """Let two consolidators ask; the slower one finds the exchange done."""
    first, second = must(agent), must(agent)
    assert consolidations.consolidate_exchange(first, Model([HOME])) is not None
    assert consolidations.consolidate_exchange(second, Model([SHOE])) is None
    assert list_values(ann) == ["Bergen"]
    assert len(notes(ann)) == 1


def test_consolidation_killed_before_its_commit_is_written_once(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lose the answer in a crash, ask again, and write the result once."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(homes, "perform", killed)
        with pytest.raises(KeyboardInterrupt):
            consolidations.consolidate_exchange(must(agent), Model([HOME]))
    assert notes(ann) == []
    again = must(agent)
    assert again.episode.input.index == 2
    consolidations.consolidate_exchange(again, Model([HOME]))
    assert list_values(ann) == ["Bergen"]
    assert len(notes(ann)) == 1


def test_failed_exchange_holds_up_no_other(agent: Agent, ann: Subject) -> None:
    """Retry the failed exchange after a minute, ten minutes, an hour, and no more."""
    bad = ["I can't.", "Sorry."]
    model = Model(*bad, [SHOE], [])
    for _ in range(3):
        consolidations.consolidate_exchange(must(agent), model)
    assert list_values(ann) == ["42"]
    assert consolidations.AGAIN in model.questions[1][-1]["content"]
    assert find_due(agent) is None
    (failed,) = get_consolidation(agent, ann).failed
    assert (failed.begin, failed.attempts) == (2, 1)
    now = clock.now()
    for seconds in consolidation.RETRIES:
        now += timedelta(seconds=seconds + 1)
        with time_machine.travel(now):
            consolidations.consolidate_exchange(
                must(agent), Model(ModelError("timeout"))
            )
    (failed,) = get_consolidation(agent, ann).failed
    assert (failed.attempts, failed.retry_at) == (4, None)
    with time_machine.travel(now + timedelta(days=9)):
        assert find_due(agent) is None


def test_successful_retry_ends_the_failure(agent: Agent, ann: Subject) -> None:
    consolidations.consolidate_exchange(must(agent), Model(ModelError("timeout")))
    with time_machine.travel(clock.now() + timedelta(seconds=61)):
        one, other = must(agent), must(agent)
        assert one.attempts == 1
        consolidations.consolidate_exchange(one, Model([HOME]))
        assert consolidations.consolidate_exchange(other, Model([HOME])) is None
    assert get_consolidation(agent, ann) == ConsolidationState(to=3, skipped=((0, 2),))
    assert list_values(ann) == ["Bergen"]


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
def test_consolidation_of_a_message_erased_meanwhile_is_discarded(
    agent: Agent, ann: Subject, what: str
) -> None:
    """Discard the model's answer about a message that is gone by then."""
    thread = get_thread(agent, "visit")

    def erase_and_ask() -> list[Any]:
        ERASURES[what](ann, thread)
        return [HOME]

    found = must(agent)
    assert consolidations.consolidate_exchange(found, Model(erase_and_ask)) is None
    assert notes(ann) == []
    assert list_values(ann) == []


def test_consolidation_of_a_subject_erased_meanwhile_is_discarded(
    agent: Agent, ann: Subject
) -> None:
    def erase_and_ask() -> list[Any]:
        forgetting.forget(ann, until="fenced")
        return [HOME]

    assert (
        consolidations.consolidate_exchange(must(agent), Model(erase_and_ask)) is None
    )
    assert notes(ann) == []


def test_consolidation_of_a_subject_restricted_meanwhile_is_refused(
    agent: Agent, ann: Subject
) -> None:
    """Refuse even a consolidation that is in flight."""

    def restricted() -> list[Any]:
        restrictions.restrict_subject(
            ann.id, basis="accuracy_contested", actor="command"
        )
        return [HOME]

    with pytest.raises(SubjectRestrictedError):
        consolidations.consolidate_exchange(must(agent), Model(restricted))
    assert notes(ann) == []


def test_erased_fact_alone_is_left_out_of_a_consolidation(
    agent: Agent, ann: Subject
) -> None:
    consolidations.consolidate_exchange(must(agent), Model([HOME]))
    home = find_home(ann)
    assert home is not None
    seq = Event.objects.get(thread=home, type="fact.asserted").seq
    forgetting.forget(ann, "record", until="tombstoned", thread=home, seq=seq)
    receipt = consolidations.consolidate_exchange(must(agent), Model([HOME, SHOE]))
    assert receipt is not None
    assert receipt.get_event(ExchangeConsolidated).dropped == 1
    assert list_values(ann) == ["42"]


def test_consolidation_without_room_for_facts_is_given_up(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_ASSERTIONS", 1)
    receipt = consolidations.consolidate_exchange(must(agent), Model([HOME, SHOE]))
    assert receipt is not None
    told = receipt.get_event(ExchangeConsolidated)
    assert (told.failed, told.retry_at, told.learnt) == ("full", None, 0)
    assert must(agent).episode.input.index == 1


def test_consolidation_state_survives_a_snapshot(agent: Agent, ann: Subject) -> None:
    consolidations.consolidate_exchange(must(agent), Model(ModelError("timeout")))
    home = find_home(ann)
    assert home is not None
    state = journal.fold_thread(home, home.head_seq).state
    plain = json.loads(json.dumps(state_json.to_json(state), default=str))
    assert state_json.from_json(plain).knowledge == state.knowledge


def test_model_is_given_every_message_of_the_exchange(agent: Agent) -> None:
    make_thread(agent, "talk", user_id="ann")
    call = {"id": "c1", "function": {"name": "seats", "arguments": '{"row":12}'}}
    looks = {**assistant("Let me look."), "tool_calls": [call]}
    Talks(agent).say("talk", user("Is 12A free?"), looks, assistant("Yes, it is."))
    run(threads.close(agent=agent, thread="talk", reason="completed"))
    model = Model([])
    consolidations.consolidate_exchange(must(agent, "talk"), model)
    lines = model.questions[0][1]["content"].splitlines()
    given = [line for line in lines if line.startswith("| ")]
    assert given[0] == "| user: Is 12A free?"
    assert given[1].startswith("| assistant: Let me look.")
    assert any("seats" in line for line in given)
    assert given[-1] == "| assistant: Yes, it is."


def test_imported_exchange_is_not_consolidated_again(
    agent: Agent, ann: Subject, zeta: Project, stranger: Agent
) -> None:
    """Import learnt facts, and failures with their due times, and go on."""
    model = Model([HOME], "I can't.", "Sorry.")
    for _ in range(2):
        consolidations.consolidate_exchange(must(agent), model)
    bundled.take(bundled.export(ann), zeta)
    there = subjects.find_or_create(zeta.id, "ann")
    assert list_values(there) == ["Bergen"]
    assert len(notes(there)) == 2
    assert get_consolidation(stranger, there) == get_consolidation(agent, ann)
    assert must(stranger).episode.input.index == 0
    asked = Model([SHOE], [HOME])
    consolidations.consolidate_exchange(must(stranger), asked)
    assert find_due(stranger) is None
    assert "Bye." in asked.questions[0][1]["content"]
    with time_machine.travel(clock.now() + timedelta(seconds=61)):
        consolidations.consolidate_exchange(must(stranger), asked)
        assert find_due(stranger) is None
    assert "I wear 42." in asked.questions[1][1]["content"]
    assert (list_values(there), list_values(ann)) == (["42", "Bergen"], ["Bergen"])


def test_equal_exchanges_ask_the_model_once(agent: Agent, ann: Subject) -> None:
    """Learn the same of equal exchanges; the facts outlast the asked exchange."""
    make_thread(agent, "again", user_id="ann")
    append(agent, "again", "I moved to Bergen.", "I moved to Bergen!")
    run(threads.close(agent=agent, thread="again", reason="completed"))
    home = HOME | {"valid_from": "2020-05-01T00:00:00Z"}
    model = Model([home, SHOE])
    consolidations.consolidate_exchange(must(agent), model)
    consolidations.consolidate_exchange(must(agent, "again"), other := Model([]))
    receipt = consolidations.consolidate_exchange(must(agent, "again"), other)
    assert receipt is not None
    made = receipt.get_event(ExchangeConsolidated)
    assert (made.learnt, made.tokens_in, made.host) == (2, 0, None)
    assert (len(model.questions), len(other.questions)) == (1, 1)
    before = {fact.value: fact.valid_from for fact in every(ann)}
    forgetting.forget(
        ann, "thread", until="tombstoned", thread=get_thread(agent, "visit")
    )
    after = {fact.value: fact.valid_from for fact in every(ann)}
    assert after.keys() == before.keys() == {"Bergen", "42"}
    assert after["Bergen"] == before["Bergen"]
