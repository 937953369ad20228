"""Process that appends to a thread as fast as it can; started by the tests."""

from __future__ import annotations

import json
import sys
import time

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.journal import Order, texts
from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import api_keys
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import make_agent, make_project, make_slot


def tell(text: str) -> None:
    """Print a line that the test waits for or reads."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def make(slug: str) -> None:
    make_project(slug)


def make_key(slug: str = "acme") -> None:
    """Make a project and print a key of it: one process instead of two."""
    _, key = api_keys.create(make_project(slug))
    tell(key)


def append(slug: str, thread: str, number: int, count: int) -> None:
    """Append `count` messages once told to; print each one's index, seq and time."""
    agent = make_agent(Project.objects.get(slug=slug))
    journal.writer.start()
    tell("ready")
    sys.stdin.readline()
    told = [append_one(agent, thread, f"{number}/{n}") for n in range(count)]
    journal.writer.stop()
    tell(json.dumps(told))


def show(slug: str, thread: str) -> None:
    """Print the thread as it is stored: seqs, and contents by index."""
    row = Thread.objects.select_related("subject").get(project__slug=slug, name=thread)
    slots = list(row.slots.order_by("index"))
    seqs = [slot.seq for slot in slots]
    opened = texts.open_contents(row.subject, row.project_id, row.id, seqs)
    shown = {
        "seqs": list(row.events.order_by("seq").values_list("seq", flat=True)),
        "indexes": [slot.index for slot in slots],
        "contents": [opened[seq]["content"] for seq in seqs],
    }
    tell(json.dumps(shown))


def append_one(agent: Agent, thread: str, content: str) -> dict[str, object]:
    order = Order(
        address=agent.address(thread, birth=agent.build_birth()),
        command=AppendSlots(slots=(make_slot(content),)),
        actor=agent.actor,
    )
    began = time.monotonic()
    try:
        receipt = journal.perform(order)
    except Refusal as refusal:
        return {"content": content, "code": refusal.code}
    return {
        "content": content,
        "index": receipt.get_event(SlotAppended).index,
        "seq": receipt.seq,
        "seconds": time.monotonic() - began,
    }
