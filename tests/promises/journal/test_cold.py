"""Cold storage: a process killed at any commit of a move loses nothing."""

from __future__ import annotations

import json
import signal

import pytest

from tests.harness.instances import Instance

pytestmark = pytest.mark.slow


@pytest.mark.promise("P1", load="killed around each commit of a move out and back")
def test_killed_move_loses_no_payload(instance: Instance) -> None:
    out = instance.call("tests.promises.journal.moving:kill_everywhere")
    found = json.loads(out.splitlines()[-1])
    told = found["told"]
    whole = told.pop("whole")
    assert json.loads(whole["seen"]) == [f"Message {n}." for n in range(20)]
    assert {each["end"] for each in told.values()} == {-signal.SIGKILL}
    # The row of the object, the references, the payloads.
    assert len(told) >= 6
    for slug, each in told.items():
        assert each["seen"] == whole["seen"], slug
        assert (each["again"], each["rows"]) == (0, "[20, 20, 0]"), slug
    assert found["left"] == []
