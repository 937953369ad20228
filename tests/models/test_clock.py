from __future__ import annotations

import ast
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from pytest_django import Settings

from memoryhub.errors import ClockSkewError
from memoryhub.models.server.clock import (
    SECOND_NS,
    TOLERANCE_NS,
    Clock,
    clock,
    read_ticks_ns,
)

ROOT = Path(__file__).resolve().parent.parent.parent
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * SECOND_NS
#: Who may ask the machine for the time: the clock itself, and the demo's agents, which
#: stand for somebody else's.
READERS = {
    "memoryhub/models/server/clock.py",
    "memoryhub/demo/agents.py",
    # The start of the process, as Prometheus wants it.
    "memoryhub/api/metrics.py",
}
WALL = {
    *("time.time", "time.time_ns", "timezone.now", "datetime.now", "datetime.utcnow"),
    *("datetime.today", "date.today"),
}


class Machine:
    """Wall clock that anybody may set, and a tick count that nobody can."""

    def __init__(self) -> None:
        self.wall_ns, self.ticks = NOON_NS, 5 * SECOND_NS

    def build_clock(self) -> Clock:
        return Clock(wall_ns=lambda: self.wall_ns, ticks=lambda: self.ticks)


def test_clock_follows_the_tick_count_not_the_wall_clock() -> None:
    machine = Machine()
    clock = machine.build_clock()
    assert clock.now() == NOON
    for jump in (timedelta(days=90), timedelta(days=-90)):
        machine.wall_ns += int(jump.total_seconds()) * SECOND_NS
        assert clock.now() == NOON
    machine.ticks += 3 * SECOND_NS
    assert clock.now() == NOON + timedelta(seconds=3)
    assert clock.time() == NOON.timestamp() + 3


@pytest.mark.parametrize("behind_ns", [0, 1_000_000, TOLERANCE_NS, -TOLERANCE_NS])
def test_small_clock_skew_is_corrected(behind_ns: int) -> None:
    clock = Machine().build_clock()
    clock.compare(behind_ns)
    clock.require_true()
    assert clock.time_ns() == NOON_NS + behind_ns
    assert not clock.is_skewed


@pytest.mark.parametrize("behind_ns", [TOLERANCE_NS + 1, -TOLERANCE_NS - 1])
def test_large_clock_skew_is_reported_and_not_corrected(behind_ns: int) -> None:
    clock = Machine().build_clock()
    clock.compare(behind_ns)
    assert clock.is_skewed
    with pytest.raises(ClockSkewError):
        clock.require_true()
    assert clock.now() == NOON
    # The other was wrong, or was put right.
    clock.compare(0)
    clock.require_true()


def test_real_clock_follows_the_wall_clock() -> None:
    real, wall = Clock(), time.time()
    assert abs(real.time() - wall) < 1
    before = read_ticks_ns()
    assert read_ticks_ns() >= before > 0


def test_clock_hook_sets_the_time_in_tests() -> None:
    with time_machine.travel(NOON, tick=False):
        assert clock.now() == NOON


def test_clock_hook_is_ignored_outside_tests(settings: Settings) -> None:
    settings.TESTING = False
    clock = Machine().build_clock()
    clock.use_source(lambda: 0)
    assert clock.now() == NOON


def test_machine_time_is_read_by_the_clock_only() -> None:
    sources = [
        path
        for folder in ("memoryhub", "inspector")
        for path in (ROOT / folder).rglob("*.py")
        if "migrations" not in path.parts
    ]
    found = {str(path.relative_to(ROOT)) for path in sources if asks(path)}
    assert found == READERS


def asks(source: Path) -> bool:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    named = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return any(ast.unparse(node) in WALL for node in named)
