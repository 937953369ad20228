"""Long-term memory as it is loaded: what the lists say, and how much there is."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.text import names
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.people import long_term, profiles
from memoryhub.queries.people.long_term import LongTermMemory
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks as writing
from memoryhub.services.people import subjects
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, configure, end, every, retract, say, to_day, write
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db
NOW = to_day(1000)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    found = forgetting.get_subject(agent, "ann")
    return profiles.get_subject(agent.project, found.id)


def load(subject: Subject) -> LongTermMemory:
    return long_term.get_memory(subject, now=NOW)


def get_counts(subject: Subject) -> dict[str, int]:
    """Return the counts, which memory and profile must agree about."""
    profile = profiles.get_profile(subject, now=NOW)
    found = {name: getattr(profile, name) for name in ("blocks", "facts", "episodes")}
    found["assertions"] = profile.counts["assertions"]
    assert load(subject).counts == found
    return found


def test_long_term_counts_have_no_cap(agent: Agent, ann: Subject) -> None:
    """Erased and deleted records are not counted."""
    for first in (0, 130):
        days = range(first, first + 130)
        say(agent, ann, *[claim("x", n, predicate=f"p {n}") for n in days])
    later = say(agent, ann, claim("y", 300, predicate="p 7")).seq
    end(agent, ann, later, 400)
    for n in range(60):
        write(agent, ann, f"b-{n}", f"Number {n}, which is no secret.")
    home = factories.get_thread(agent, names.build_home_name(ann.id))
    act(agent, AppendSlots(slots=(factories.make_slot(),) * 230), "visit")
    # The value that "y" replaced holds again once "y" has ended.
    full = {"blocks": 60, "facts": 260, "episodes": 230, "assertions": 262}
    assert get_counts(ann) == full
    found = load(ann).parts
    assert {name: len(part) for name, part in found.items()} == {
        "blocks": 60,
        "facts": long_term.FACTS,
        "episodes": long_term.EPISODES,
    }
    factories.run(writing.delete_block(agent=agent, subject=ann, block="b-7"))
    seq = found["facts"][-1].id
    forgetting.forget(ann, "record", until="tombstoned", thread=home, seq=seq)
    assert get_counts(ann) == {**full, "blocks": 59, "facts": 259, "assertions": 261}


@pytest.mark.parametrize("seed", range(3))
def test_memory_equals_its_lists(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The newest facts that hold are listed; of one instant, those asserted last."""
    monkeypatch.setattr(long_term, "FACTS", 5)
    chance = Random(seed)
    for _ in range(20):
        drafts = [
            claim(
                chance.choice("abc"),
                chance.choice((0, 1, 2, 1001)),
                chance.choice((None, None, None, 1005)),
                predicate=f"p {chance.randrange(15)}",
            )
            for _ in range(3)
        ]
        last = say(agent, ann, *drafts).seq
        if chance.random() < 0.3:
            retract(agent, ann, last, whole=False)
    configure(agent, ann, "multi", "p 3")
    for n in range(1 + chance.randrange(3)):
        write(agent, ann, f"b-{n % 2}", f"text {n}")
    home = factories.get_thread(agent, names.build_home_name(ann.id))
    found, listed = load(ann), every(ann, valid_at=NOW)
    newest = sorted(listed, key=lambda fact: (fact.valid_from, fact.id), reverse=True)
    assert len(newest) > long_term.FACTS
    assert list(found.parts["facts"]) == newest[: long_term.FACTS]
    assert found.parts["blocks"] == blocks.list_blocks(home)
    assert get_counts(ann)["facts"] == len(listed)


def test_memory_of_a_subject_without_facts_is_empty(agent: Agent, ann: Subject) -> None:
    factories.append(agent, "anonymous", "hello")
    nobody = subjects.get_anonymous(agent.project)
    nobody = profiles.get_subject(agent.project, nobody.id)
    found = load(nobody)
    assert (found.parts["blocks"], found.parts["facts"]) == ((), ())
    assert get_counts(nobody) == dict.fromkeys(long_term.COUNTED, 0) | {"episodes": 1}
    assert set(get_counts(ann).values()) == {0}


@pytest.mark.parametrize("number", [1, 25])
def test_long_term_memory_costs_a_constant_number_of_queries(
    agent: Agent, ann: Subject, number: int, django_assert_num_queries: Any
) -> None:
    say(agent, ann, *[claim("x", n, predicate=f"p {n}") for n in range(number)])
    for n in range(number):
        write(agent, ann, f"b-{n}", "text")
    factories.append(agent, "visit", *["hello"] * number)
    load(ann)
    with django_assert_num_queries(15):
        load(ann)
    with django_assert_num_queries(15):
        profiles.get_profile(ann, now=NOW)
