"""Visits to an instance's inspector, and seeks in its threads; runs inside it.

Asked one JSON line each, it answers by another, so that two of them can take turns.
"""

from __future__ import annotations

import gc
import json
import logging
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from django.db import connections
from django.http import HttpResponseBase
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks import crowds, messages
from benchmarks.hubs import PROJECT
from benchmarks.screens import LONG, SHORT
from memoryhub.journal.texts import texts
from memoryhub.kernel.memory.checkpoint_events import CheckpointTaken
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.services.access import operators
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from memoryhub.vault.keys import keyring
from tests.cast import factories
from tests.inspector.routes import SINCE, list_routes, variants

#: All of a list as a file is as long as the list.
UNBOUNDED = re.compile(r"-export$")
#: Beside each page as it opens; `{seq}` is anywhere in the thread.
QUERIES = ("", "at_seq={seq}")
SEARCHES = (
    "threads?q=status%3Aopen&sort=slots",
    "threads?q=slots%3A%3E5",
    "threads/long/events?q=type%3Aturn.began",
    "threads/long/events?q=type%3Apage.faulted",
    "threads/long/pages?q=tier%3AL0",
    "threads/long/pages?q=type%3Aartifact",
    "threads/long/slots?from=tool",
)
_ABSENT = (
    *("block", "erasure", "fact", "hold", "part", "receipt", "tombstone", "webhook"),
)
#: Events that are folded for a page as of a seq.
AFTER = 500
NEXT = re.compile(r'href="([^"]*[?&;]after=[^"]*)"')


class Visitor:
    """Operator at a browser without scripts, with the long thread open."""

    def __init__(self) -> None:
        keyring.prepare(empty=False)
        # Of addresses that are none for a browser: they are left out.
        logging.disable(logging.WARNING)
        self.client = Client(SERVER_NAME="127.0.0.1")
        link = operators.make_link(operators.ensure_default())
        self.client.post(f"/sign-in/{link}")
        threads = Thread.objects.select_related("subject", "project")
        self.threads = {row.name: row for row in threads.filter(name__in=(LONG, SHORT))}
        self.chance = random.Random(1)
        long = self.threads[LONG]
        kept = Snapshot.objects.filter(thread=long, seq__lt=long.head_seq - AFTER)
        #: Seqs all over the thread that are equally far from the snapshot before.
        self.places = [seq + AFTER for seq in kept.values_list("seq", flat=True)]
        # As the server does once it has started.
        gc.freeze()

    def counts(self) -> dict[str, int]:
        return crowds.counts()

    def pages(self) -> dict[str, str]:
        """Return every page's address by name, with where its list goes on.

        A name is the same in any instance.
        """
        found = dict(self._addresses()) | {each: _ours(each) for each in SEARCHES}
        shown = {
            name: path
            for name, path in found.items()
            if self._get(path).status_code == 200
        }
        more = {f"{name}, more": self._more(path) for name, path in shown.items()}
        # The last part of a list may have fewer lines than another list's second.
        return shown | {
            name: path for name, path in more.items() if path and self._more(path)
        }

    def _addresses(self) -> Iterator[tuple[str, str]]:
        thread = self.threads[LONG]
        taken = Event.objects.filter(thread=thread, type=CheckpointTaken.event_type)
        known = {
            "project": PROJECT,
            "thread": LONG,
            "seq": str(self.places[len(self.places) // 2]),
            # There from the beginning, whatever seq is asked for.
            "index": "10",
            "page": "slot-10",
            "key": "key-10",
            "number": str(taken.values_list("seq", flat=True).get()),
            "n": str(thread.turn_count),
            "token": "x" * 43,
            "prefix": "none",
            "verb": "pin",
            "subject": str(thread.subject_id),
            "operator": str(operators.ensure_default().id),
            # There are none of these, so their pages are left out.
            **dict.fromkeys(_ABSENT, str(thread.id)),
        }
        for route in list_routes():
            if UNBOUNDED.search(route.name):
                continue
            for choice in variants(route):
                path = route.fill({**known, **choice})
                for query in QUERIES if "thread" in route.parameters else ("",):
                    name = " ".join([route.name, *choice.values(), query]).strip()
                    yield name, f"{path}?{SINCE}&{query}"

    def _more(self, path: str) -> str:
        """Return the list's link to its next part, or "" at its end."""
        found = NEXT.search(b"".join(self._get(path)).decode())
        if found is None:
            return ""
        link = found[1].replace("&amp;", "&")
        return path.partition("?")[0] + link if link.startswith("?") else link

    def visit(self, path: str, times: int) -> dict[str, float]:
        """Return CPU and time of one visit, the median of several."""
        return _middle(lambda: b"".join(self._get(path)), times)

    def turn(self, times: int) -> dict[str, float]:
        """Return CPU and time of a turn of somebody new, the median of several."""
        agent = factories.make_agent(Project.objects.get(slug=PROJECT))
        name = f"new-{agent.prefix}"
        factories.make_thread(agent, name, user_id=name)

        def begin() -> None:
            said = factories.make_slot(messages.messages()[1])
            new = NewTurn(slots=[said])
            factories.run(turns.begin_turn(agent=agent, thread=name, new=new))

        return _middle(begin, times)

    def queries(self, path: str, times: int) -> int:
        """Return the number of queries of a visit, the median of several.

        Once a minute a look is noted anew and keys are opened again: that is none of
        the page's own questions.
        """
        asked = sorted(self._queries(path) for _ in range(times))
        return asked[len(asked) // 2]

    def _queries(self, path: str) -> int:
        # Keys that were opened are kept for a minute, whatever is looked at.
        self._get(path)
        # As if nobody had looked before: what is at hand is not asked for.
        texts.clear()
        replay.followed.clear()
        replay.sought.clear()
        with ExitStack() as stack:
            counted = [
                stack.enter_context(CaptureQueriesContext(connections[name]))
                for name in connections
            ]
            b"".join(self._get(path))
            return sum(map(len, counted))

    def _get(self, path: str) -> Any:
        seq = self.chance.choice(self.places)
        answer: HttpResponseBase = self.client.get(path.replace("{seq}", str(seq)))
        assert answer.status_code < 500, path
        return answer

    def seek(self, thread: str, times: int) -> list[tuple[float, float]]:
        """Return CPU and time of seeks to any seq."""
        row = self.threads[thread]
        found = []
        for _ in range(times):
            seq = self.chance.randrange(1, row.head_seq + 1)
            cpu, start = time.process_time(), time.perf_counter()
            replay.load_state_at(row, seq)
            found.append((time.process_time() - cpu, time.perf_counter() - start))
        return found


def _middle(work: Callable[[], object], times: int) -> dict[str, float]:
    taken = []
    for _ in range(times):
        cpu, start = time.process_time(), time.perf_counter()
        work()
        taken.append((time.process_time() - cpu, time.perf_counter() - start))
    cpu, seconds = sorted(taken)[times // 2]
    return {"cpu": cpu, "seconds": seconds}


def _ours(search: str) -> str:
    return f"/p/{PROJECT}/{search}"


def serve() -> None:
    """Answer `[name, *arguments]` until the end of the input."""
    visitor = Visitor()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        answer = getattr(visitor, name)(*arguments)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
