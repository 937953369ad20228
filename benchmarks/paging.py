"""Paging: look-ups, victims, packing and faults, by themselves and over HTTP.

The kernel is pure and is timed in this process, by CPU; chuk-ai-session-manager in one
of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from benchmarks import messages, peers
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, Server, workplace
from benchmarks.load import append_request, fault_request, send_all
from benchmarks.rounds import Sample, Series, ratio, take_turns
from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.paging.eviction import eviction
from memoryhub.kernel.paging.page_commands import BeginTurn, PinPage
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.tlb import Tlb
from tests.oracles.paging import Bench, build_page, build_slot, make

ENTRIES, FRAMES, PACKED = 512, 500, 200
LOOK_UPS, CHOICES = 40, 20
OURS, PEER = "ours", "chuk-ai-session-manager"
FAULTS = 100
#: As many faults as one exchange may be granted.
GENEROUS = {"max_faults_per_turn": 1_000, "max_fault_tokens_per_turn": 2_000_000}


def kernel(pace: Pace) -> list[Figure]:
    """Measure a TLB hit and the choice of victims, ours against a peer's."""
    if not peers.installed():
        return []
    hit = _against(
        partial(_look_up, _entries()), "look_up", ENTRIES, LOOK_UPS, pace.rounds
    )
    choose = _against(partial(_choose, _full()), "choose", FRAMES, CHOICES, pace.rounds)
    return [
        _figure("TLB look-up hit", hit, goal=20),
        _figure(f"victims among {FRAMES} frames", choose, goal=50),
    ]


def _against(
    ours: Callable[[int], float], what: str, size: int, rounds: int, turns: int
) -> dict[str, Series]:
    def own() -> Sample:
        return _cpu(count, ours(rounds))

    def theirs() -> Sample:
        told = peers.run("peer_chuk.py", what, str(size), str(rounds))
        return _cpu(count, told["cpu_seconds"])

    count = rounds * (size if what == "look_up" else 1)
    return take_turns({OURS: own, PEER: theirs}, rounds=turns)


def _cpu(count: int, seconds: float) -> Sample:
    """Return CPU seconds: the wall clock also times the machine's neighbours."""
    return Sample(requests=count, seconds=seconds, cpu_seconds=seconds)


def _figure(question: str, taken: dict[str, Series], *, goal: float) -> Figure:
    return Figure(
        question=f"{question}: rate by CPU, ours ÷ {PEER}'s",
        value=ratio(taken[OURS], taken[PEER]),
        goal=Goal(least=goal),
        behind=f"{taken[OURS].cpu_us:,.2f} µs against {taken[PEER].cpu_us:,.2f} µs",
        series=taken,
    )


def _entries() -> list[PageEntry]:
    bench = Bench(tlb_entries=ENTRIES)
    for number in range(ENTRIES):
        make(bench, build_page(f"page-{number}", 1))
    return bench.paging.tlb.list_oldest_first()


def _look_up(entries: list[PageEntry], rounds: int) -> float:
    """Return CPU seconds to find, touch and count each entry, in a jumping order."""
    tlb = Tlb()
    for entry in entries:
        tlb = tlb.insert(entry, size=ENTRIES)
    names = [entries[n * 37 % ENTRIES].page_id for n in range(ENTRIES)]
    start = time.process_time()
    for _ in range(rounds):
        for name in names:
            if tlb.find(name) is not None:
                tlb = tlb.record_hit(name)
    seconds = time.process_time() - start
    assert tlb.hits == rounds * len(names)
    return seconds


def _full() -> Bench:
    """Build a working set of messages and pages, some of them pinned."""
    bench = Bench()
    for number in range(FRAMES // 2):
        if number % 10 == 0:
            bench.do(BeginTurn())
        role = "user" if number % 5 == 0 else "tool"
        bench.do(AppendSlots(slots=(build_slot(100, role),)))
        make(bench, build_page(f"page-{number}", 100))
        if number % 5 == 0:
            bench.do(PinPage(page_id=f"page-{number}"))
    assert len(bench.paging.frames) == FRAMES
    return bench


def _choose(bench: Bench, rounds: int) -> float:
    """Return CPU seconds to list victims, with pins and scores computed each time."""
    start = time.process_time()
    for _ in range(rounds):
        eviction.list_victims(bench.state)
    return time.process_time() - start


def packs(pace: Pace) -> list[Figure]:
    """Measure CPU of packing a request of 200 frames, with texts at hand or not."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        hub.key()
        told = hub.call(
            "benchmarks.packs:measure", frames=PACKED, rounds=max(5, pace.rounds)
        )
    seconds = json.loads(told.splitlines()[-1])
    return [
        Figure(
            question=f"CPU of packing {PACKED} frames, {what}",
            value=median(seconds[name]) * 1_000,
            unit=" ms",
            goal=Goal(most=most),
            behind=f"{min(seconds[name]) * 1_000:.1f} to "
            f"{max(seconds[name]) * 1_000:.1f} ms; {seconds['tokens']:,} tokens",
        )
        for name, what, most in (
            ("warm", "texts at hand", 3),
            ("cold", "texts read and opened", 15),
        )
    ]


def faults(pace: Pace) -> list[Figure]:
    """Measure a page fault with a TLB hit against an append, one client over HTTP."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            server.send("PUT", "/threads/pages", key, {"config": GENEROUS})
            work = {
                "fault": partial(_fault, server, key, _batches()),
                "append": partial(_append, server, key),
            }
            taken = take_turns(work, rounds=pace.rounds)
    fault, append = taken["fault"], taken["append"]
    return [
        Figure(
            question="page fault with a TLB hit ÷ append, latency over HTTP",
            value=ratio(append, fault),
            goal=Goal(most=1.2),
            behind=f"{fault.described()} against {append.described()}, one client",
            series=taken,
        )
    ]


def _batches() -> Iterator[list[str]]:
    number = 0
    while True:
        yield [f"page-{n}" for n in range(number, number + FAULTS)]
        number += FAULTS


def _fault(server: Server, key: str, batches: Iterator[list[str]]) -> Sample:
    """Fetch pages that were just made, so the TLB has them, and that nothing mapped."""
    names = next(batches)
    # The user's message renews the budget of faults.
    asked = {"content": "Go on.", "from": "user", "to": "agent", "type": "chat.user"}
    server.post("/threads/pages/turns", key, {"items": [asked]})
    for message, name in zip(messages.messages(), names, strict=False):
        made = {
            "page_id": name,
            "type": "artifact",
            "modality": "text",
            "content": {"text": messages.text_of(message)},
            "map": False,
        }
        server.post("/threads/pages/pages", key, made)
    return send_all(server, [fault_request("pages", key, name) for name in names])


def _append(server: Server, key: str) -> Sample:
    taken = messages.messages()[:FAULTS]
    return send_all(server, [append_request("slots", key, each) for each in taken])
