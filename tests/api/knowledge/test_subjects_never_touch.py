"""Isolation of three people: an act on one changes no byte of the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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

from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_counts
from memoryhub.services.access import projects
from memoryhub.services.knowledge import consolidations
from memoryhub.services.people import subjects
from tests.api.client import Answer, Client, run
from tests.api.remembering import Hands, still
from tests.api.somebodys import (
    FACT,
    LISTS,
    NAMING,
    OPERATIONS,
    OTHERWISE,
    READS,
    WRITES,
)
from tests.cast import bundled, factories, forgetting
from tests.services.knowledge.test_consolidations import Model

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

#: Of a thread: a life begins with these.
FIRST = (
    "put ",
    "post /slots",
    "put /pages/{page_id}",
    "put /keys/{key}",
    "put /task",
    "post /notes",
    "post /checkpoints",
    "post /turns",
    "post /facts",
    "put /blocks/{block}",
)
#: Refused where no model is configured, as here.
WITHOUT_MODEL = "post /subjects/{subject}/episodes:consolidate"
#: Tells when it was asked.
NOW = {"at", "idle_seconds", "request_id"}
NAMES = {
    "page_id": "page",
    "key": "seat",
    "namespace": "trips",
    "checkpoint": "tea",
    "index": 0,
    "turn": 1,
}

NUMBERS = count()
#: Few, so that all of them say the same.
WORDS = st.sampled_from(["tea", "rye", "jazz", "Bergen"])
NAMED = st.sampled_from(["ann", "bob"])
ANYONE = st.sampled_from(["ann", "bob", "nobody"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    name: str
    subject: Subject
    #: By whether its scopes are of people: the key bound to them, if they are named.
    keys: dict[bool, Client]


class Lives(RuleBasedStateMachine):
    """Two people and the anonymous one of a project, who say and hear the same."""

    hands: Hands
    gone: str = ""

    @initialize()
    def begin(self) -> None:
        self.project = factories.make_project(f"p-{next(NUMBERS)}")
        projects.set_consolidation(self.project, auto=True)
        self.keys, self.people = self.make_keys(), dict[str, Person]()
        for name in ("ann", "bob", "nobody"):
            self.people[name] = self.meet(name)
        #: Of those whom nothing was done to since.
        self.known = dict[str, dict[str, object]]()

    def make_keys(self, subject: Subject | None = None) -> dict[bool, Client]:
        return {
            of_people: Client(
                key=factories.make_key(self.project, scopes=scopes, subject=subject)[1]
            )
            for of_people, scopes in ((False, MEMORY_SCOPES), (True, SUBJECT_SCOPES))
        }

    def meet(self, name: str) -> Person:
        if name == "nobody":
            subject, keys = subjects.get_anonymous(self.project.id), self.keys
        else:
            subject = subjects.find_or_create(self.project.id, name)
            keys = self.make_keys(subject)
        person = Person(name=name, subject=subject, keys=keys)
        for label in FIRST:
            where = label.replace(" ", " /threads/{thread}")
            assert self.ask(person, where, WRITES[where]).status < 300, where
        return person

    def ask(
        self,
        person: Person,
        label: str,
        body: Any,
        *,
        word: str = "tea",
        bound: bool = True,
    ) -> Answer:
        """Send a request by the person's own key, or by one that may see everybody."""
        far = not bound and person.name != "nobody"
        before = f"{person.subject.id}:" if far else ""
        facts = Event.objects.filter(
            thread__subject=person.subject, type="fact.asserted"
        )
        method, _, path = label.partition(" ")
        if path.endswith(":compare"):
            path += "?a={checkpoint}"
        target = path.format(
            thread=f"{before}t-1",
            subject=person.subject.id,
            fact=facts.order_by("seq").values_list("seq", flat=True).last() or 1,
            # Where one was deleted, there is none of its name again.
            block="persona" if "{thread}" in path else "manner",
            **NAMES,
        )
        text = json.dumps(body).replace("{w}", word).replace("{me}", person.name)
        keys = self.keys if far else person.keys
        client = keys[OPERATIONS[label]["x-scope"].startswith("subject:")]
        sent = json.loads(text.replace("{p}", before))
        return run(client.send(method.upper(), target, sent))

    def everything(self, name: str) -> dict[str, object]:
        """Return rows, answers of each reading route, scores, and the export."""
        person = self.people[name]
        told: dict[str, object] = {
            place.name: sorted(
                map(repr, place.filter_rows(subject=person.subject.id).values_list())
            )
            for place in erasure_counts.iter_places()
        }
        for label, body in (READS if name == "nobody" else READS | LISTS).items():
            answer = self.ask(person, label, body)
            assert answer.status != 422, (label, answer.body)
            told[label] = (
                answer.status,
                json.dumps(
                    {key: each for key, each in answer.json.items() if key not in NOW}
                ),
            )
        answer = self.ask(person, "post /subjects/{subject}/export", {})
        assert answer.status in (200, 410), answer.body
        if answer.status == 200:
            bundle = bundled.open_bundle(answer.body)
            # These tell which export it is, and when it was.
            files = {*bundle.namelist()} - {"manifest.json", "README.md"}
            told |= {each: bundle.read(each) for each in files}
        return told

    @contextmanager
    def assert_others_unchanged(self, name: str) -> Iterator[Person]:
        """Let one person be changed, and assert that nothing of the others changes."""
        others = self.people.keys() - {name}
        for other in others - self.known.keys():
            self.known[other] = self.everything(other)
        self.hands.shift(1)
        self.known.pop(name, None)
        yield self.people[name]
        for other in others:
            now, before = self.everything(other), self.known[other]
            every = now.keys() | before.keys()
            assert [each for each in every if now.get(each) != before.get(each)] == []

    @rule(
        name=ANYONE,
        labels=st.lists(st.sampled_from([*WRITES]), min_size=1, max_size=9),
        word=WORDS,
        bound=st.booleans(),
    )
    def touch(self, name: str, labels: list[str], word: str, *, bound: bool) -> None:
        with self.assert_others_unchanged(name) as person:
            for label in labels:
                self.ask(person, label, WRITES[label], word=word, bound=bound)

    @rule(name=ANYONE, word=WORDS)
    def consolidate(self, name: str, word: str) -> None:
        with self.assert_others_unchanged(name) as person:
            threads = Thread.objects.filter(
                subject=person.subject, subject__state=Subject.State.ACTIVE
            )
            thread = threads.filter(name__endswith="t-1").first()
            later = clock.now() + timedelta(minutes=11)
            if thread and (due := consolidations.find_due_exchange(thread, now=later)):
                model = Model([{**FACT, "value": word}])
                assert consolidations.consolidate_exchange(due, model) is not None
                heard = json.dumps(model.questions)
                others = self.people.keys() - {name}
                assert not any(other in heard for other in others)

    def erase(self, person: Person, *, confirmed: bool = True, **asked: object) -> bool:
        """Plan, confirm and finish an erasure; return whether it was done."""
        body = {"reason": "test", **asked}
        plan = self.ask(person, "post /subjects/{subject}/erasures", body)
        if plan.status != 201:
            return False
        told, at = plan.json, f"/erasures/{plan.json['id']}"
        officer = person.keys[True]
        if not confirmed:
            assert run(officer.post(f"{at}:cancel", {})).status == 200
            return False
        proof = {name: told[name] for name in ("plan_token", "count")}
        answer = run(officer.post(f"{at}:confirm", proof))
        assert answer.status < 300, answer.body
        done = forgetting.finish(Erasure.objects.get(id=told["id"]))
        assert done.state == Erasure.State.COMPLETE
        return True

    @rule(name=ANYONE, confirmed=st.booleans())
    def erase_a_message(self, name: str, *, confirmed: bool) -> None:
        with self.assert_others_unchanged(name) as person:
            said = Event.objects.filter(
                thread__subject=person.subject, type="slot.appended", erased_by=None
            )
            if (
                newest := said.filter(thread__name__endswith="t-1")
                .order_by("seq")
                .last()
            ):
                self.erase(
                    person,
                    confirmed=confirmed,
                    scope="record",
                    thread="t-1",
                    record=newest.seq,
                )

    @rule(name=ANYONE, word=WORDS)
    def erase_a_fork(self, name: str, word: str) -> None:
        with self.assert_others_unchanged(name) as person:
            self.erase(person, scope="thread", thread=word)

    @precondition(lambda self: not self.gone)
    @rule(name=NAMED)
    def forget(self, name: str) -> None:
        """Forget all of one person, and of that one alone."""
        with self.assert_others_unchanged(name) as person:
            if self.erase(person, scope="subject"):
                self.gone = name

    @precondition(lambda self: self.gone)
    @rule()
    def readmit(self) -> None:
        """Readmit the erased person, who becomes another subject."""
        name, self.gone = self.gone, ""
        with self.assert_others_unchanged(name):
            answer = run(self.keys[True].post("/subjects:readmit", {"user_id": name}))
            assert answer.status == 201, answer.body
            self.people[name] = self.meet(name)


@pytest.fixture(autouse=True)
def hands(settings: Any) -> Iterator[None]:
    settings.EXPORTS_PER_DAY = 10_000
    with still() as Lives.hands:
        yield


def test_every_subject_route_is_covered() -> None:
    assert sorted([*WRITES, *READS, *OTHERWISE]) == sorted(NAMING)


def test_each_route_changes_one_subject_only() -> None:
    lives = Lives()
    lives.begin()
    for name in lives.people:
        with lives.assert_others_unchanged(name) as person:
            for label, body in WRITES.items():
                answer = lives.ask(person, label, body, word="rye")
                refused = answer.status == 409 and label == WITHOUT_MODEL
                assert answer.status < 300 or refused, (label, answer.body)


def test_random_acts_on_one_subject_never_change_another() -> None:
    run_state_machine_as_test(
        Lives,
        settings=hypothesis.settings(
            max_examples=3, stateful_step_count=6, phases=[Phase.generate]
        ),
    )
