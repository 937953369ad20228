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
    ticks_ns,
)

ROOT = Path(__file__).resolve().parent.parent.parent
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * SECOND_NS
#: Who may ask the machine for the time: the clock itself, and the demo's agents, which
#: stand for somebody else's.
READERS = {"memoryhub/models/server/clock.py", "memoryhub/management/demo/agents.py"}
WALL = {
    *("time.time", "time.time_ns", "timezone.now", "datetime.now", "datetime.utcnow"),
    *("datetime.today", "date.today"),
}


class Machine:
    """A wall clock that anybody may set, and the count that nobody can."""

    def __init__(self) -> None:
        self.wall_ns, self.ticks = NOON_NS, 5 * SECOND_NS

    def clock(self) -> Clock:
        return Clock(wall_ns=lambda: self.wall_ns, ticks=lambda: self.ticks)


def test_time_passes_with_the_count_whatever_the_wall_says() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock.now() == NOON
    for jump in (timedelta(days=90), timedelta(days=-90)):
        machine.wall_ns += int(jump.total_seconds()) * SECOND_NS
        assert clock.now() == NOON
    machine.ticks += 3 * SECOND_NS
    assert clock.now() == NOON + timedelta(seconds=3)
    assert clock.time() == NOON.timestamp() + 3


@pytest.mark.parametrize("behind_ns", [0, 1_000_000, TOLERANCE_NS, -TOLERANCE_NS])
def test_a_little_is_caught_up_with(behind_ns: int) -> None:
    clock = Machine().clock()
    clock.compare(behind_ns)
    clock.require_true()
    assert clock.time_ns() == NOON_NS + behind_ns
    assert not clock.skewed


@pytest.mark.parametrize("behind_ns", [TOLERANCE_NS + 1, -TOLERANCE_NS - 1])
def test_much_is_not_followed_but_said(behind_ns: int) -> None:
    clock = Machine().clock()
    clock.compare(behind_ns)
    assert clock.skewed
    with pytest.raises(ClockSkewError):
        clock.require_true()
    assert clock.now() == NOON
    # The other was wrong, or was put right.
    clock.compare(0)
    clock.require_true()


def test_the_real_one_goes_as_the_wall_does() -> None:
    real, wall = Clock(), time.time()
    assert abs(real.time() - wall) < 1
    before = ticks_ns()
    assert ticks_ns() >= before > 0


def test_a_test_may_change_the_time() -> None:
    with time_machine.travel(NOON, tick=False):
        assert clock.now() == NOON


def test_nobody_else_may(settings: Settings) -> None:
    settings.TESTING = False
    clock = Machine().clock()
    clock.hook(lambda: 0)
    assert clock.now() == NOON


def test_only_the_clock_asks_the_machine_for_the_time() -> None:
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
