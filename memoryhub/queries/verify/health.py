"""Health: whether this process can serve, and what of it is degraded. Never writes."""

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

#: The loop beats every ten seconds; after this long it counts as gone.
BEAT = timedelta(seconds=60)
#: What has expired is swept within this, or half of it after the interval that is set.
SWEPT_WITHIN = timedelta(seconds=60)
#: Of the writer's queue that may wait before it is said.
CROWDED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """A part of the process: `ok`, `degraded` or `away`, and figures about it."""

    state: str
    figures: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"state": self.state, **self.figures}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """All parts. Without one that is away the process can't serve."""

    parts: dict[str, HealthCheck]

    @property
    def serving(self) -> bool:
        return all(part.state != "away" for part in self.parts.values())

    @property
    def degraded(self) -> list[str]:
        """The parts that are not `ok`, sorted."""
        return sorted(name for name, part in self.parts.items() if part.state != "ok")

    def as_json(self) -> dict[str, Any]:
        word = "degraded" if self.degraded else "ok"
        return {
            "status": word if self.serving else "unavailable",
            "parts": {name: part.as_json() for name, part in self.parts.items()},
            "degraded": self.degraded,
        }


def get_readiness() -> Readiness:
    """Check every part. At most seven small queries; a part that fails is `away`."""
    checks: dict[str, Callable[[], HealthCheck]] = {
        "clock": _clock,
        "journal": _journal,
        "keys": _keys,
        "writer": _writer,
        "live": _live,
        "worker": _worker,
        "expiry": _expiry,
        "erasures": _erasures,
    }
    return Readiness(parts={name: _checked(check) for name, check in checks.items()})


def _checked(check: Callable[[], HealthCheck]) -> HealthCheck:
    try:
        return check()
    except (Error, StartRefusedError) as failure:
        return HealthCheck(state="away", figures={"code": type(failure).__name__})


def _clock() -> HealthCheck:
    """Compared by the worker: while it is off, every request is refused."""
    figures = {"behind_seconds": clock.skew_ns / SECOND_NS}
    return HealthCheck(state="away" if clock.skewed else "ok", figures=figures)


def _journal() -> HealthCheck:
    found = Instance.objects.exists()
    return HealthCheck(state="ok" if found else "away", figures={})


def _keys() -> HealthCheck:
    ring = keyring.ring()
    found = KekCheck.objects.using("keys").filter(kek_id=ring.current_id).exists()
    figures = {"backed_up": keyring.kek_backed_up()}
    return HealthCheck(state="ok" if found else "away", figures=figures)


def _writer() -> HealthCheck:
    waiting = writer.waiting
    figures = {"waiting": waiting}
    if not writer.running:
        return HealthCheck(state="away", figures=figures)
    crowded = waiting > settings.QUEUE_COMMANDS * CROWDED
    return HealthCheck(state="degraded" if crowded else "ok", figures=figures)


def _live() -> HealthCheck:
    """The channel layer: without it watchers look by themselves."""
    return HealthCheck(state="degraded" if doorbell.broken else "ok", figures={})


def _worker() -> HealthCheck:
    beaten = Lease.objects.order_by("-beaten_at").values_list("beaten_at", flat=True)
    last = beaten.first()
    age = (clock.now() - last) if last else None
    figures = {"age_seconds": None if age is None else int(age.total_seconds())}
    # Without it memory is served all the same, only not tidied.
    alive = age is not None and abs(age) < BEAT
    return HealthCheck(state="ok" if alive else "degraded", figures=figures)


def _expiry() -> HealthCheck:
    """How long the oldest expired key or value waits; answers don't, whatever it is."""
    try:
        lag = expiry.get_lag(clock.now())
    except Error as failure:
        figures = {"lag_seconds": None, "code": type(failure).__name__}
        return HealthCheck(state="degraded", figures=figures)
    every = timedelta(seconds=settings.EXPIRY_INTERVAL_SECONDS)
    late = lag > max(SWEPT_WITHIN, every + SWEPT_WITHIN / 2)
    seconds = {"lag_seconds": int(lag.total_seconds())}
    return HealthCheck(state="degraded" if late else "ok", figures=seconds)


def _erasures() -> HealthCheck:
    """What was confirmed is unreadable at once; only its receipt may keep waiting."""
    try:
        late, broken = erasures.count_troubled(clock.now())
    except Error as failure:
        figures = {"late": None, "code": type(failure).__name__}
        return HealthCheck(state="degraded", figures=figures)
    counts = {"late": late, "broken": broken}
    return HealthCheck(state="degraded" if late or broken else "ok", figures=counts)
