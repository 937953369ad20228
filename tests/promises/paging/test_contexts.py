"""P24: a recorded context reassembles to its recorded bytes; on real traffic.

The recorded runs of a real agent are played under 6,000 tokens, where many pages leave
and come back. Simulators of their own check the paging.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memoryhub.journal.log import log
from memoryhub.journal.texts import texts
from memoryhub.kernel.context import tokens
from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.replay import evolve
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.events import SlotAppended, ThreadConfig
from memoryhub.kernel.state.page_events import (
    PageEvicted,
    PageLowered,
)
from memoryhub.kernel.state.paging_config import FORMATS
from memoryhub.kernel.state.state import ScopeLabels, ThreadState
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import curves
from memoryhub.queries.replay import replay, tokenizers
from memoryhub.queries.turns import contexts
from memoryhub.services.rebuild import rebuild
from memoryhub.services.threads import threads
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import sample
from tests.cast.factories import get_thread, make_agent, make_slot, make_thread, run
from tests.cast.recordings import take
from tests.harness.instances import Instance
from tests.oracles.paging import split_events
from tests.validators import require_request

BUDGET = 6_000
BUDGETS = [2_000, 3_000, BUDGET, 16_000]
#: Runs of the sample that each check plays; at night, all.
RUNS = [pytest.param(4, id="some"), pytest.param(100, marks=pytest.mark.nightly)]

pytestmark = pytest.mark.timeout(900)


def some_runs(folder: Path, count: int) -> Path:
    """Write a file of the longest recorded runs, so many."""
    found = json.loads(sample.require_path().read_text(encoding="utf-8"))
    longest = sorted(found, key=lambda each: -len(json.dumps(each["traj"])))[:count]
    path = folder / f"{sample.NAME}.json"
    path.write_text(json.dumps(longest), encoding="utf-8")
    return path


def imported(
    project: Project, path: Path, *, budget: int = BUDGET, **settings: Any
) -> list[Thread]:
    """Return the threads of the played runs; `settings` make the threads beforehand."""
    if settings:
        agent = make_agent(project)
        for each in json.loads(path.read_text(encoding="utf-8")):
            name = f"{path.stem}:{each['task_id']}:{each['trial']}"
            user_id = each["info"]["task"]["user_id"]
            make_thread(agent, name, user_id=user_id, **settings)
    job, bad = take(project, path, budget=budget)
    assert (job.complete, bad) == (True, [])
    rows = Thread.objects.filter(project=project).select_related("subject")
    return list(rows.order_by("name"))


def requests(thread: Thread) -> dict[int, bytes]:
    """Return by turn the request, assembled from the database alone."""
    texts.clear()
    found = {}
    for turn in range(1, thread.turn_count + 1):
        recorded = contexts.get_recorded_turn(thread, turn)
        found[turn] = contexts.require_request(
            contexts.reassemble_request(thread, recorded)
        )
        assert hashlib.sha256(found[turn]).hexdigest() == recorded.sha256
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """An event, and the thread before and after it."""

    before: ThreadState
    event: EventBody
    after: ThreadState


def iter_steps(thread: Thread) -> Iterator[Step]:
    state = log.build_origin(thread)
    for row in log.iter_rows(thread.id):
        recorded = log.to_recorded(row)
        after = evolve(state, recorded)
        yield Step(state, recorded.event, after)
        state = after


@pytest.mark.promise("P24", load="the contexts of {count} recorded runs, 3 processes")
@pytest.mark.slow
@pytest.mark.parametrize("count", RUNS)
def test_recorded_context_reassembles_byte_for_byte(
    instance: Instance, tmp_path: Path, count: int
) -> None:
    path = some_runs(tmp_path, count)
    instance.managed("create_project", "acme")
    words = ["import", path, "--project=acme", "--json", f"--budget={BUDGET}"]
    told = json.loads(instance.managed(*words))
    recorded = told["paging"]["contexts"]
    assert recorded == told["turns"] > 0
    exact = f"{recorded:,} of {recorded:,} contexts byte-exact.\n"
    assert instance.managed("verify", "--contexts", "--all") == exact
    instance.managed("rebuild")
    assert instance.managed("verify", "--contexts", "--all") == exact
    assert "every chain is whole" in instance.managed("verify", "--all")


@pytest.mark.promise("P24", load="the contexts of {count} recorded runs, a fork")
@pytest.mark.django_db
@pytest.mark.parametrize("count", RUNS)
def test_contexts_are_byte_exact_after_a_rebuild_and_in_a_fork(
    acme: Project, tmp_path: Path, count: int
) -> None:
    agent = make_agent(acme)
    for thread in imported(acme, some_runs(tmp_path, count)):
        before = requests(thread)
        rebuild(thread)
        assert requests(get_thread(agent, thread.name)) == before
        command = threads.build_fork(
            thread,
            thread.head_seq,
            scope=ScopeLabels(),
            labels=None,
            config=ThreadConfig(),
        )
        run(threads.fork(agent=agent, name=f"{thread.name}-fork", command=command))
        new = NewTurn(slots=[make_slot("And then?", type="chat.user")])
        begun = run(
            turns.begin_turn(agent=agent, thread=f"{thread.name}-fork", new=new)
        )
        fork = get_thread(agent, f"{thread.name}-fork")
        assert requests(fork) == {**before, begun.turn: begun.request}


@pytest.mark.promise("P24", load="the contexts of {count} recorded runs, their budget")
@pytest.mark.django_db
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("shape", FORMATS)
@pytest.mark.parametrize("count", RUNS)
def test_no_request_is_over_its_budget_or_without_the_users_message(
    acme: Project, tmp_path: Path, *, count: int, shape: str, budget: int
) -> None:
    """The strictest server accepts every request that keeps the conversation."""
    runs = some_runs(tmp_path, count)
    for thread in imported(acme, runs, budget=budget, format=shape):
        for turn, request in requests(thread).items():
            assert tokens.estimate_tokens(request.decode()) <= budget
            require_request(shape, json.loads(request))
            sections = contexts.get_recorded_turn(thread, turn).record.sections
            shown = {ref.seq for section in sections for ref in section.refs}
            slots = thread.slots.filter(turn__lt=turn, role="user")
            newest = slots.order_by("-index").first()
            if newest is not None:
                assert shown & list_level_seqs(
                    thread, f"slot-{newest.index}", newest.seq
                )


@pytest.mark.django_db
@pytest.mark.parametrize("count", RUNS)
def test_request_budgets_hold_by_o200k_base(
    acme: Project, tmp_path: Path, count: int
) -> None:
    """Tokens are counted on the bytes, where more is mapped than a request may hold."""
    tokenizer, fullest = tokenizers.get_nearest("o200k_base"), 0
    settings: dict[str, Any] = {
        "tokenizer": tokenizer.name,
        "budget_tokens": 2 * BUDGET,
    }
    for thread in imported(acme, some_runs(tmp_path, count), **settings):
        for turn, request in requests(thread).items():
            record = contexts.get_recorded_turn(thread, turn).record
            counted = tokenizer.count(request.decode())
            assert (record.tokenizer, record.tokens) == (tokenizer.name, counted)
            assert counted <= BUDGET
            fullest = max(fullest, counted)
    # What each page may cost at most adds up to little more than they do together.
    assert fullest > BUDGET * 0.9


def list_level_seqs(thread: Thread, page_id: str, seq: int) -> set[int]:
    """Return seqs of the events that hold a level of the page."""
    rows = thread.events.filter(type="page.compressed", page=page_id)
    return {seq, *rows.values_list("seq", flat=True)}


@pytest.mark.django_db
@pytest.mark.parametrize("count", RUNS)
@pytest.mark.parametrize("policy", ["importance_lru", "lru", "modality_lru", "sieve"])
def test_paging_does_what_its_simulators_do(
    acme: Project, tmp_path: Path, count: int, policy: str
) -> None:
    """The TLB agrees at each event, and no victim was pinned."""
    settings: dict[str, Any] = {
        "budget_tokens": BUDGET,
        "reserved_tokens": BUDGET // 2,
        "policy": policy,
        # Small enough that look-ups miss and the hot list overflows.
        "tlb_entries": 5,
        "l1_pages": 4,
    }
    victims = misses = 0
    for thread in imported(acme, some_runs(tmp_path, count), **settings):
        victims += no_victim_was_pinned(thread)
        misses += tlb_is_an_lru(thread, entries=5)
        curve_meets_recorded_misses(thread)
    assert victims > 10 * count**0.5
    assert misses > count


def curve_meets_recorded_misses(thread: Thread) -> None:
    state = replay.load_state_at(thread, thread.head_seq).state
    found = curves.get_curves(thread, state)
    assert (found.misses, found.lookups) == (
        thread.tlb_misses,
        thread.tlb_hits + thread.tlb_misses,
    )
    by_size = {point.size: point for point in found.points}
    assert by_size[5].lru == thread.tlb_misses
    assert all(p.least <= min(p.lru, p.sieve) for p in found.points)


def no_victim_was_pinned(thread: Thread) -> int:
    """Assert that no victim was pinned when it left; return the number of victims."""
    victims = 0
    for step in iter_steps(thread):
        for event in split_events([step.event]):
            if not isinstance(event, PageEvicted | PageLowered):
                continue
            if getattr(event, "tier_before", "L0") == "L0":
                rule = pins.list_pinned(step.before).get(event.page_id)
                # For what its exchange needs what is pinned by itself gives way, too.
                needed = {"exchange", "recent", "claim"} if event.score is None else ()
                assert rule is None or rule in needed
                victims += 1
    return victims


def tlb_is_an_lru(thread: Thread, *, entries: int) -> int:
    """Assert that an LRU fed with the journal's look-ups agrees with the TLB."""
    held: OrderedDict[str, None] = OrderedDict()
    hits = misses = 0
    for step in iter_steps(thread):
        page_id, hit = None, None
        if isinstance(step.event, SlotAppended):
            page_id = f"slot-{step.event.index}"
        elif getattr(step.event, "lookup", None):
            page_id = step.event.page_id  # type: ignore[attr-defined]  # has looked it up
            hit = page_id in held
            assert step.event.lookup == ("hit" if hit else "miss")  # type: ignore[attr-defined]  # the same
            hits, misses = hits + hit, misses + (not hit)
        if page_id is not None:
            held[page_id] = None
            held.move_to_end(page_id)
            if len(held) > entries:
                held.popitem(last=False)
        tlb = step.after.paging.tlb
        assert [each.page_id for each in tlb.list_oldest_first()] == list(held)
    assert (thread.tlb_hits, thread.tlb_misses) == (hits, misses)
    return misses
