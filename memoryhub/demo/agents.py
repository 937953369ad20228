"""Agents of the demo: each writes its own kind of memory until stopped."""

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

from memoryhub.demo import (
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
from memoryhub.demo.client import DemoClient, ServerRefusedError
from memoryhub.demo.messages import Exchange

ANN = "ann@people.example"
#: Guests of the concierge, in turn. The first guest is erased and never returns, so
#: each run has another first guest.
FIRST_GUEST, GUESTS = "bob", ("bea", "cyril")
#: Error codes of writes about a guest during and after the erasure.
FORGOTTEN = ("subject_restricted", "thread_erased", "subject_erased")


class StoppedError(Exception):
    """The end of the demo, raised in agents that rest."""


@dataclass(slots=True, kw_only=True)
class AgentLife:
    """State of an agent: a connection, a clock, randomness, and a stop signal."""

    client: DemoClient
    chance: Random
    stopped: Event
    speed: float = 1.0
    #: Guest whom the privacy officer erases.
    guest: str = FIRST_GUEST
    #: Number of threads so far, by story.
    counts: Counter[str] = field(default_factory=Counter)
    #: Names of open threads.
    open: list[str] = field(default_factory=list)
    _requests: int = field(default=0)

    def name_thread(self, story: str) -> str:
        """Name the next thread of a story: the second one ends in `-2`."""
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
        """Close the threads that an earlier run, or a failure, left open."""
        while self.open:
            with suppress(ServerRefusedError):
                self.client.act(self.open[-1], "close", reason="cancelled")
            self.open.pop()

    def rest_for(self, seconds: float) -> None:
        """Wait about `seconds`, scaled by the speed. Raises StoppedError."""
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
        """Write an exchange message by message; about one in 20 is sent twice.

        A turn begins before each answer, so that the turn packs the model's request.
        Messages are dated now, or `at`.
        """
        for message in exchange:
            if message["role"] == "assistant":
                self.client.begin_turn(thread, [])
            slot = messages.build_slot(message, at=at or _get_now())
            request = self.build_request_key()
            first = self.client.append(thread, slot, request=request)
            if self.chance.random() < 0.05:
                # A repeat, as after a lost answer, returns the same slot.
                again = self.client.append(thread, slot, request=request)
                assert again["index"] == first["index"]
            self.rest_for(pause)

    def write_at_once(self, thread: str, exchange: Exchange) -> dict[str, Any]:
        """Write the whole exchange in one batch, all or nothing."""
        slots = messages.build_slots(exchange, at=_get_now())
        return self.client.append_batch(thread, slots, request=self.build_request_key())

    def build_request_key(self) -> str:
        self._requests += 1
        return f"{self.chance.getrandbits(64):016x}-{self._requests}"


def run_support_desk(life: AgentLife) -> None:
    """Run Ann's support cases, one after the other; all are closed, some reopened."""
    cases = zip(cycle(desk.NAMES), desk.iter_cases(life.chance), strict=False)
    for number, (story, case) in enumerate(cases, start=1):
        thread = life.name_thread(story)
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
        life.rest_for(4)
        if life.chance.random() < 0.4:
            life.reopen(thread)
            life.write(thread, desk.build_reopening(life.chance), pause=1.5)
            life.close(thread)
        life.rest_for(3)


def run_researcher(life: AgentLife) -> None:
    """Run threads of questions on two topics, each needing all findings of its topic.

    The agent references findings in its context and fetches the others, which evicts
    the findings of the other topic.
    """
    while True:
        _research_topics(life, life.name_thread("research-tides-and-maps"))


def _research_topics(life: AgentLife, thread: str) -> None:
    life.open_thread(
        thread,
        scope={"agent_type": "researcher"},
        labels={"topic": "tides-maps"},
        config=research.CONFIG,
    )
    shelves = research.build_findings(life.chance)
    for topic, shelf in enumerate(shelves):
        for number, text in enumerate(shelf):
            page_id = f"source-{topic}-{number}"
            life.client.put_page(thread, page_id, text=text, type="artifact", map=False)
    exchanges = research.iter_rounds(life.chance)
    topics = islice(cycle(research.ORDER), research.QUESTIONS)
    for topic, exchange in zip(topics, exchanges, strict=False):
        question, *found = messages.build_slots(exchange, at=_get_now())
        shown = life.client.begin_turn(thread, [question])["included"]
        for number in range(research.FINDINGS):
            page_id = f"source-{topic}-{number}"
            if page_id in shown:
                life.client.act_on(thread, page_id, "reference")
            else:
                life.client.act_on(
                    thread, page_id, "fault", level=0, reason="resolve_reference"
                )
        life.client.begin_turn(thread, found[:-1])
        life.client.append(thread, found[-1], request=life.build_request_key())
        life.rest_for(3.5)
    life.close(thread)


def run_coder(life: AgentLife) -> None:
    """Run repairs of bugs, one a thread; after a failed attempt fork from the
    checkpoint."""
    for story in cycle(coder.NAMES):
        _repair_bug(life, life.name_thread(story))
        life.rest_for(6)


def _repair_bug(life: AgentLife, name: str) -> None:
    scope = {"agent_type": "coder", "agent_instance": "coder-1", "session": name}
    life.open_thread(name, scope=scope, labels={"try": 1}, config=coder.CONFIG)
    task = [*coder.build_task(life.chance), *coder.build_log(life.chance)]
    last = life.write_at_once(name, task)["items"][-1]
    thread, log = name, f"slot-{last['index']}"
    life.client.set_task(thread, status="running", description=task[1]["content"])
    for count, (exchange, passed) in enumerate(
        coder.iter_attempts(life.chance), start=1
    ):
        good = f"before-try-{count}"
        life.client.take_checkpoint(thread, name=good, description="tests as found")
        _try_repair(life, thread, exchange, log=log, count=count)
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


def _try_repair(
    life: AgentLife, thread: str, exchange: Exchange, *, log: str, count: int
) -> None:
    """Write one attempt: its idea as a note, the attempt and its lock as keys."""
    urge, idea, *steps, report = exchange
    life.client.note(thread, idea["content"])
    life.client.update_task(thread, current_step=count, progress_percent=20.0 * count)
    life.client.set_key(thread, "attempt", {"number": count, "of": "repair"})
    # The lock on the working copy expires if the agent dies.
    life.client.set_key(thread, "lock.working-copy", "coder-1", ttl_seconds=45)
    life.write(thread, [urge], pause=0.9)
    _fetch_again(life, thread, log)
    life.write(thread, [idea, *steps], pause=0.9)
    _fetch_again(life, thread, log)
    life.write(thread, [report], pause=0.9)


def _fetch_again(life: AgentLife, thread: str, page_id: str) -> None:
    """Write a page fault of the model for a page that newer messages evicted."""
    call = messages.build_page_fault(life.chance, page_id, level=0)
    life.write(thread, [call], pause=0.5)
    answer = life.client.call_tool(thread, call["tool_calls"][0])
    life.write(thread, [answer], pause=0.5)


def run_diarist(life: AgentLife) -> None:
    """Run diaries of long entries, discussed slowly; the last days are pinned."""
    days = diary.iter_days(life.chance)
    while True:
        thread = life.name_thread("diary")
        opened = life.open_thread(
            thread, user_id=ANN, scope={"agent_type": "diarist"}, config=diary.CONFIG
        )
        number = life.counts["diary"]
        if not opened["slots"]:
            life.write(thread, diary.build_hiding(number), pause=3)
        _keep_diary(life, thread, islice(days, diary.DAYS))
        _look_for_hidden(life, thread, number, pause=3)
        life.close(thread)


def _keep_diary(life: AgentLife, thread: str, days: Iterator[Exchange]) -> None:
    for number, exchange in enumerate(days, start=1):
        life.write(thread, exchange, pause=3)
        text = exchange[0]["content"]
        life.client.put_page(thread, f"day-{number}", text=text, type="summary")
        if number > diary.PINNED:
            life.client.act_on(thread, f"day-{number - diary.PINNED}", "unpin")
        life.client.act_on(thread, f"day-{number}", "pin")
        life.rest_for(4)


def _look_for_hidden(
    life: AgentLife, thread: str, number: int, *, pause: float
) -> None:
    """Ask for the first message, which the turn prefetches without a page fault."""
    question, answer, thanks = diary.build_search(number)
    life.write(thread, [question, answer], pause=pause)
    # The answer refers to the first message.
    life.client.act_on(thread, "slot-0", "reference")
    life.write(thread, [thanks], pause=pause)


def run_concierge(life: AgentLife) -> None:
    """Run guests' stays, one after the other: wishes, and facts that replace older
    ones.

    The stay of a guest ends when a write is refused because the guest is being erased.
    """
    wishes = concierge.iter_wishes(life.chance)
    for name in chain([life.guest], cycle(GUESTS)):
        thread = life.name_thread(f"concierge-{name}")
        try:
            _serve_guest(life, thread, name, islice(wishes, concierge.WISHES))
            life.close(thread)
        except ServerRefusedError as refused:
            if refused.code not in FORGOTTEN:
                raise
            # A guest who was forgotten before the stay has no open thread.
            if thread in life.open:
                life.open.remove(thread)
            # Everybody may have been forgotten: nobody knocks without a pause.
            life.rest_for(20)


def _serve_guest(
    life: AgentLife, thread: str, name: str, wishes: Iterator[Exchange]
) -> None:
    opened = life.open_thread(
        thread,
        user_id=build_user_id(name),
        scope={"agent_type": "concierge", "agent_instance": "front-desk"},
        labels={"vip": True},
        # Recall includes what this guest said in earlier stays.
        config={"recall": "subject"},
    )
    subject = opened["subject_id"]
    fresh = _greet_guest(life, thread, subject, name)
    life.client.set_task(
        thread, status="running", description=f"The evenings of {name}"
    )
    for number, exchange in enumerate(wishes):
        # An empty update is a heartbeat.
        life.client.update_task(thread)
        life.client.set_key(thread, "table.held", {"wish": number}, ttl_seconds=20)
        life.write(thread, exchange, pause=1.1)
        if fact := concierge.get_remembered(exchange):
            life.client.append_to_block(thread, concierge.BLOCK, f"\n- {fact}")
        if fresh and number == concierge.WISHES // 4:
            _take_back_fact(life, thread, subject)
            _read_letter(life, subject, name)
        life.client.note(thread, f"wish {number}: {exchange[-1]['content']}")
        _change_plans(life, thread, number)
        life.rest_for(2.5)


def _greet_guest(life: AgentLife, thread: str, subject: str, name: str) -> bool:
    """Greet a new guest with a first block; return False for a known guest."""
    if life.client.fetch_memory(subject)["blocks"]:
        return False
    life.client.put_block(
        thread,
        concierge.BLOCK,
        text=f"{name.capitalize()} is a guest of the house.",
        description=concierge.ABOUT,
    )
    welcome = [
        messages.build_user(concierge.MOVED),
        messages.build_assistant("Welcome."),
    ]
    life.write(thread, welcome, pause=1.1)
    return True


def _read_letter(life: AgentLife, subject: str, name: str) -> None:
    """Add an exchange of weeks ago, so that facts valid since then are derived anew."""
    letters = life.name_thread(f"letters-{name}")
    life.open_thread(
        letters, user_id=build_user_id(name), scope={"agent_type": "concierge"}
    )
    life.client.remember(
        subject,
        thread=letters,
        input=concierge.LATE,
        output="Thank you for the card; we will write there.",
        occurred_at=(_get_now() - timedelta(days=concierge.LATE_DAYS)).isoformat(),
    )
    life.close(letters)


def _take_back_fact(life: AgentLife, thread: str, subject: str) -> None:
    """Assert a mistaken fact and retract it, so that no model can assert it again."""
    noted = messages.build_assistant("Noted.")
    life.write(thread, [messages.build_user(concierge.MISTAKEN), noted], pause=1.1)
    value = concierge.MISTAKEN.rpartition(" ")[2].strip(".")
    fact = life.client.assert_fact(
        thread, entity="user", predicate="phone_ends_in", value=value
    )
    life.write(thread, [messages.build_user(concierge.TAKEN_BACK), noted], pause=1.1)
    life.client.retract(subject, fact)


def _change_plans(life: AgentLife, thread: str, number: int) -> None:
    """Keep plans at a checkpoint; restore them every third wish."""
    if number % 3 == 0:
        life.client.take_checkpoint(thread, name=f"plan-{number}")
    life.client.set_key(thread, f"evening.{number % 4}", {"booked": number})
    if number % 3 == 2:
        life.client.restore(thread, f"plan-{number - 2}")


def run_planner(life: AgentLife) -> None:
    """Run a week of moving house in minutes, dated over the last seven days.

    Early messages are observations by the time the user asks for them.
    """
    while True:
        thread = life.name_thread(week.THREAD)
        life.open_thread(
            thread, user_id=ANN, scope={"agent_type": "planner"}, config=week.CONFIG
        )
        morning = _get_now().replace(hour=7, minute=30)
        for ago, day in zip(range(7, 0, -1), week.iter_days(life.chance), strict=True):
            at = morning - timedelta(days=ago)
            for exchange in day:
                at += timedelta(minutes=life.chance.uniform(20, 100))
                life.write(thread, exchange, pause=1.2, at=at)
            life.rest_for(2)
        life.close(thread)


def run_ticket_counter(life: AgentLife) -> None:
    """Run sales into short threads, which are closed before they are full."""
    sales = counter.iter_sales(life.chance)
    for story in cycle(counter.NAMES):
        thread = life.name_thread(story)
        life.open_thread(
            thread,
            scope={"agent_type": "ticket-counter", "session": thread},
            config={"max_slots": counter.MAX_SLOTS},
        )
        for exchange in islice(sales, counter.SALES):
            life.write_at_once(thread, exchange)
            life.rest_for(1.8)
        life.close(thread)


AGENTS: dict[str, Callable[[AgentLife], None]] = {
    "support-desk": run_support_desk,
    "researcher": run_researcher,
    "coder": run_coder,
    "diarist": run_diarist,
    "concierge": run_concierge,
    "planner": run_planner,
    "ticket-counter": run_ticket_counter,
}


def run_privacy_officer(life: AgentLife) -> None:
    """Erase the first guest of this run, once, and read the receipt."""
    if life.stopped.wait(officer.AT_SECONDS / life.speed):
        raise StoppedError
    erasure = officer.forget(life.client, build_user_id(life.guest))
    for _ in officer.watch(life.client, erasure):
        # Watched to the end, even if the demo stops: the worker stops later.
        sleep(officer.LOOK_SECONDS)
    officer.fetch_receipt(life.client, erasure)


def tell_history(life: AgentLife) -> None:
    """Write threads that began an hour ago by the agents' clocks, among them the
    promise."""
    airline.tell_story(life.client, life.chance, at=_get_now() - timedelta(hours=1))
    _tell_exchanges(
        life,
        "diary",
        chain([diary.build_hiding(1)], diary.iter_days(life.chance)),
        user_id=ANN,
        agent_type="diarist",
        config=diary.CONFIG,
    )
    _look_for_hidden(life, "diary", 1, pause=0)
    _tell_exchanges(
        life,
        f"concierge-{life.guest}",
        concierge.iter_wishes(life.chance),
        user_id=build_user_id(life.guest),
        agent_type="concierge",
    )


def _tell_exchanges(
    life: AgentLife,
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
    at, now = _get_now() - timedelta(hours=1), _get_now()
    for exchange in exchanges:
        slots = []
        for message in exchange:
            at += timedelta(seconds=life.chance.uniform(20, 120))
            slots.append(messages.build_slot(message, at=min(at, now)))
        life.client.append_batch(thread, slots, request=life.build_request_key())
        if at >= now:
            return


def build_user_id(name: str) -> str:
    return f"{name}@people.example"


def _get_now() -> datetime:
    return datetime.now(UTC)
