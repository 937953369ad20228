"""Process whose writers all append to one thread at the same time; started by tests.

The process reads a thread from each line of its standard input, and answers each.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count
from typing import Any

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.journal import Order, texts
from memoryhub.kernel.commands import RetireThread
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots
from tests.cast.factories import make_agent, make_project, make_slot, make_thread
from tests.promises.journal.appender import append_one, tell


def make(slug: str, threads: list[str], limit: int) -> None:
    """Make a project, and threads in it that hold so many slots."""
    agent = make_agent(make_project(slug))
    for thread in threads:
        make_thread(agent, thread, max_slots=limit)


def race(slug: str, writers: int, each: int) -> None:
    """Race and print the outcome of each append: an index, or why there is none."""
    agent = make_agent(Project.objects.get(slug=slug))
    journal.writer.start()
    tell("ready")
    for line in sys.stdin:
        thread, _, retire_after = line.strip().partition(" ")
        racers = Racers(agent, thread, retire_after=int(retire_after or -1))
        tell(json.dumps(asyncio.run(racers.run(writers=writers, each=each))))
    journal.writer.stop()


def append_aloud(slug: str, thread: str, appends: int) -> None:
    """Append one by one, and print each as soon as it is acknowledged."""
    agent = make_agent(Project.objects.get(slug=slug))
    journal.writer.start()
    for n in range(appends):
        tell(json.dumps(append_one(agent, thread, f"{agent.prefix}/{n}")))
    journal.writer.stop()


class Racers:
    """Writers of one process, and perhaps the end of their thread."""

    def __init__(self, agent: Agent, thread: str, *, retire_after: int) -> None:
        self.agent = agent
        self.thread = thread
        self.retire_after = retire_after
        self._started = count()

    async def run(self, *, writers: int, each: int) -> list[dict[str, Any]]:
        work = [self._write(number, each) for number in range(writers)]
        return [told for one in await asyncio.gather(*work) for told in one]

    async def _write(self, number: int, each: int) -> list[dict[str, Any]]:
        told = []
        for n in range(each):
            if next(self._started) == self.retire_after:
                await self._retire()
            told.append(await self._append(f"{self.agent.prefix}/{number}/{n}"))
        return told

    async def _append(self, content: str) -> dict[str, Any]:
        try:
            receipt = await slots.append(
                agent=self.agent, thread=self.thread, slots=[make_slot(content)]
            )
        except Refusal as refusal:
            return {"content": content, "code": refusal.code}
        return {"content": content, "index": receipt.get_event(SlotAppended).index}

    async def _retire(self) -> None:
        """Retire the thread as the retention worker does, though it is not idle."""
        command = RetireThread(policy_days=1, idle_days=1)
        address = self.agent.address(self.thread)
        actor = "worker:retention"
        await journal.submit(Order(address=address, command=command, actor=actor))


def show(slug: str) -> None:
    """Print the stored contents, indexes and event types of each thread."""
    rows = Thread.objects.select_related("subject").filter(project__slug=slug)
    tell(json.dumps([open_row(row) for row in rows.order_by("name")]))


def open_row(row: Thread) -> dict[str, Any]:
    stored = list(row.slots.order_by("index"))
    seqs = [slot.seq for slot in stored]
    opened = texts.open_contents(row.subject, row.project_id, row.id, seqs)
    return {
        "name": row.name,
        "indexes": [slot.index for slot in stored],
        "contents": [opened[seq]["content"] for seq in seqs],
        "types": list(row.events.order_by("seq").values_list("type", flat=True)),
    }
