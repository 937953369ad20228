"""A project's answers to requests that a seed decides; run by the tests.

Time stands still and chance is seeded. What still differs between two runs are ids,
keys, and what is digested or signed with them, when threads take turns otherwise.
"""

from __future__ import annotations

import os
import random
import re
import time

import time_machine

from memoryhub.api.http import limits
from memoryhub.models.server.clock import clock
from memoryhub.services.access import projects
from tests.api.client import Answer, Client, run
from tests.api.http.test_bad_inputs import CATALOGUE
from tests.cast import factories
from tests.matrix.routes import ROWS, ask, make_whole
from tests.oracles.memory_acts import NOON
from tests.promises.journal.appender import tell

#: Ids, digests, signatures, prefixes of keys, and positions in lists.
CHANCE = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![.])\b[0-9a-f]{16,128}\b"
    r'|(?<="next":")[^"]+|(?<=agent:)[A-Za-z0-9_-]{8}'
)
THREADS = ("t-1", "t-2", "t-3")


def answer(seed: int, count: int) -> None:
    """Print the answers to every valid request, to `count` more and to all bad ones."""
    clock.use_source(time.time_ns)
    chance, names = random.Random(seed), dict[str, str]()
    # Texts name ids, whose tokens are counted. Nothing that is made here is a secret.
    vars(random)["_urandom"] = vars(os)["urandom"] = random.Random(seed).randbytes
    with time_machine.travel(NOON, tick=False) as traveller:
        agent, key = factories.make_key(projects.create("acme"))
        make_whole(agent)
        client = Client(key=key)
        labels = [*ROWS, *chance.choices([*ROWS], k=count)]
        for number, label in enumerate(labels):
            traveller.shift(1)
            # Every route once where there is something, then anywhere.
            thread = THREADS[0] if number < len(ROWS) else chance.choice(THREADS)
            got = ask(client, label, thread=thread)
            tell(f"{number} {label} {thread}: {_strip_chance(got, names)}")
        for case in (each for cases in CATALOGUE.values() for each in cases):
            limits.account = limits.UsageAccount()
            sent = (case.method, case.target, case.body)
            got = run(client.send(*sent, headers=case.headers, **case.options))
            tell(f"{case.row}: {_strip_chance(got, names)}")


def _strip_chance(got: Answer, names: dict[str, str]) -> str:
    """Return status, headers and body, with what chance made by first appearance."""
    headers = sorted(name.decode() for name, _ in got.headers)
    text = f"{got.status} {headers} {got.body.decode('utf-8', 'backslashreplace')}"
    return CHANCE.sub(lambda found: names.setdefault(found[0], f"#{len(names)}"), text)
