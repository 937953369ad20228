"""P1 for long: two servers under a mix of requests, one of them killed meanwhile."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.hubs import Hub
from benchmarks.soak import SoakPlan, Writes, soak
from benchmarks.soak_chart import draw_chart
from tests.harness.instances import UNLIMITED, Instance

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LONG = [pytest.mark.nightly, pytest.mark.timeout(1_800)]


@pytest.mark.promise("P1", load="2 servers, {rate} requests a second, {minutes} min")
@pytest.mark.parametrize(
    ("minutes", "rate", "kill_every"),
    [(1 / 3, 100, 8), pytest.param(10, 200, 30, marks=LONG)],
)
def test_soak_loses_no_acknowledged_write(
    instance: Instance, key: str, minutes: float, rate: float, kill_every: float
) -> None:
    hub = Hub(data=instance.data, env={**instance.env, **UNLIMITED})
    plan = SoakPlan(minutes=minutes, rate=rate, kill_every=kill_every)
    report = soak(hub, key, plan)
    assert report["faults"] == []
    assert len(report["kills"]) >= 1
    assert report["acknowledged"] > minutes * 60 * rate / 4
    # Without an answer are those whose server was killed; a stop is told by 503.
    assert report["statuses"].keys() <= {0, 200, 201, 404, 503}
    assert ET.fromstring(draw_chart(report)).tag.endswith("svg")


def test_soak_notices_what_is_lost() -> None:
    writes = Writes()
    told: dict[str, Any] = {
        "kind": "append",
        "status": 201,
        "thread": "t",
        "said": ["a"],
    }
    writes.note({**told, "indexes": [0]})
    writes.note({**told, "kind": "turn", "said": ["b"], "indexes": []})
    writes.note({**told, "status": 0, "said": ["c"], "indexes": []})
    assert writes.find_faults("t", [(0, "a"), (1, "b"), (2, "c")]) == []
    assert writes.find_faults("t", [(0, "a"), (1, "b")]) == []
    for damaged in (
        [(0, "b")],
        [(0, "a")],
        [(0, "a"), (1, "b"), (2, "b")],
        [(0, "a"), (1, "b"), (2, "d")],
        [(0, "a"), (2, "b")],
    ):
        assert writes.find_faults("t", damaged) != []
