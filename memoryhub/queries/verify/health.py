"""Health: whether this process can serve, and its degraded parts. Never writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import Error

from memoryhub.errors import StartRefusedError
from memoryhub.journal import writer
from memoryhub.journal.log.announce import doorbell
from memoryhub.models.keys import KekCheck
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import SECOND_NS, clock
from memoryhub.models.server.leases import Lease
from memoryhub.queries.forget import erasures, expiry
from memoryhub.vault.keys import keyring

#: The worker beats every ten seconds; after this time without a beat it counts as gone.
BEAT = timedelta(seconds=60)
#: Expired keys and values are swept within this time, or within the configured interval
#: and half of this time, if that is longer.
SWEPT_WITHIN = timedelta(seconds=60)
#: Share of the writer's queue from which on the writer counts as degraded.
CROWDED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """A part of the process: `ok`, `degraded` or `away`, and figures about it."""

    state: str
    figures: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"state": self.state, **self.figures}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """All parts of the process. The process cannot serve while any part is `away`."""

    parts: dict[str, HealthCheck]

    @property
    def serving(self) -> bool:
        return all(part.state != "away" for part in self.parts.values())

    @property
    def degraded(self) -> list[str]:
        """Names of the parts that are not `ok`, sorted."""
        return sorted(name for name, part in self.parts.items() if part.state != "ok")

    def to_json(self) -> dict[str, Any]:
        word = "degraded" if self.degraded else "ok"
        return {
            "status": word if self.serving else "unavailable",
            "parts": {name: part.to_json() for name, part in self.parts.items()},
            "degraded": self.degraded,
        }


def get_readiness() -> Readiness:
    """Check every part. At most seven small queries; a part that fails is `away`."""
    checks: dict[str, Callable[[], HealthCheck]] = {
        "clock": _check_clock,
        "journal": _check_journal,
        "keys": _check_keys,
        "writer": _check_writer,
        "live": _check_live,
        "worker": _check_worker,
        "expiry": _check_expiry,
        "erasures": _check_erasures,
    }
    return Readiness(parts={name: _run_check(check) for name, check in checks.items()})


def _run_check(check: Callable[[], HealthCheck]) -> HealthCheck:
    try:
        return check()
    except (Error, StartRefusedError) as failure:
        return HealthCheck(state="away", figures={"code": type(failure).__name__})


def _check_clock() -> HealthCheck:
    """Check the clock's skew, measured by the worker; skew refuses all requests."""
    figures = {"behind_seconds": clock.skew_ns / SECOND_NS}
    return HealthCheck(state="away" if clock.is_skewed else "ok", figures=figures)


def _check_journal() -> HealthCheck:
    found = Instance.objects.exists()
    return HealthCheck(state="ok" if found else "away", figures={})


def _check_keys() -> HealthCheck:
    ring = keyring.get_ring()
    rows = KekCheck.objects.using("keys").filter(kek_id=ring.current_id)
    found = rows.values_list("backed_up_at").first()
    at = found[0] if found else None
    age = int((clock.now() - at).total_seconds()) if at else None
    figures = {"backed_up": at is not None, "backup_age_seconds": age}
    return HealthCheck(state="ok" if found else "away", figures=figures)


def _check_writer() -> HealthCheck:
    waiting = writer.waiting
    figures = {"waiting": waiting}
    if not writer.is_running:
        return HealthCheck(state="away", figures=figures)
    crowded = waiting > settings.QUEUE_COMMANDS * CROWDED
    return HealthCheck(state="degraded" if crowded else "ok", figures=figures)


def _check_live() -> HealthCheck:
    """Check the channel layer; without the layer, watchers poll."""
    return HealthCheck(state="degraded" if doorbell.broken else "ok", figures={})


def _check_worker() -> HealthCheck:
    beaten = Lease.objects.order_by("-beaten_at").values_list("beaten_at", flat=True)
    last = beaten.first()
    age = (clock.now() - last) if last else None
    figures = {"age_seconds": None if age is None else int(age.total_seconds())}
    # Without a worker the server still serves memory, and maintenance waits.
    alive = age is not None and abs(age) < BEAT
    return HealthCheck(state="ok" if alive else "degraded", figures=figures)


def _check_expiry() -> HealthCheck:
    """Check how long the oldest expired key or value waits; reads never wait for it."""
    try:
        lag = expiry.get_lag(clock.now())
    except Error as failure:
        figures = {"lag_seconds": None, "code": type(failure).__name__}
        return HealthCheck(state="degraded", figures=figures)
    every = timedelta(seconds=settings.EXPIRY_INTERVAL_SECONDS)
    late = lag > max(SWEPT_WITHIN, every + SWEPT_WITHIN / 2)
    seconds = {"lag_seconds": int(lag.total_seconds())}
    return HealthCheck(state="degraded" if late else "ok", figures=seconds)


def _check_erasures() -> HealthCheck:
    """Check unfinished erasures. Confirmed targets are unreadable in any case."""
    try:
        late, broken = erasures.count_troubled(clock.now())
    except Error as failure:
        figures = {"late": None, "code": type(failure).__name__}
        return HealthCheck(state="degraded", figures=figures)
    counts = {"late": late, "broken": broken}
    return HealthCheck(state="degraded" if late or broken else "ok", figures=counts)
