"""Unobserved threads, which behave as if there were no observers."""

from __future__ import annotations

from typing import Any

import pytest
import time_machine

from memoryhub.kernel import state_json
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.server.clock import clock
from tests.cast.factories import get_thread, make_agent, make_project, make_thread
from tests.services.acts import amend, state_of
from tests.services.observing.test_extraction import SETTINGS, talk

pytestmark = pytest.mark.django_db


def test_switched_off_observer_changes_nothing() -> None:
    """Compare threads whose observer is not mentioned, off, or switched off again.

    The golden contexts show that their requests are those of earlier versions.
    """
    bare = {name: n for name, n in SETTINGS.items() if name != "observe"}
    configs: list[dict[str, Any]] = [{}, {"observe": False}, {"observe": True}]
    found = list[tuple[list[bytes], list[str], ThreadState]]()
    with time_machine.travel(clock.now(), tick=False):
        for n, observe in enumerate(configs):
            one = make_agent(make_project(f"project-{n}"))
            make_thread(one, "t-1", **bare, **observe)
            if observe.get("observe"):
                amend(one, config={"observe": False})
            requests = [talk(one, at, at + 20).request for at in range(0, 200, 20)]
            row = get_thread(one)
            assert not row.observer_due
            types = [*row.events.values_list("type", flat=True)]
            found.append((requests, types, state_of(row)))
    (absent, _, state), (off, _, other), (again, *_) = found
    assert absent == off == again
    assert "<VM:LOG>" not in absent[-1].decode()
    assert {*found[2][1]} - {*found[0][1]} == {"thread.configured"}
    plain, its = state_json.to_json(state), state_json.to_json(other)
    assert "observing" not in plain
    assert {name for name in plain if plain[name] != its[name]} == {
        *("id", "project", "subject", "config")
    }
