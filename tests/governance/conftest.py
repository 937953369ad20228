"""Governance tests from outside: a hub for each, and two figures in the summary."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.governance.hubs import Hub
from tests.governance.table import NINETEEN
from tests.harness.instances import UNLIMITED

MARK = "governance"


@pytest.fixture
def alone() -> None:
    """Request an instance of its own, for a test that stops the server."""


@pytest.fixture
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    """Yield a served instance with two projects that the test calls acme and other."""
    with ExitStack() as stack:
        if "alone" in request.fixturenames:
            instance = request.getfixturevalue("instance")
            server = stack.enter_context(instance.serve(**UNLIMITED))
        else:
            instance = request.getfixturevalue("shared")
            server = request.getfixturevalue("served")
        own = secrets.token_hex(4)
        slugs = {name: f"{name}-{own}" for name in ("acme", "other")}
        maker = instance.start("tests.governance.acts:make_keys", *slugs.values())
        yield Hub(
            instance=instance,
            server=server,
            slugs=slugs,
            maker=stack.enter_context(maker),
            stack=stack,
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers(MARK):
            item.user_properties += [(MARK, number) for number in mark.args]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print obligations and negative invariants, never as one figure."""
    outcomes: dict[int, bool] = {}
    for word, reports in terminalreporter.stats.items():
        for report in reports:
            for name, number in getattr(report, "user_properties", ()):
                if name == MARK and word in ("passed", "failed"):
                    outcomes[number] = outcomes.get(number, True) and word == "passed"
    if not outcomes:
        return
    for negative, what in ((False, "obligations"), (True, "negative invariants")):
        wanted = [
            n for n, requirement in NINETEEN.items() if requirement.negative == negative
        ]
        held = sum(outcomes.get(n, False) for n in wanted)
        waiting = sum(bool(NINETEEN[n].waits_for) for n in wanted)
        terminalreporter.write_line(
            f"governance: {what} {held} of {len(wanted)} held, {waiting} wait"
        )
