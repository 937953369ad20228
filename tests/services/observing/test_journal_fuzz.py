"""Fuzz of observing through the services: what is stored must equal the oracle.

The oracle of the kernel's fuzz is fed with the events of the journals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from memoryhub.errors import Refusal
from memoryhub.errors.trouble import ModelError
from memoryhub.journal.log import log
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.observing.lines import make_line
from memoryhub.kernel.observing.observing import PauseObserver, ResumeObserver
from memoryhub.kernel.state.page_events import TurnBegan
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import asking, observers
from memoryhub.services.observing.asking import ObserverRequest
from memoryhub.services.observing.observers import ObservationDraft
from memoryhub.services.threads import slots
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import BegunTurn, NewTurn
from tests.cast.erasings import close_erasure, sound
from tests.cast.factories import get_thread, make_slot, make_thread, run
from tests.cast.forgetting import forget
from tests.oracles.observing import Standing
from tests.services import acts
from tests.services.acts import state_of
from tests.services.observing.test_asking import Said
from tests.services.observing.test_extraction import request_of, told
from tests.services.observing.test_provenance import check_provenance

pytestmark = pytest.mark.django_db

#: The number of seeds for each day, and of all seeds.
QUICK, SEEDS = 2, 40
STEPS, THREADS = 80, 3


class Followed:
    """A thread as it is stored, beside the oracle for its slots."""

    def __init__(self, agent: Agent, name: str, standing: Standing) -> None:
        self.agent, self.name, self.standing = agent, name, standing
        #: The oracle's state by event, as of after the event.
        self.history = {1: standing.copy()}
        #: Due work that workers have found, and have asked no model about yet.
        self.due = list[ObserverRequest]()
        self.read(1)

    @property
    def row(self) -> Thread:
        return get_thread(self.agent, self.name)

    def read(self, seq: int) -> None:
        self.state = state_of(self.row, seq)
        self.live = {entry.page_id for entry in pages.iter_entries(self.state)}

    def follow(self) -> None:
        """Feed new events to the oracle, and check the state."""
        before, were, lost = self.state, self.live, set[str]()
        self.read(self.row.head_seq)
        inherited = self.state.clock - self.state.seq
        for row in self.row.events.filter(seq__gt=before.seq).order_by("seq"):
            event: Any = log.to_recorded(row).event
            if event.event_type == "records.erased":
                lost |= self._list_named(event)
                self.standing.lose(lost)
            self.standing.take(event, inherited + row.seq, self.state, self.live)
        # Everything that was made of erased slots is gone.
        gone = {int(each[5:]) for each in were - self.live if each[:5] == "slot-"}
        wanted = self.standing.made_with(self.standing.made_of(gone) | lost)
        assert wanted & were <= lost
        self.standing.check(self.state, before.observing, self.live)
        self.history[self.state.seq] = self.standing.copy()

    def _list_named(self, event: Any) -> set[str]:
        """Return the observations that an erasure names."""
        return {
            name
            for name, n in self.standing.clocks.items()
            for home, seq in [self.state.locate_event(n)]
            if any(home == at and a <= seq <= b for at, a, b in event.ranges)
        }


class Life:
    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent, self.chance = agent, Random(seed)
        self.usable = self.chance.choice([2_000, 4_000, 8_000])
        self.config: dict[str, Any] = {
            "observe": True,
            "budget_tokens": self.usable + 800,
            "reserved_tokens": 800,
            "observe_keep_tokens": max(300, self.usable // self.chance.choice([4, 8])),
        }
        make_thread(agent, "t-0", **self.config)
        self.threads = [Followed(agent, "t-0", Standing())]
        self.words, self.late = 0, timedelta()

    def step(self) -> None:
        self.at = self.chance.choice(self.threads)
        # A failed observer waits for minutes.
        self.late += timedelta(seconds=self.chance.choice([1, 60, 600]))
        steps: dict[Callable[[], None], int] = {
            self.append: 20,
            self.take_turn: 14,
            self.find: 12,
            self.finish: 12,
            self.race: 6,
            self.run: 6,
            self.create: 3,
            self.activate: 3,
            self.reflect: 4,
            self.pause: 1 + 6 * self.at.state.observing.paused,
            self.instruct: 2,
            self.fork: 2,
            self.erase: 4,
            self.amend: 3,
        }
        (chosen,) = self.chance.choices([*steps], weights=[*steps.values()])
        try:
            chosen()
        except Refusal:
            assert self.head == self.at.state.seq
        for each in self.threads:
            if each.row.head_seq != each.state.seq:
                each.follow()

    @property
    def head(self) -> int:
        return self.at.row.head_seq

    @property
    def where(self) -> dict[str, Any]:
        return {"agent": self.agent, "thread": self.at.name}

    # Steps

    def pick_slots(self, most: int) -> list[NewSlot]:
        found = list[NewSlot]()
        for _ in range(self.chance.randint(0, most)):
            self.words += 1
            text = f"It is word{self.words:04}. "
            text += "And so on. " * self.chance.randint(1, self.usable // 60)
            role = self.chance.choice(["user", "user", "assistant"])
            found.append(build_message(role, text))
            if role == "assistant" and self.chance.random() < 0.3:
                found += calling(self.words, text)
        # A call sometimes lacks its results until the next append.
        return found[: self.chance.randint(len(found) // 2, len(found))]

    def append(self) -> None:
        if new := self.pick_slots(8):
            run(slots.append(**self.where, slots=new))

    def take_turn(self) -> None:
        new = NewTurn(slots=self.pick_slots(4))
        try:
            begun = run(turns.begin_turn(**self.where, new=new))
        except Refusal as refusal:
            raise AssertionError("a turn never fails for an observer") from refusal
        self.at.follow()
        if self.at.state.paging.settings.observe:
            self.check_request(begun)

    def check_request(self, begun: BegunTurn) -> None:
        state, standing = self.at.state, self.at.standing
        logged = {each.page_id for each in state.observing.log}
        stood = {n for n, by in enumerate(standing.by) if by in logged}
        written, _ = request_of(begun)
        assert told(written) == stood
        raw = {f"slot-{n}" for n in {*range(state.slot_count)} - stood}
        left = raw & self.at.live - {*begun.included, *begun.omitted}
        assert not left or begun.receipt.get_event(TurnBegan).over_budget

    def find(self) -> None:
        found = self.find_request()
        self.at.due += [found] if found else []

    def find_request(self) -> ObserverRequest | None:
        window = self.chance.choice([None, 3_000])
        return asking.find_due_request(
            self.at.row, window=window, now=clock.now() + self.late
        )

    def finish(self) -> None:
        if self.at.due:
            due = self.chance.choice(self.at.due)
            if self.chance.random() < 0.7:
                # Otherwise the same work is finished once more.
                self.at.due.remove(due)
            asking.run_request(due, self.answer, host="m.example")

    def race(self) -> None:
        """Let two workers find the same work before either worker writes."""
        one, two = self.find_request(), self.find_request()
        if one is None or two is None or one.role != two.role:
            return
        first = asking.run_request(one, helpful)
        if first is None or first.events[-1].event.event_type == "observer.failed":
            return
        head = self.head
        assert asking.run_request(two, helpful) is None
        assert self.head == head

    def answer(self, messages: Sequence[dict[str, str]]) -> Said:
        kind = self.chance.choice(["good", "good", "good", "none", "empty", "garbage"])
        if kind == "none":
            raise ModelError("unreachable")
        texts = {"empty": '{"lines": []}', "garbage": "I would rather not."}
        return Said(texts[kind]) if kind in texts else helpful(messages)

    def run(self) -> None:
        run(observers.observe_now(**self.where))

    def create(self) -> None:
        """Let an agent observe a range of its choice."""
        observing, end = self.at.state.observing, self.at.state.slot_count
        begin = self.chance.choice([n for n, _ in observing.list_uncovered(end)] or [0])
        end = self.chance.randint(begin, min(end, begin + 12))
        line = make_line("They talked.", first=begin, end=end)
        draft = ObservationDraft(
            begin=begin, end=end, epoch=observing.epoch, lines=[line]
        )
        run(observers.create_observation(**self.where, draft=draft))

    def activate(self) -> None:
        run(observers.activate_observations(**self.where))

    def reflect(self) -> None:
        run(observers.reflect_log(**self.where))

    def pause(self) -> None:
        paused = self.at.state.observing.paused
        command = ResumeObserver() if paused else PauseObserver()
        run(observers.submit_command(**self.where, command=command))

    def instruct(self) -> None:
        text = self.chance.choice([None, "", "Keep numbers.", "Keep names."])
        command = observers.build_instructing({"observer": text})
        run(observers.submit_command(**self.where, command=command))

    def fork(self) -> None:
        if len(self.threads) == THREADS:
            return
        seq, standing = self.chance.choice([*self.at.history.items()])
        name = f"t-{len(self.threads)}"
        acts.fork(self.agent, self.at.name, name, seq=seq, **self.config)
        child = Followed(self.agent, name, standing.copy())
        self.threads.append(child)
        child.follow()

    def erase(self) -> None:
        """Erase a message or an observation, with all that was made of it."""
        state = self.at.state
        made = [entry.created_seq for entry in pages.iter_entries(state)]
        made += [each.clock for each in state.observing.instructions]
        home, seq = state.locate_event(self.chance.choice(made or [1]))
        thread = Thread.objects.get(id=home)
        if Event.objects.filter(thread=home, seq=seq, payload__isnull=False).exists():
            # Files are scrubbed outside of a test's transaction only.
            until = Erasure.State.CACHES_PURGED
            subject = self.at.row.subject
            close_erasure(
                forget(subject, "record", until=until, thread=thread, seq=seq)
            )

    def amend(self) -> None:
        changes: dict[str, list[Any]] = {
            "observe": [True, True, False],
            "observe_at": [0.5, 0.9],
            "observe_keep_tokens": [400, None],
            "reflect_at": [0.02, 0.2],
        }
        config = {name: self.chance.choice(each) for name, each in changes.items()}
        acts.amend(self.agent, self.at.name, config=config)


def build_message(role: str, text: str, **fields: Any) -> NewSlot:
    content = {"role": role, "content": text, **fields}
    return make_slot(content, type=f"chat.{role}")


def calling(number: int, text: str) -> list[NewSlot]:
    """Build a tool call and its result."""
    function = {"name": "look", "arguments": "{}"}
    call = {"id": f"c-{number}", "type": "function", "function": function}
    return [
        build_message("assistant", "", tool_calls=[call]),
        build_message("tool", text, tool_call_id=call["id"]),
    ]


def helpful(messages: Sequence[dict[str, str]]) -> Said:
    """Answer with every word by which a message can be known."""
    words = sorted({*re.findall(r"word\d{4}", messages[1]["content"])})
    return Said(json.dumps({"lines": [{"text": " ".join(words) or "They talked."}]}))


def live_steps(agent: Agent, seed: int) -> None:
    life = Life(agent, seed)
    for _ in range(STEPS):
        life.step()
    rows = [each.row for each in life.threads]
    for row in rows:
        check_provenance(row)
    sound(*rows)


@pytest.mark.parametrize("seed", range(QUICK))
def test_observing_fuzz_over_the_journal(agent: Agent, seed: int) -> None:
    live_steps(agent, seed)


@pytest.mark.parametrize("seed", range(QUICK, SEEDS))
def test_observing_fuzz_over_the_journal_with_all_seeds(
    agent: Agent, seed: int
) -> None:
    live_steps(agent, seed)
