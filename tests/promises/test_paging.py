"""Paging is the same whoever writes: folded state, TLB and counters."""

from __future__ import annotations

import json
from contextlib import ExitStack
from subprocess import Popen

import pytest

from tests.instances import Instance
from tests.promised import Count

pytestmark = pytest.mark.timeout(600)

PROGRAM = "tests.promises.pagers"


def paged(process: Popen[str], number: int) -> str:
    """What a process says of the command of that number."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def shown(instance: Instance, thread: str) -> tuple[object, str]:
    told = instance.call(f"{PROGRAM}:show", "acme", thread).splitlines()
    return json.loads(told[-2]), told[-1]


@pytest.mark.promise("P11", load="2 processes by turns and a kill, {commands} commands")
@pytest.mark.parametrize(
    "commands", [120, pytest.param(1_000, marks=pytest.mark.nightly)]
)
def test_coherent_across_processes_and_kill(
    instance: Instance, commands: int, counted: Count
) -> None:
    """Two that page in one thread, one of them killed half-way, lead to what one does.

    Each thread hears the same commands; one has them all from a single process.
    """
    instance.call(f"{PROGRAM}:make", "acme", ["shared", "alone"])
    with ExitStack() as stack:

        def start(thread: str) -> Popen[str]:
            process = stack.enter_context(
                instance.start(f"{PROGRAM}:page", "acme", thread)
            )
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()
            return process

        single, pair = start("alone"), [start("shared"), start("shared")]
        for number in range(commands):
            if number == commands // 2:
                pair[0].kill()
                pair[0] = start("shared")
            assert paged(pair[number % 2], number) == paged(single, number)
    state, counters = shown(instance, "shared")
    assert (state, counters) == shown(instance, "alone")
    hits, misses, faults, evictions = map(int, counters.split())
    assert min(hits, misses, faults, evictions) > 0
    counted(commands=commands, hits=hits, misses=misses)
