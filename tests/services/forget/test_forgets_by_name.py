"""Known faults of other memories when they forget a subject: one test for each.

The design lists these faults; each test has a twin whose memory must stay.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps

from memoryhub import journal
from memoryhub.errors import NotFoundError, Refusal, SubjectErasedError
from memoryhub.errors import ThreadErasedError as GoneError
from memoryhub.journal import Order
from memoryhub.kernel.commands import CloseThread
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_counts
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, get_thread, make_agent, make_page
from tests.cast.forgetting import (
    confirm,
    finish,
    forget,
    get_subject,
    list_records,
    make_person,
    plan,
)
from tests.oracles.memory_acts import add_notes, set_key, take
from tests.oracles.page_acts import act, new_text
from tests.services.acts import fork

pytestmark = pytest.mark.django_db(transaction=True)

SCOPES = ("subject", "thread", "before", "record")
STEPS = 30
TEXTS = (
    "She lives at 14 Rue des Lilas in Lyon.",
    "She lives at 3 Rue de la Paix in Paris.",
    "She lives at 9 Grand'Rue in Geneva.",
)


def build_target(agent: Agent, scope: str, name: str = "ann-1") -> dict[str, Any]:
    thread = get_thread(agent, name)
    sealed = Event.objects.filter(thread=thread, payload__isnull=False)
    wanted: dict[str, dict[str, Any]] = {
        "subject": {},
        "thread": {"thread": thread},
        "before": {"before": clock.now()},
        "record": {"thread": thread, "seq": sealed.latest("seq").seq},
    }
    return wanted[scope]


@pytest.mark.parametrize("scope", SCOPES)
def test_erasure_of_one_subject_leaves_others_alone(
    agent: Agent, zeta: Project, scope: str
) -> None:
    """Keep other subjects of the project, and a namesake in another project."""
    ann = make_person(agent, "ann", threads=2)
    append(agent, "nobody", "What is about nobody.")
    namesake = make_person(make_agent(zeta), "ann")
    others = [
        make_person(agent, "bob"),
        namesake,
        Subject.objects.get(id=agent.anonymous),
    ]
    before = [list_records(each) for each in others]
    row = forget(ann, scope, **build_target(agent, scope))
    assert row.erased
    assert [list_records(each) for each in others] == before
    assert erasure_counts.count_subject(ann.id) != before[0][1]


def test_late_writer_is_refused_after_the_fence(agent: Agent) -> None:
    """Refuse a worker that read the subject before the fence and writes after it."""
    ann, bob = make_person(agent, "ann"), make_person(agent, "bob")
    late = {
        each.id: Order(
            address=agent.address(name),
            command=CloseThread(),
            actor="worker:observer",
            epoch=each.epoch,
        )
        for each, name in ((ann, "ann-1"), (bob, "bob-1"))
    }
    row = confirm(plan(ann))
    with pytest.raises(SubjectErasedError):
        journal.perform(late[ann.id])
    finish(row)
    with pytest.raises((SubjectErasedError, GoneError, NotFoundError)):
        journal.perform(late[ann.id])
    assert not any(erasure_counts.count_subject(ann.id).values())
    journal.perform(late[bob.id])


def write_versions(agent: Agent, thread: str) -> None:
    """Write a page, a key, a note and checkpoints, in versions with other texts."""
    make_page(agent, "home", thread=thread, text=TEXTS[0])
    set_key(agent, "home", TEXTS[0], thread=thread)
    for text in TEXTS[1:]:
        take(agent, thread=thread)
        act(agent, new_text("home", text), thread)
        set_key(agent, "home", text, thread=thread)
    add_notes(agent, TEXTS[0], thread=thread)


@pytest.mark.parametrize("scope", ["subject", "thread", "before"])
def test_superseded_versions_are_erased_too(agent: Agent, scope: str) -> None:
    """Erase versions of pages and keys, with the levels and states that held them."""
    ann, _ = make_person(agent, "ann"), make_person(agent, "bob")
    for name in ("ann-1", "bob-1"):
        write_versions(agent, name)
    sealed = {
        name: Event.objects.filter(thread__name=name, payload__isnull=False).count()
        for name in ("ann-1", "bob-1")
    }
    assert sealed["ann-1"] == sealed["bob-1"] > 2 * len(TEXTS)
    thread = get_thread(agent, "ann-1")
    finish(forget(ann, scope, **build_target(agent, scope)))
    left = Event.objects.filter(thread=thread, payload__isnull=False)
    assert left.count() == 0
    # Forked and folded states were made anew without the erased texts.
    assert verify(Thread.objects.get(id=thread.id)) is None
    counts = erasure_counts.count_subject(ann.id)
    # A page whose texts alone are erased keeps its row.
    assert [counts[place] for place in ("page_levels", "keys")] == [0, 0]
    rows = Event.objects.filter(thread__name="bob-1", payload__isnull=False)
    assert rows.count() == sealed["bob-1"]


def stands_in(text: str) -> set[str]:
    """Return the tables of which a row holds the text in the clear."""
    found = set()
    for model in apps.get_app_config("memoryhub").get_models():
        # Managers ask the router, since some tables are in the database of keys.
        rows = model._default_manager.values_list()
        if any(text in str(value) for row in rows for value in row):
            found.add(model._meta.db_table)
    return found


@pytest.mark.parametrize("scope", ["subject", "thread"])
def test_journal_keeps_no_erased_text(agent: Agent, scope: str) -> None:
    """Erase client-given names too, which journals and lists have in the clear."""
    words = {name: secrets.token_hex(12) for name in ("ann", "bob")}
    for name, word in words.items():
        make_person(agent, name)
        thread = f"{name}-1"
        make_page(agent, f"page-{word}", thread=thread, text=f"She said {word}.")
        set_key(agent, f"key-{word}", word, thread=thread)
        act(agent, new_text(f"page-{word}", f"Or was it {word}?"), thread)
        append(agent, thread, word)
        if scope == "subject":
            fork(agent, thread, f"fork-{word}")
    assert "memoryhub_event" in stands_in(words["ann"])
    before = stands_in(words["bob"])
    row = finish(forget(get_subject(agent, "ann"), scope, **build_target(agent, scope)))
    assert row.state == "complete"
    assert stands_in(words["ann"]) == set()
    assert stands_in(words["bob"]) == before


# Random erasures


class Life:
    """Threads of one subject in which a seed chooses writes and erasures."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent, self.chance, self.count = agent, random.Random(seed), 0
        self.acts: dict[Callable[[str], object], int] = {
            self.say: 4,
            self.make: 3,
            self.change: 2,
            self.fork: 2,
            self.remember: 2,
            self.forget_record: 3,
            self.forget_thread: 1,
            self.forget_before: 1,
        }

    def step(self) -> str:
        """Do one random act in a thread that is left, and return the act's name."""
        living = Thread.objects.exclude(status=Thread.Status.ERASED)
        names = sorted(living.values_list("name", flat=True))
        thread = self.chance.choice([n for n in names if n.startswith("ann")] or [""])
        self.count += 1
        (do,) = self.chance.choices([*self.acts], [*self.acts.values()])
        try:
            do(thread or self.make_person_thread())
        except Refusal:
            return "refused"
        return do.__name__

    def make_person_thread(self) -> str:
        make_person(self.agent, "ann")
        return "ann-1"

    def say(self, thread: str) -> None:
        append(self.agent, thread, f"Message {self.count}.")

    def make(self, thread: str) -> None:
        make_page(self.agent, f"p{self.count}", thread=thread, text=self.build_text())

    def change(self, thread: str) -> None:
        act(self.agent, new_text("rules", self.build_text()), thread)

    def fork(self, thread: str) -> None:
        fork(self.agent, thread, f"ann-f{self.count}")

    def remember(self, thread: str) -> None:
        set_key(self.agent, f"k{self.count % 3}", self.build_text(), thread=thread)
        add_notes(self.agent, f"Note {self.count}.", thread=thread)

    def build_text(self) -> str:
        return f"The text of step {self.count}."

    def forget_record(self, thread: str) -> None:
        self.forgotten("record", thread)

    def forget_thread(self, thread: str) -> None:
        self.forgotten("thread", thread)

    def forget_before(self, thread: str) -> None:
        self.forgotten("before", thread)

    def forgotten(self, scope: str, thread: str) -> None:
        found = get_subject(self.agent, "ann")
        rows = Event.objects.filter(thread__name=thread, payload__isnull=False)
        seqs = [*rows.values_list("seq", flat=True)]
        if seqs:
            more = build_target(self.agent, scope, thread)
            more |= {"seq": self.chance.choice(seqs)} if scope == "record" else {}
            forget(found, scope, **more)


@pytest.mark.parametrize(
    "seed",
    [2, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (0, 1))],
)
def test_chains_verify_after_random_erasures(agent: Agent, seed: int) -> None:
    """Verify every thread after each act: names, forks and folded states included."""
    make_person(agent, "bob")
    make_person(agent, "ann", threads=2)
    life, done = Life(agent, seed), set[str]()
    before = list_records(get_subject(agent, "bob"))
    for _ in range(STEPS):
        done.add(life.step())
        for thread in Thread.objects.all():
            assert verify(thread) is None, (thread.name, done)
    assert {"forget_record", "forget_thread"} & done
    forget(get_subject(agent, "ann"))
    for thread in Thread.objects.all():
        assert verify(thread) is None
        assert thread.name.startswith("bob") or thread.name.startswith("~")
    assert list_records(get_subject(agent, "bob")) == before
