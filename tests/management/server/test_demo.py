"""The demo: its agents, whose texts are determined by the seed."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain, islice, pairwise
from pathlib import Path
from random import Random

import pytest

from memoryhub.demo import (
    agents,
    airline,
    coder,
    concierge,
    counter,
    desk,
    diary,
    model,
    observations,
    research,
    stage,
    week,
)
from memoryhub.demo.client import DemoClient
from memoryhub.demo.messages import Exchange, Message, build_slot
from memoryhub.journal.rows import projections
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.formats import transcripts
from memoryhub.kernel.observing import answers, lines, making, prompts, reflecting
from memoryhub.kernel.observing.lines import ObservationLine
from memoryhub.kernel.text import names
from memoryhub.queries.threads.evicted_pages import split_evictions
from tests.harness.forks import MANAGE
from tests.harness.instances import COMMAND_SECONDS

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def desk_talk(chance: Random) -> Iterator[Exchange]:
    for case in desk.iter_cases(chance):
        yield from case
        yield desk.build_reopening(chance)


def coder_talk(chance: Random) -> Iterator[Exchange]:
    while True:
        yield coder.build_task(chance)
        for exchange, _ in coder.iter_attempts(chance):
            yield exchange


TALKS: dict[str, Callable[[Random], Iterator[Exchange]]] = {
    "airline": airline.iter_exchanges,
    "desk": desk_talk,
    "research": research.iter_rounds,
    "coder": coder_talk,
    "diary": diary.iter_days,
    "concierge": concierge.iter_wishes,
    "counter": counter.iter_sales,
    "week": week.iter_exchanges,
}


def script(name: str, *, seed: int = 1, exchanges: int = 60) -> list[Message]:
    talk = TALKS[name](Random(seed))
    return list(chain.from_iterable(islice(talk, exchanges)))


@pytest.mark.parametrize("name", TALKS)
def test_demo_script_is_the_same_for_the_same_seed(name: str) -> None:
    assert script(name) == script(name)
    assert script(name) != script(name, seed=2)


@pytest.mark.parametrize("name", TALKS)
def test_demo_messages_are_chat_completions_that_the_import_reads(name: str) -> None:
    calls = transcripts.Calls()
    for message in script(name):
        read = transcripts.read_message(message, thread="t", calls=calls)
        made = build_slot(message, at=NOON)
        assert not read.unknown_call
        assert (read.type, read.from_name, read.to_name) == (
            made["type"],
            made["from"],
            made["to"],
        )
        assert names.is_valid(made["from"])
        assert made["agent_at"] == "2026-05-04T12:00:00.000+00:00"


@pytest.mark.parametrize("name", TALKS)
def test_demo_messages_have_no_unfilled_template(name: str) -> None:
    texts = [
        message["content"] for message in script(name) if message["role"] == "user"
    ]
    assert texts
    assert not [text for text in texts if re.search(r"[{}]", text)]


def test_demo_says_hundreds_of_different_sentences() -> None:
    everything = chain.from_iterable(script(name, exchanges=100) for name in TALKS)
    texts = [
        message["content"]
        for message in everything
        if message["role"] in ("user", "assistant") and message["content"]
    ]
    sentences = {
        sentence for text in texts for sentence in re.split(r"(?<=[.!?])\s+", text)
    }
    assert len(sentences) > 500
    assert len(set(texts)) > len(texts) / 2


def test_demo_attempts_end_with_one_that_passes() -> None:
    for seed in range(20):
        *failed, last = [passed for _, passed in coder.iter_attempts(Random(seed))]
        assert last
        assert not any(failed)
        assert failed


def test_demo_promise_is_made_in_one_turn_and_denied_in_another() -> None:
    answers = [each for each in script("airline") if each["role"] == "assistant"]
    assert answers[airline.PROMISED - 1]["content"] == airline.PROMISE
    assert answers[airline.DENIED - 1]["content"] == airline.DENIAL


def test_demo_threads_of_a_story_are_numbered() -> None:
    life = agents.AgentLife(
        client=DemoClient(host="", port=0, key=""),
        chance=Random(1),
        stopped=threading.Event(),
    )
    assert [life.name_thread("a"), life.name_thread("b"), life.name_thread("a")] == [
        "a",
        "b",
        "a-2",
    ]
    assert all(map(names.is_valid, (*desk.NAMES, *coder.NAMES, *counter.NAMES)))
    assert names.is_valid(f"{max(coder.NAMES, key=len)}-{10**9}-{coder.FORKS[-1]}")
    told = stage.count_stories(
        ["a", "a-2", "b-b", "b-b-11", "b-b-9", "fix-2-second-try"]
    )
    assert told == {"a": 2, "b-b": 11, "fix-2-second-try": 1}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_demo_plays_in_its_own_folder(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    (mine / "memoryhub.sqlite3").write_text("not touched")
    folder = tmp_path / ".memoryhub" / "demo"
    folder.mkdir(parents=True)
    (folder / "memoryhub.sqlite3").write_text("of an old demo")
    with playing(tmp_path, MEMORYHUB_DATA=str(mine)) as said:
        comes_true(lambda: has_begun(said()))
        comes_true(lambda: the_stories_are_told(folder))
    link = re.search(r"(http://127\.0\.0\.1:\d+)/sign-in/[\w-]{43}", said())
    # The file `address` has the server's address, which `signin` prints.
    assert link
    assert (folder / "address").read_text().strip() == link[1]
    assert (mine / "memoryhub.sqlite3").read_text() == "not touched"
    rows = threads(folder)
    play(tmp_path, "--keep")
    both = threads(folder)
    assert rows.keys() < both.keys()
    assert not [name for name in both if "concierge-bob" in name]
    assert {"diary-2", "concierge-bea-2"} <= both.keys()
    assert len(open_threads(folder)) <= len(agents.AGENTS) + 1


def has_begun(said: str) -> None:
    assert "Stop it with Ctrl-C" in said


def the_stories_are_told(folder: Path) -> None:
    rows = threads(folder)
    bob_is_forgotten(folder, rows)
    rolls = [slots for name, slots in rows.items() if "box-office" in name]
    assert 0 < max(rolls) <= counter.MAX_SLOTS
    assert any("-second-try" in name for name in rows)
    the_agents_page(folder)
    the_promise_has_left(folder)
    what_was_hidden_is_brought_along(folder)
    a_guest_is_remembered(folder)
    a_week_is_observed(folder)


def comes_true(check: Callable[[], object]) -> None:
    """Wait until the condition holds: how soon depends on the machine."""
    end = time.monotonic() + COMMAND_SECONDS
    while time.monotonic() < end:
        with suppress(AssertionError, LookupError, StopIteration, sqlite3.Error):
            check()
            return
        time.sleep(1)
    check()


@contextmanager
def playing(cwd: Path, **env: str) -> Iterator[Callable[[], str]]:
    """Play a fast demo meanwhile; yield a function that returns its output."""
    command = [sys.executable, MANAGE, "demo", "--port", "0", "--speed", "12"]
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=build_environment(env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stderr is not None
        told = list[str]()
        reader = threading.Thread(target=lambda: told.extend(demo.stderr))  # type: ignore[arg-type]  # it is there
        reader.start()
        try:
            yield lambda: "".join(told)
        finally:
            demo.send_signal(signal.SIGINT)
            assert demo.wait(COMMAND_SECONDS) == 0
            reader.join()


def build_environment(env: dict[str, str]) -> dict[str, str]:
    """Return the environment without settings of a hub, plus these."""
    ours = ("MEMORYHUB_", "DJANGO_", "DATABASE_URL", "KEYS_DATABASE_URL", "REDIS_URL")
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(ours)
    }
    return {**kept, **env}


def play(cwd: Path, *words: str) -> None:
    """Run `demo --once`."""
    done = subprocess.run(
        [sys.executable, MANAGE, "demo", "--port", "0", "--once", *words],
        cwd=cwd,
        env=build_environment({}),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 'level": "error' not in done.stdout


def bob_is_forgotten(folder: Path, rows: dict[str, int]) -> None:
    """Check that bob has a receipt, and that his concierge has another guest since."""
    assert "concierge-bob" not in rows
    assert rows["concierge-bea"] > 0
    with sqlite3.connect(folder / "memoryhub.sqlite3") as database:
        states = database.execute("SELECT state FROM memoryhub_erasure").fetchall()
        receipts = database.execute("SELECT count(*) FROM memoryhub_receipt").fetchone()
    assert (states, receipts) == ([("complete",)], (1,))


def the_agents_page(folder: Path) -> None:
    """Check the agents: a stable set, a changing one, rereading, much pinning."""
    desk, repair = (
        count_events(folder, "scratched-pannier"),
        count_events(folder, "fix-loan-counter"),
    )
    assert desk["page.pinned"] == 1
    assert not desk["page.evicted"]
    assert desk["turn.packed"] == desk["turn.began"] > 2
    assert repair["page.faulted"]
    topics = count_events(folder, "research-tides-and-maps")
    # How often depends on how fast the machine is.
    assert min(topics["page.evicted"], topics["page.faulted"]) > research.FINDINGS
    rates_fall_and_rise(folder, "research-tides-and-maps")
    diary_days = count_events(folder, "diary")
    assert diary_days["page.pinned"] > 1
    assert diary_days["page.evicted"] > 5


def the_promise_has_left(folder: Path) -> None:
    """Check that the promise was evicted before the turn that denies it."""
    with sqlite3.connect(folder / "memoryhub.sqlite3") as database:
        found = database.execute(
            "SELECT e.type, e.body FROM memoryhub_event e JOIN memoryhub_thread t "
            "ON t.id = e.thread_id WHERE t.name = ? ORDER BY e.seq",
            [airline.THREAD],
        )
        each = (split_evictions(kind, json.loads(body)) for kind, body in found)
        story = [step for event in each for step in event]
    began = [at for at, (kind, _) in enumerate(story) if kind == "turn.began"]
    promised, denied = (began[n - 1] for n in (airline.PROMISED, airline.DENIED))
    index = next(
        body["index"] for kind, body in story[promised:] if kind == "slot.appended"
    )
    between = [
        body["page_id"]
        for kind, body in story[promised:denied]
        if kind == "page.evicted"
    ]
    assert f"slot-{index}" in between


def what_was_hidden_is_brought_along(folder: Path) -> None:
    """Check that the diary's first turn recalls an evicted message and uses it."""
    with sqlite3.connect(folder / "memoryhub.sqlite3") as database:
        found = database.execute(
            "SELECT e.type, e.body FROM memoryhub_event e JOIN memoryhub_thread t "
            "ON t.id = e.thread_id WHERE t.name = 'diary' ORDER BY e.seq"
        )
        story = [(kind, json.loads(body)) for kind, body in found]
    packed = next(body for kind, body in story if kind == "turn.packed")
    brought = [text["page_id"] for text in packed["recall"]["texts"]]
    referred = [body["page_id"] for kind, body in story if kind == "page.referenced"]
    assert "slot-0" in brought
    assert referred[:1] == ["slot-0"]
    assert not count_events(folder, "diary")["page.faulted"]


def a_guest_is_remembered(folder: Path) -> None:
    """Check facts of guests: retracted ones stay away, and nothing is left of bob."""
    with sqlite3.connect(folder / "memoryhub.sqlite3") as database:
        rows = database.execute(
            "SELECT a.origin, a.retracted_seq, a.wrong, s.state "
            "FROM memoryhub_assertion a "
            "JOIN memoryhub_thread t ON t.id = a.thread_id "
            "JOIN memoryhub_subject s ON s.id = t.subject_id"
        ).fetchall()
        learnt = database.execute(
            "SELECT count(*) FROM memoryhub_event "
            "WHERE type = 'exchange.consolidated' AND body NOT LIKE '%\"failed\"%'"
        ).fetchone()
    assert {state for *_, state in rows} == {"active"}
    assert {"agent", "model"} <= {origin for origin, *_ in rows}
    assert any(retracted and wrong for _, retracted, wrong, _ in rows)
    assert learnt[0] > 5


def a_week_is_observed(folder: Path) -> None:
    """Check that the model observed a week, failed once, and condensed the log."""
    found = count_events(folder, week.THREAD)
    assert found["observer.failed"]
    assert found["log.reflected"]
    assert not found["slot.erased"]


def test_demo_week_ends_with_a_question_about_its_beginning() -> None:
    first, *_, last = week.iter_days(Random(1))
    code = re.search(r"door code there is (\d+)", str(first))
    assert code
    assert code[1] in last[0][-1]["content"]


def test_demo_model_observes_agreements_and_keeps_them_when_condensing() -> None:
    said = [*chain.from_iterable(chain.from_iterable(week.iter_days(Random(1))))]
    spoken = [
        making.build_observed_slot(n, each["role"], NOON, each, tokens=40, count=None)
        for n, each in enumerate(said)
    ]
    transcript = prompts.render_transcript(spoken)
    found = observed_lines(observations.observe(transcript), end=len(said))
    facts = [each for each in found if each.mark == "critical"]
    assert len(facts) > 2 * len(week.DAYS)
    assert facts[0] == ObservationLine(
        NOON, "critical", "User said: We move to Harbour Street 3 on Friday.", 1, 2
    )
    outcome = next(each for each in found if each.mark == "done")
    assert outcome.end - outcome.first in (3, 4)
    assert not answers.is_too_large(found, estimate_tokens(transcript), estimate_tokens)
    log = prompts.quote_lines(lines.render_lines(found))
    tokens = estimate_tokens(lines.render_lines(found))
    whole, half = (
        observed_lines(observations.reflect(log, shorter=shorter), end=len(said))
        for shorter in (False, True)
    )
    assert estimate_tokens(lines.render_lines(half)) < estimate_tokens(
        lines.render_lines(whole)
    )
    for each in (whole, half):
        assert reflecting.is_valid_reflection(
            found, each, before_tokens=tokens, count=estimate_tokens
        )


def observed_lines(answer: object, *, end: int) -> tuple[ObservationLine, ...]:
    read = answers.read(json.dumps(answer), first=0, end=end)
    assert not isinstance(read, str)
    return read.lines


def test_demo_model_fails_twice_in_four_calls() -> None:
    observed = iter(range(4))
    asked = [
        {
            "role": "system",
            "content": prompts.build_prompt(prompts.OBSERVER, "Names.").text,
        },
        {"role": "user", "content": "[0] user 2026-05-04 12:00\n| We are 4."},
    ]
    said = [model.answer(asked, observed) for _ in range(4)]
    assert [each == model.SORRY for each in said] == [False, True, True, False]


def test_demo_model_extracts_facts_of_a_guest() -> None:
    exchange = (
        "| user: I moved to Porto. Nothing with nuts.\n| assistant: I moved to Cork."
    )
    found = [(each["predicate"], each["value"]) for each in model.find_claims(exchange)]
    assert found == [("lives_in", "Porto"), ("allergic_to", "nuts")]


def rates_fall_and_rise(folder: Path, thread: str) -> None:
    """Check that resident rate and TLB hit rate fall and rise from turn to turn."""
    with sqlite3.connect(folder / "memoryhub.sqlite3") as database:
        found = database.execute(
            "SELECT u.counters FROM memoryhub_turn u "
            "JOIN memoryhub_thread t ON t.id = u.thread_id WHERE t.name = ? "
            "ORDER BY u.n",
            [thread],
        )
        counters_of = [json.loads(counters) for (counters,) in found]
    resident = [
        rate for rate in map(projections.compute_rate, counters_of) if rate is not None
    ]
    assert min(resident) < 0.5
    assert max(resident) > 0.8
    steps = {later > sooner for sooner, later in pairwise(resident) if later != sooner}
    assert steps == {True, False}
    lookups = [(each["hits"], each["misses"]) for each in counters_of]
    moved = [
        (hits - before[0], misses - before[1])
        for before, (hits, misses) in pairwise(lookups)
    ]
    assert any(hits and not misses for hits, misses in moved)
    assert any(misses > hits for hits, misses in moved)


def count_events(folder: Path, thread: str) -> Counter[str]:
    """Count the events of a thread by type."""
    with sqlite3.connect(folder / "memoryhub.sqlite3") as database:
        found = database.execute(
            "SELECT e.type, e.body FROM memoryhub_event e "
            "JOIN memoryhub_thread t ON t.id = e.thread_id WHERE t.name = ?",
            [thread],
        )
        each = (split_evictions(kind, json.loads(body)) for kind, body in found)
        return Counter(kind for event in each for kind, _ in event)


def open_threads(folder: Path) -> list[str]:
    with sqlite3.connect(folder / "memoryhub.sqlite3") as database:
        asked = "SELECT name FROM memoryhub_thread WHERE status = 'open' AND NOT home"
        return [name for (name,) in database.execute(asked)]


def threads(folder: Path) -> dict[str, int]:
    """Return the number of slots by thread, of the demo in this folder."""
    with sqlite3.connect(folder / "memoryhub.sqlite3") as database:
        found = database.execute("SELECT name, slot_count FROM memoryhub_thread")
        return {str(name): int(slots) for name, slots in found}
