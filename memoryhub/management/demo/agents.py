"""The agents: each writes its own kind of memory, at its own pace, until stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, cycle, islice
from random import Random
from threading import Event
from time import sleep
from typing import Any

from memoryhub.management.demo import (
    airline,
    coder,
    concierge,
    counter,
    desk,
    diary,
    messages,
    officer,
    research,
    week,
)
from memoryhub.management.demo.client import Client, RefusedError
from memoryhub.management.demo.messages import Exchange

ANN = "ann@people.example"
#: Of the concierge, one after the other. The first is forgotten and comes no more, so
#: that each run has another.
FIRST_GUEST, GUESTS = "bob", ("bea", "cyril")
#: What is refused once a guest is being forgotten, and after that.
FORGOTTEN = ("subject_restricted", "thread_erased", "subject_erased")


class StoppedError(Exception):
    """The demo ends; whoever rests wakes up to this."""


@dataclass(slots=True, kw_only=True)
class Life:
    """What an agent has: a connection, a clock, chance, and an end."""

    client: Client
    chance: Random
    stopped: Event
    speed: float = 1.0
    #: Of whom the privacy officer forgets.
    guest: str = FIRST_GUEST
    #: By story, how many threads it has had: each has one of its own.
    counts: Counter[str] = field(default_factory=Counter)
    #: Threads that are still to be closed.
    open: list[str] = field(default_factory=list)
    _requests: int = field(default=0)

    def name(self, story: str) -> str:
        """Name the next thread of a story: the second one has a 2 behind it."""
        self.counts[story] += 1
        number = self.counts[story]
        return story if number == 1 else f"{story}-{number}"

    def open_thread(self, thread: str, **body: Any) -> dict[str, Any]:
        opened = self.client.put_thread(thread, **body)
        self.open.append(thread)
        return opened

    def reopen(self, thread: str) -> None:
        self.client.act(thread, "reopen")
        self.open.append(thread)

    def fork(self, thread: str, fork: str, **body: Any) -> None:
        self.client.act(thread, "fork", thread=fork, **body)
        self.open.append(fork)

    def close(self, thread: str, *, reason: str = "completed") -> None:
        self.client.act(thread, "close", reason=reason)
        self.open.remove(thread)

    def clear_up(self) -> None:
        """Close what an earlier run, or a failure, has left open."""
        while self.open:
            with suppress(RefusedError):
                self.client.act(self.open[-1], "close", reason="cancelled")
            self.open.pop()

    def rest(self, seconds: float) -> None:
        """Wait about so long. Raises StoppedError."""
        wait = seconds * self.chance.uniform(0.6, 1.4) / self.speed
        if self.stopped.wait(wait):
            raise StoppedError

    def write(
        self,
        thread: str,
        exchange: Exchange,
        *,
        pause: float,
        at: datetime | None = None,
    ) -> None:
        """Message by message, as they are said; now and then one is sent twice.

        A turn begins before each answer: what it packs is what a model would be sent.
        They are said now, or `at`.
        """
        for message in exchange:
            if message["role"] == "assistant":
                self.client.begin_turn(thread, [])
            slot = messages.slot(message, at=at or _now())
            request = self.request_key()
            first = self.client.append(thread, slot, request=request)
            if self.chance.random() < 0.05:
                # As after a lost answer: the repeat finds the same slot.
                again = self.client.append(thread, slot, request=request)
                assert again["index"] == first["index"]
            self.rest(pause)

    def write_at_once(self, thread: str, exchange: Exchange) -> dict[str, Any]:
        """The whole exchange in one batch: all of it or nothing."""
        slots = messages.slots(exchange, at=_now())
        return self.client.append_batch(thread, slots, request=self.request_key())

    def request_key(self) -> str:
        self._requests += 1
        return f"{self.chance.getrandbits(64):016x}-{self._requests}"


def support_desk(life: Life) -> None:
    """Ann's cases, one after the other; each is closed, some are reopened."""
    cases = zip(cycle(desk.NAMES), desk.cases(life.chance), strict=False)
    for number, (story, case) in enumerate(cases, start=1):
        thread = life.name(story)
        life.open_thread(
            thread,
            user_id=ANN,
            scope={"agent_type": "support-desk", "session": f"case-{number}"},
            labels={"shop": "northwind", "shift": number % 3},
        )
        life.client.put_page(thread, "policy", text=desk.POLICY, type="procedure")
        life.client.act_on(thread, "policy", "pin")
        for exchange in case:
            life.write(thread, exchange, pause=1.2)
        life.close(thread)
        life.rest(4)
        if life.chance.random() < 0.4:
            life.reopen(thread)
            life.write(thread, desk.reopened(life.chance), pause=1.5)
            life.close(thread)
        life.rest(3)


def researcher(life: Life) -> None:
    """A thread that needs all that it found on what it is asked, then another.

    It reads those in its context, and fetches the others: that drives out those of the
    other topic.
    """
    while True:
        _research(life, life.name("research-tides-and-maps"))


def _research(life: Life, thread: str) -> None:
    life.open_thread(
        thread,
        scope={"agent_type": "researcher"},
        labels={"topic": "tides-maps"},
        config=research.CONFIG,
    )
    shelves = research.findings(life.chance)
    for topic, shelf in enumerate(shelves):
        for number, text in enumerate(shelf):
            page_id = f"note-{topic}-{number}"
            life.client.put_page(thread, page_id, text=text, type="artifact", map=False)
    exchanges = research.rounds(life.chance)
    topics = islice(cycle(research.ORDER), research.QUESTIONS)
    for topic, exchange in zip(topics, exchanges, strict=False):
        question, *found = messages.slots(exchange, at=_now())
        shown = life.client.begin_turn(thread, [question])["included"]
        for number in range(research.FINDINGS):
            page_id = f"note-{topic}-{number}"
            if page_id in shown:
                life.client.act_on(thread, page_id, "reference")
            else:
                life.client.act_on(
                    thread, page_id, "fault", level=0, reason="user_requested_recall"
                )
        life.client.begin_turn(thread, found[:-1])
        life.client.append(thread, found[-1], request=life.request_key())
        life.rest(3.5)
    life.close(thread)


def repairs(life: Life) -> None:
    """Bugs, one a thread; a failed attempt is forked from where it was still good."""
    for story in cycle(coder.NAMES):
        _repair(life, life.name(story))
        life.rest(6)


def _repair(life: Life, name: str) -> None:
    scope = {"agent_type": "coder", "agent_instance": "coder-1", "session": name}
    life.open_thread(name, scope=scope, labels={"try": 1}, config=coder.CONFIG)
    task = [*coder.task(life.chance), *coder.log(life.chance)]
    last = life.write_at_once(name, task)["items"][-1]
    thread, log = name, f"slot-{last['index']}"
    life.client.set_task(thread, status="running", description=task[1]["content"])
    for count, (exchange, passed) in enumerate(coder.attempts(life.chance), start=1):
        good = f"before-try-{count}"
        life.client.checkpoint(thread, name=good, description="tests as found")
        _try(life, thread, exchange, log=log, count=count)
        if passed:
            break
        fork = f"{name}-{coder.FORKS[count - 1]}"
        tried = {"scope": scope, "labels": {"try": count + 1}, "config": coder.CONFIG}
        life.fork(thread, fork, checkpoint=good, **tried)
        life.client.update_task(thread, status="failed")
        life.close(thread, reason="failed")
        thread = fork
    life.client.update_task(thread, status="completed", progress_percent=100.0)
    life.close(thread)


def _try(life: Life, thread: str, exchange: Exchange, *, log: str, count: int) -> None:
    """An attempt: thoughts go to the notes, what is held goes to keys."""
    urge, idea, *steps, report = exchange
    life.client.note(thread, idea["content"])
    life.client.update_task(thread, current_step=count, progress_percent=20.0 * count)
    life.client.set_key(thread, "attempt", {"number": count, "of": "repair"})
    # The lock on the working copy lapses by itself if the agent dies.
    life.client.set_key(thread, "lock.working-copy", "coder-1", ttl_seconds=45)
    life.write(thread, [urge], pause=0.9)
    _read_again(life, thread, log)
    life.write(thread, [idea, *steps], pause=0.9)
    _read_again(life, thread, log)
    life.write(thread, [report], pause=0.9)


def _read_again(life: Life, thread: str, page_id: str) -> None:
    """The model wants a page that other messages have pushed out."""
    call = messages.fetching(life.chance, page_id, level=0)
    life.write(thread, [call], pause=0.5)
    answer = life.client.call_tool(thread, call["tool_calls"][0])
    life.write(thread, [answer], pause=0.5)


def diarist(life: Life) -> None:
    """Long entries, told at once and talked over slowly; the last are kept in mind."""
    days = diary.days(life.chance)
    while True:
        thread = life.name("diary")
        opened = life.open_thread(
            thread, user_id=ANN, scope={"agent_type": "diarist"}, config=diary.CONFIG
        )
        number = life.counts["diary"]
        if not opened["slots"]:
            life.write(thread, diary.hides(number), pause=3)
        _keep_diary(life, thread, islice(days, diary.DAYS))
        _look_for_it(life, thread, number, pause=3)
        life.close(thread)


def _keep_diary(life: Life, thread: str, days: Iterator[Exchange]) -> None:
    for number, exchange in enumerate(days, start=1):
        life.write(thread, exchange, pause=3)
        text = exchange[0]["content"]
        life.client.put_page(thread, f"day-{number}", text=text, type="summary")
        if number > diary.PINNED:
            life.client.act_on(thread, f"day-{number - diary.PINNED}", "unpin")
        life.client.act_on(thread, f"day-{number}", "pin")
        life.rest(4)


def _look_for_it(life: Life, thread: str, number: int, *, pause: float) -> None:
    """Ask for what was said first: its turn brings it along, and nobody fetches it."""
    question, answer, thanks = diary.looks_for(number)
    life.write(thread, [question, answer], pause=pause)
    # The answer refers to it.
    life.client.act_on(thread, "slot-0", "reference")
    life.write(thread, [thanks], pause=pause)


def concierges(life: Life) -> None:
    """A guest's stay, then the next one's: wishes, and facts that replace older ones.

    Of a guest who is being forgotten one more write is refused, and the stay is over.
    """
    wishes = concierge.wishes(life.chance)
    for name in chain([life.guest], cycle(GUESTS)):
        thread = life.name(f"concierge-{name}")
        try:
            _serve(life, thread, name, islice(wishes, concierge.WISHES))
            life.close(thread)
        except RefusedError as refused:
            if refused.code not in FORGOTTEN:
                raise
            life.open.remove(thread)


def _serve(life: Life, thread: str, name: str, wishes: Iterator[Exchange]) -> None:
    opened = life.open_thread(
        thread,
        user_id=user_of(name),
        scope={"agent_type": "concierge", "agent_instance": "front-desk"},
        labels={"vip": True},
        # What this guest said in an earlier stay comes along by itself.
        config={"recall": "subject"},
    )
    subject = opened["subject_id"]
    fresh = _greet(life, thread, subject, name)
    life.client.set_task(
        thread, status="running", description=f"The evenings of {name}"
    )
    for number, exchange in enumerate(wishes):
        # Nothing changed: it says that the agent lives.
        life.client.update_task(thread)
        life.client.set_key(thread, "table.held", {"wish": number}, ttl_seconds=20)
        life.write(thread, exchange, pause=1.1)
        if fact := concierge.remembered(exchange):
            life.client.append_to_block(thread, concierge.BLOCK, f"\n- {fact}")
        if fresh and number == concierge.WISHES // 4:
            _take_back(life, thread, subject)
            _read_letter(life, subject, name)
        life.client.note(thread, f"wish {number}: {exchange[-1]['content']}")
        _change_of_mind(life, thread, number)
        life.rest(2.5)


def _greet(life: Life, thread: str, subject: str, name: str) -> bool:
    """Read what is known of the guest; True for a new one, of whom a block begins."""
    if life.client.memory(subject)["blocks"]:
        return False
    life.client.put_block(
        thread,
        concierge.BLOCK,
        text=f"{name.capitalize()} is a guest of the house.",
        description=concierge.ABOUT,
    )
    welcome = [messages.user(concierge.MOVED), messages.assistant("Welcome.")]
    life.write(thread, welcome, pause=1.1)
    return True


def _read_letter(life: Life, subject: str, name: str) -> None:
    """What was said weeks ago is told late: what held since then is derived anew."""
    letters = life.name(f"letters-{name}")
    life.open_thread(letters, user_id=user_of(name), scope={"agent_type": "concierge"})
    life.client.remember(
        subject,
        thread=letters,
        input=concierge.LATE,
        output="Thank you for the card; we will write there.",
        occurred_at=(_now() - timedelta(days=concierge.LATE_DAYS)).isoformat(),
    )
    life.close(letters)


def _take_back(life: Life, thread: str, subject: str) -> None:
    """A guest is mistaken; what is taken back stays away, whoever reads it again."""
    noted = messages.assistant("Noted.")
    life.write(thread, [messages.user(concierge.MISTAKEN), noted], pause=1.1)
    value = concierge.MISTAKEN.rpartition(" ")[2].strip(".")
    fact = life.client.assert_fact(
        thread, entity="user", predicate="phone_ends_in", value=value
    )
    life.write(thread, [messages.user(concierge.TAKEN_BACK), noted], pause=1.1)
    life.client.retract(subject, fact)


def _change_of_mind(life: Life, thread: str, number: int) -> None:
    """Plans are kept at a checkpoint; now and then the guest goes back to them."""
    if number % 3 == 0:
        life.client.checkpoint(thread, name=f"plan-{number}")
    life.client.set_key(thread, f"evening.{number % 4}", {"booked": number})
    if number % 3 == 2:
        life.client.restore(thread, f"plan-{number - 2}")


def planner(life: Life) -> None:
    """A week of moving house, told in minutes; its days are those that have passed.

    What was said first has long become observations when it is asked for.
    """
    while True:
        thread = life.name(week.THREAD)
        life.open_thread(
            thread, user_id=ANN, scope={"agent_type": "planner"}, config=week.CONFIG
        )
        morning = _now().replace(hour=7, minute=30)
        for ago, day in zip(range(7, 0, -1), week.days(life.chance), strict=True):
            at = morning - timedelta(days=ago)
            for exchange in day:
                at += timedelta(minutes=life.chance.uniform(20, 100))
                life.write(thread, exchange, pause=1.2, at=at)
            life.rest(2)
        life.close(thread)


def ticket_counter(life: Life) -> None:
    """Sales into small threads: each is filled to the brim, and closed."""
    sales = counter.sales(life.chance)
    for story in cycle(counter.NAMES):
        thread = life.name(story)
        life.open_thread(
            thread,
            scope={"agent_type": "ticket-counter", "session": thread},
            config={"max_slots": counter.MAX_SLOTS},
        )
        for exchange in islice(sales, counter.SALES):
            life.write_at_once(thread, exchange)
            life.rest(1.8)
        life.close(thread)


AGENTS: dict[str, Callable[[Life], None]] = {
    "support-desk": support_desk,
    "researcher": researcher,
    "coder": repairs,
    "diarist": diarist,
    "concierge": concierges,
    "planner": planner,
    "ticket-counter": ticket_counter,
}


def privacy_officer(life: Life) -> None:
    """Forgets the first guest of this run, once, and reads the receipt."""
    if life.stopped.wait(officer.AT_SECONDS / life.speed):
        raise StoppedError
    erasure = officer.forget(life.client, user_of(life.guest))
    for _ in officer.watch(life.client, erasure):
        # To the end, even if the demo ends meanwhile: the worker stops after it.
        sleep(officer.LOOK_SECONDS)
    officer.receipt(life.client, erasure)


def tell_history(life: Life) -> None:
    """Two threads with an hour behind them, by the agents' clocks; and a promise."""
    airline.tell(life.client, life.chance, at=_now() - timedelta(hours=1))
    _tell(
        life,
        "diary",
        chain([diary.hides(1)], diary.days(life.chance)),
        user_id=ANN,
        agent_type="diarist",
        config=diary.CONFIG,
    )
    _look_for_it(life, "diary", 1, pause=0)
    _tell(
        life,
        f"concierge-{life.guest}",
        concierge.wishes(life.chance),
        user_id=user_of(life.guest),
        agent_type="concierge",
    )


def _tell(
    life: Life,
    thread: str,
    exchanges: Iterable[Exchange],
    *,
    user_id: str,
    agent_type: str,
    config: dict[str, int] | None = None,
) -> None:
    life.client.put_thread(
        thread, user_id=user_id, scope={"agent_type": agent_type}, config=config or {}
    )
    at, now = _now() - timedelta(hours=1), _now()
    for exchange in exchanges:
        slots = []
        for message in exchange:
            at += timedelta(seconds=life.chance.uniform(20, 120))
            slots.append(messages.slot(message, at=min(at, now)))
        life.client.append_batch(thread, slots, request=life.request_key())
        if at >= now:
            return


def user_of(name: str) -> str:
    return f"{name}@people.example"


def _now() -> datetime:
    return datetime.now(UTC)
