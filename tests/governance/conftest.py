"""What is asked of a memory, from outside: a hub of its own, and two figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.governance.hubs import Hub
from tests.governance.table import NINETEEN
from tests.instances import instance as fresh_instance
from tests.promises.clients import UNLIMITED

MARK = "governance"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Any]:
    with fresh_instance(tmp_path / "instance") as made:
        made.prepare()
        yield made


@pytest.fixture
def hub(instance: Any) -> Iterator[Hub]:
    """A served instance with the projects acme and other."""
    with ExitStack() as stack:
        server = stack.enter_context(instance.serve(**UNLIMITED))
        maker = instance.start("tests.governance.acts:make_keys", "acme", "other")
        yield Hub(
            instance=instance,
            server=server,
            maker=stack.enter_context(maker),
            stack=stack,
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers(MARK):
            item.user_properties += [(MARK, number) for number in mark.args]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Obligations and negative invariants, never as one figure."""
    outcomes: dict[int, bool] = {}
    for word, reports in terminalreporter.stats.items():
        for report in reports:
            for name, number in getattr(report, "user_properties", ()):
                if name == MARK and word in ("passed", "failed"):
                    outcomes[number] = outcomes.get(number, True) and word == "passed"
    if not outcomes:
        return
    for negative, what in ((False, "obligations"), (True, "negative invariants")):
        wanted = [n for n, asked in NINETEEN.items() if asked.negative == negative]
        held = sum(outcomes.get(n, False) for n in wanted)
        waiting = sum(bool(NINETEEN[n].waits_for) for n in wanted)
        terminalreporter.write_line(
            f"governance: {what} {held} of {len(wanted)} held, {waiting} wait"
        )
