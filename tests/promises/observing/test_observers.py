"""Observing by two processes that are killed: each range is observed once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest

from tests.cast import scripted_model
from tests.cast.scripted_model import Reply, ScriptedModel, saying
from tests.harness.instances import Instance
from tests.promises.knowledge.test_consolidators import DEEDS, Pair

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ACTS = "tests.promises.observing.acts"
THREADS, MESSAGES = 6, 160
#: Fates of the questions about a thread, in turn; later ones are answered.
FATES: tuple[tuple[str, ...], ...] = (
    ("slow", "answer", "kill"),
    ("busy",),
    ("garbage", "garbage"),
    ("reset", "kill"),
    ("kill",),
    ("garbage", "kill", "slow"),
)


class Observers(Pair):
    """Model whose answers depend on the thread asked about."""

    def reply(self, key: str, question: dict[str, Any]) -> Reply:
        text = question["messages"][1]["content"]
        number = int(re.findall(r"#(\d+)#", text)[0])
        fate = self.fate(key, number, FATES[number])
        slots = [int(n) for n in re.findall(r"^\[(\d+)\] ", text, re.MULTILINE)]
        line = {"text": f"Of #{number}#.", "slots": [slots[0], slots[-1]]}
        return DEEDS.get(fate) or saying(json.dumps({"lines": [line]}))


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with scripted_model.running() as running:
        yield running


@pytest.mark.promise("observed", load="6 threads × 2 processes, 4 kills")
def test_restarted_observers_derive_the_same_ranges(
    instance: Instance, model: ScriptedModel
) -> None:
    """Answers are slow, busy, babbling and broken, and kills come before the commit."""
    instance.call(f"{ACTS}:live_in_threads", THREADS, MESSAGES)
    with ExitStack() as stack:
        pair = Observers(instance, model, stack, [("worker",), ("worker",)])
        pair.acts = ACTS
        model.replies = pair.reply
        pair.finish()
    found = json.loads(instance.call(f"{ACTS}:show"))
    for name, thread in found["threads"].items():
        ranges = thread["ranges"]
        assert len(ranges) > 1, name
        assert ranges[0][0] == 0
        assert all(one[1] == two[0] for one, two in pairwise(ranges))
        assert ranges[-1][1] == thread["watermark"]
    # It was not easy.
    assert pair.killed >= 3
    assert any(len({*askers}) > 1 for askers in pair.asked.values())
    assert found["failed"]
    instance.managed("verify", "--all")
