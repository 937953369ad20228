"""Webhooks of two processes that are killed: each event arrives, in its order."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from typing import Any

import pytest

from tests.cast.receiver import receiving
from tests.harness.forks import Process
from tests.harness.instances import Instance

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ACTS = "tests.promises.webhooks.acts"
THREADS, MESSAGES, KILLS, SECONDS = 6, 60, 4, 90


@pytest.mark.promise("delivered", load="6 threads × 60 events, 2 processes, 4 kills")
def test_killed_senders_lose_no_event_and_keep_the_order(instance: Instance) -> None:
    """The receiver refuses every 17th request; kills come while it answers."""
    near = {"MEMORYHUB_WEBHOOK_HOSTS": "127.0.0.1"}
    killed: list[Process] = []
    with receiving() as receiver, ExitStack() as stack:
        running: list[Process] = []

        def answer(_: dict[str, Any]) -> int:
            count = len(receiver.messages)
            if count % 60 == 30 and len(killed) < KILLS:
                for each in running:
                    each.kill()
                    killed.append(each)
                running.clear()
            return 500 if count % 17 == 0 else 200

        receiver.reply = answer
        instance.call(
            f"{ACTS}:live_in_threads", receiver.url, THREADS, MESSAGES, **near
        )
        until = time.monotonic() + SECONDS
        while int(instance.call(f"{ACTS}:count_left")):
            assert time.monotonic() < until, receiver.seqs
            while len(running) < 2:
                begun = instance.start(f"{ACTS}:work", "worker", **near)
                running.append(stack.enter_context(begun))
            time.sleep(0.2)
        for each in running:
            each.send_signal(signal.SIGTERM)
        for each in running:
            each.wait(timeout=30)
    assert len(killed) >= KILLS
    assert len(receiver.seqs) == THREADS
    for seqs in receiver.seqs.values():
        first = [seq for n, seq in enumerate(seqs) if seq not in seqs[:n]]
        assert len(first) == MESSAGES
        # What is new comes in order, whatever is repeated in between.
        assert first == sorted(first)
    assert len(receiver.messages) < THREADS * MESSAGES * 2
