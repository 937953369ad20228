"""Soak: two servers on one data folder under steady load, one of them killed at times.

`python -m benchmarks.soak --minutes 60 --rate 300 --kill-every 60` writes `soak.json`
and `soak.svg`, and fails if an acknowledged write is lost. The first server is never
killed, so that its memory is that of the whole time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import linear_regression
from typing import Any

from benchmarks.hubs import ROOT, Hub, Server, workplace
from benchmarks.soak_chart import MIB, draw_chart
from tests.promises.journal.clients import percentile
from tests.promises.journal.writers import list_stored_slots

PROCESSES, SAMPLE_SECONDS, SERVED = 3, 5.0, {200, 201}


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    """Minutes, requests a second, and seconds between kills (0 kills nobody)."""

    minutes: float
    rate: float
    kill_every: float


@dataclass(slots=True)
class Writes:
    """Ids of messages that clients sent, by thread."""

    #: Acknowledged, by index; a turn acknowledges without an index.
    promised: dict[str, dict[int, str]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    turns: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    #: Not acknowledged, and perhaps stored.
    unknown: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def acknowledged(self) -> int:
        return sum(map(len, [*self.promised.values(), *self.turns.values()]))

    def note(self, told: Mapping[str, Any]) -> None:
        """Keep what a request wrote."""
        thread, said = told.get("thread", ""), told.get("said", ())
        if told["status"] not in SERVED:
            self.unknown[thread].update(said)
        elif told["kind"] == "turn":
            self.turns[thread].update(said)
        elif said:
            self.promised[thread].update(zip(told["indexes"], said, strict=True))

    def find_faults(self, thread: str, stored: list[tuple[int, str]]) -> list[str]:
        """Compare a thread's stored messages, as index and id, with what was sent."""
        texts, promised = [said for _, said in stored], self.promised[thread]
        sent = {*promised.values()} | self.turns[thread] | self.unknown[thread]
        faults = {
            "lost": {*promised.items()} - {*stored},
            "lost of a turn": self.turns[thread] - {*texts},
            "stored twice": [said for said, n in Counter(texts).items() if n > 1],
            "never sent": {*texts} - sent,
            "not dense": [at for at, (index, _) in enumerate(stored) if at != index],
        }
        return [f"{thread}: {what}: {found}" for what, found in faults.items() if found]


@dataclass(slots=True)
class Soak:
    """Running soak: its servers, and what the clients have told so far."""

    hub: Hub
    plan: SoakPlan
    servers: list[Server]
    #: Requests since the last sample, as the clients' lines tell them.
    told: deque[dict[str, Any]] = field(default_factory=deque)
    writes: Writes = field(default_factory=Writes)
    statuses: Counter[int] = field(default_factory=Counter)
    kills: list[float] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.time)

    def run(self, stack: ExitStack) -> None:
        """Sample, and kill the second server, until the time is over."""
        every = self.plan.kill_every or float("inf")
        sampled, killed = SAMPLE_SECONDS, every
        while (now := time.time() - self.began) < self.plan.minutes * 60:
            if now >= killed:
                self.kill_second(stack)
                killed = now + every
            if now >= sampled:
                self.take_sample()
                sampled = now + SAMPLE_SECONDS
            time.sleep(0.05)

    def kill_second(self, stack: ExitStack) -> None:
        """Kill the second server and start it again on its port."""
        old = self.servers[1]
        self.kills.append(time.time() - self.began)
        old.process.kill()
        old.process.wait()
        self.servers[1] = stack.enter_context(self.hub.serve(port=old.port))

    def take_sample(self) -> None:
        told = [self.told.popleft() for _ in range(len(self.told))]
        before = self.writes.acknowledged
        for each in told:
            self.writes.note(each)
        statuses = Counter(each["status"] for each in told)
        self.statuses += statuses
        at = time.time() - self.began
        span = at - (self.samples[-1]["at"] if self.samples else 0)
        seconds = [each["seconds"] for each in told if each["status"] in SERVED] or [0]
        files = [path for path in self.hub.data.rglob("*") if path.is_file()]
        acknowledged = self.writes.acknowledged
        self.samples.append(
            {
                "at": at,
                "memory_bytes": [each.memory_bytes() or 0 for each in self.servers],
                "p50_seconds": percentile(seconds, 0.5),
                "p99_seconds": percentile(seconds, 0.99),
                "requests_per_second": len(told) / span,
                "writes_per_second": (acknowledged - before) / span,
                "errors": {n: c for n, c in statuses.items() if n not in SERVED},
                "acknowledged": acknowledged,
                "disk_bytes": sum(path.stat().st_size for path in files),
            }
        )

    def find_faults(self, key: str) -> list[str]:
        """Read all threads back from the server that was never killed."""
        port, faults = self.servers[0].port, list[str]()
        for thread in sorted({*self.writes.promised, *self.writes.turns}):
            slots = list_stored_slots(port, key, thread)
            stored = [(each["index"], each["content"]["content"]) for each in slots]
            ids = [(index, text.partition(" ")[0]) for index, text in stored]
            faults += self.writes.find_faults(thread, ids)
        return faults

    def build_report(self, key: str) -> dict[str, Any]:
        # The first quarter fills caches.
        warm = self.samples[len(self.samples) // 4 :]
        hours = [each["at"] / 3_600 for each in warm]
        memory = [each["memory_bytes"][0] / MIB for each in warm]
        growth = linear_regression(hours, memory).slope if len(warm) > 1 else None
        return {
            "plan": asdict(self.plan),
            "faults": self.find_faults(key),
            "statuses": dict(self.statuses),
            "acknowledged": self.writes.acknowledged,
            "unknown": sum(map(len, self.writes.unknown.values())),
            "threads": len(self.writes.promised),
            "growth_mib_an_hour": growth,
            "kills": self.kills,
            "samples": self.samples,
        }


def soak(hub: Hub, key: str, plan: SoakPlan) -> dict[str, Any]:
    """Soak a hub that allows the rate, and return the report.

    `faults` of the report are found by reading every thread back. Raises RuntimeError
    where `verify --all` fails.
    """
    with ExitStack() as stack:
        servers = [stack.enter_context(hub.serve()) for _ in range(2)]
        run = Soak(hub, plan, servers)
        given = {
            "ports": [each.port for each in servers],
            "key": key,
            "rate": plan.rate / PROCESSES,
            "seconds": plan.minutes * 60,
        }
        with ThreadPoolExecutor(PROCESSES) as pool:
            clients = [
                pool.submit(_follow_clients, {**given, "process": number}, run.told)
                for number in range(PROCESSES)
            ]
            run.run(stack)
            for each in clients:
                each.result()
        run.take_sample()
        report = run.build_report(key)
    return {"verified": hub.manage("verify", "--all"), **report}


def _follow_clients(given: Mapping[str, Any], told: deque[dict[str, Any]]) -> None:
    """Run a process of clients to its end, and keep what it tells."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "benchmarks.soak_clients"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(given))
        process.stdin.close()
        told.extend(map(json.loads, process.stdout))
    if process.returncode:
        raise RuntimeError("the clients ended early")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=300, help="requests a second")
    parser.add_argument("--kill-every", type=float, default=60, help="seconds")
    parser.add_argument("--to", type=Path, default=ROOT / "var" / "soak")
    given = vars(parser.parse_args(arguments))
    place = given.pop("to")
    place.mkdir(parents=True, exist_ok=True)
    with workplace() as folder:
        hub = Hub.fresh(folder)
        report = soak(hub, hub.key(), SoakPlan(**given))
    (place / "soak.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    (place / "soak.svg").write_text(draw_chart(report), encoding="utf-8")
    del report["samples"]
    print(json.dumps(report, indent=1))
    return 1 if report["faults"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
