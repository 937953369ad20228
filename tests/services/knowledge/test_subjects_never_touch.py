"""Of three people, what is done to one changes nothing of the others, to the byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import hypothesis
import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget import erasure_counts
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.search import searching
from memoryhub.queries.search.searching import SearchRequest
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import consolidations
from memoryhub.services.people import subjects
from tests.cast import bundled, factories, forgetting
from tests.cast.factories import append, get_thread, make_thread
from tests.cast.knowing import claim, day, every, retract, say, write
from tests.services.knowledge.test_consolidations import Model

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

NUMBERS = count()
#: Few, so that all of them say the same.
WORDS = st.sampled_from(["tea", "rye", "jazz", "Bergen"])
NAMED = st.sampled_from(["ann", "bob"])
ANYONE = st.sampled_from(["ann", "bob", "nobody"])


class Lives(RuleBasedStateMachine):
    """Two people and the anonymous one of a project, who say and hear the same."""

    agent: Agent
    gone: str

    @initialize()
    def begin(self) -> None:
        project = factories.make_project(f"p-{next(NUMBERS)}")
        self.agent, self.gone = factories.make_agent(project), ""
        for name in ("ann", "bob"):
            make_thread(self.agent, name, user_id=name)
        make_thread(self.agent, "nobody")
        for name in ("ann", "bob", "nobody"):
            append(self.agent, name, f"I like tea, says {name}.")
        self.people = {name: forgetting.of(self.agent, name) for name in ("ann", "bob")}
        self.people["nobody"] = subjects.anonymous(project.id)
        self.known = {name: self.everything(name) for name in self.people}

    def everything(self, name: str) -> dict[str, Any]:
        """Rows, facts, what recall finds and by which scores, and the export."""
        subject = Subject.objects.select_related("project").get(id=self.people[name].id)
        rows = {
            place.name: sorted(map(repr, place.of(subject=subject.id).values_list()))
            for place in erasure_counts.iter_places()
        }
        told: dict[str, Any] = {"rows": rows}
        if name == self.gone:
            return told
        told["facts"] = every(subject, ended=True)
        request = SearchRequest.parse("tea rye jazz Bergen likes town", limit=50)
        asked = replace(request, where=FactFilter(valid_at=day(1000), ended=True))
        told["recalled"] = searching.recall(subject, asked)
        if name != "nobody":
            bundle = bundled.opened(bundled.export(subject))
            files = {*bundle.namelist()} - {"manifest.json", "README.md"}
            told["export"] = {each: bundle.read(each) for each in files}
        return told

    @contextmanager
    def alone(self, name: str) -> Iterator[Subject]:
        """What happens here, happens to one."""
        yield Subject.objects.get(id=self.people[name].id)
        for other in self.people.keys() - {name}:
            assert self.everything(other) == self.known[other], (name, other)
        self.known[name] = self.everything(name)

    @rule(name=ANYONE, word=WORDS)
    def speak(self, name: str, word: str) -> None:
        if name != self.gone:
            with self.alone(name):
                append(self.agent, name, f"I like {word}, says {name}.")

    @rule(name=NAMED, word=WORDS, begins=st.integers(0, 9), likes=st.booleans())
    def claim(self, name: str, word: str, begins: int, *, likes: bool) -> None:
        if name != self.gone:
            with self.alone(name) as subject:
                predicate = "likes" if likes else "town"
                say(self.agent, subject, claim(word, begins, predicate=predicate))

    @rule(name=NAMED, number=st.integers(0, 9), wrong=st.booleans())
    def retract(self, name: str, number: int, *, wrong: bool) -> None:
        if name == self.gone or not (found := every(self.people[name])):
            return
        with self.alone(name) as subject:
            fact = found[number % len(found)].id
            retract(self.agent, subject, fact, "wrong" if wrong else "withdrawn")

    @rule(name=NAMED, word=WORDS)
    def write(self, name: str, word: str) -> None:
        if name != self.gone:
            with self.alone(name) as subject:
                write(self.agent, subject, "persona", f"Likes {word}.")

    @rule(name=NAMED, word=WORDS)
    def consolidate(self, name: str, word: str) -> None:
        if name == self.gone:
            return
        learnt = [{"entity": "user", "predicate": "likes", "value": word}]
        with self.alone(name):
            thread = get_thread(self.agent, name)
            later = clock.now() + timedelta(minutes=11)
            due = consolidations.find_due(thread, now=later)
            if due is not None:
                model = Model(learnt)
                done = consolidations.consolidate(due, model)
                assert done is not None
                heard = json.dumps(model.questions)
                others = self.people.keys() - {name}
                assert not any(other in heard for other in others)

    @rule(name=NAMED)
    def erase(self, name: str) -> None:
        """One message of one."""
        if name == self.gone:
            return
        thread = get_thread(self.agent, name)
        left = Event.objects.filter(thread=thread, type="slot.appended", erased_by=None)
        if newest := left.order_by("seq").last():
            with self.alone(name) as subject:
                forgetting.forget(subject, "record", thread=thread, seq=newest.seq)

    @precondition(lambda self: not self.gone)
    @rule(name=NAMED)
    def forget(self, name: str) -> None:
        """All of one, and of one alone."""
        with self.alone(name) as subject:
            forgetting.forget(subject)
            self.gone = name


def test_subjects_never_touch(settings: Any) -> None:
    settings.EXPORTS_PER_DAY = 10_000
    run_state_machine_as_test(
        Lives,
        settings=hypothesis.settings(
            max_examples=5, stateful_step_count=15, phases=[Phase.generate]
        ),
    )
