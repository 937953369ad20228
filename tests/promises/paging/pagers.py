"""Process that pages in a thread, one command for each line it reads.

The n-th command is the same in every process; its outcome depends on the thread.
"""

from __future__ import annotations

import json
import random
import sys

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.kernel import paging_json
from memoryhub.kernel.commands import AppendSlots, Command
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    CreatePages,
    DeletePage,
    EvictPage,
    FaultPage,
    FlushTlb,
    MapPage,
    PinPage,
    ReferencePages,
    UnpinPage,
    UpdatePage,
    WriteLevels,
)
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from tests.cast.factories import make_agent, make_project, make_slot, make_thread
from tests.oracles.page_acts import act, levels_of, new_page, new_text
from tests.promises.journal.appender import tell

#: Page ids that commands choose from; deleted ones are never free again.
PAGES = 60


def make(slug: str, threads: list[str]) -> None:
    """Make threads whose working set, hot list and TLB are soon too small."""
    agent = make_agent(make_project(slug))
    for thread in threads:
        make_thread(
            agent,
            thread,
            budget_tokens=2_400,
            reserved_tokens=800,
            l1_pages=4,
            tlb_entries=8,
            auto_pin_turns=1,
        )


def page_thread(slug: str, thread: str) -> None:
    """Perform the commands of these numbers; print the seq of each, or its refusal."""
    agent = make_agent(Project.objects.get(slug=slug))
    journal.writer.start()
    tell("ready")
    for line in sys.stdin:
        try:
            tell(str(act(agent, nth(int(line)), thread).seq))
        except Refusal as refusal:
            tell(refusal.code)
    journal.writer.stop()


def show(slug: str, thread: str) -> None:
    """Print the folded paging state, and the counters of the thread's row."""
    row = Thread.objects.select_related("subject").get(project__slug=slug, name=thread)
    assert verify(row) is None
    paging = journal.fold_thread(row, row.head_seq).state.paging
    tell(json.dumps(paging_json.to_json(paging, thread=row.id)))
    tell(f"{row.tlb_hits} {row.tlb_misses} {row.fault_count} {row.eviction_count}")


def nth(number: int) -> Command:
    chance = random.Random(number)  # a number repeats it
    page_id = f"p-{chance.randrange(PAGES)}"
    text = "some words of a page " * chance.randrange(1, 30)
    choices: list[Command] = [
        AppendSlots(slots=(make_slot(text),)),
        *[CreatePages(pages=(new_page(page_id, text),), replace=True)] * 4,
        new_text(page_id, text),
        UpdatePage(page_id=page_id, payload=b"{}", importance=chance.random()),
        WriteLevels(made=levels_of(page_id, {2: "some", 3: "s"})),
        MapPage(page_id=page_id),
        *[FaultPage(page_id=page_id, level=chance.randrange(4))] * 2,
        EvictPage(page_id=page_id),
        PinPage(page_id=page_id),
        UnpinPage(page_id=page_id),
        ReferencePages(page_ids=(page_id, f"p-{chance.randrange(PAGES)}")),
        BeginTurn(),
    ]
    rare: list[Command] = [DeletePage(page_id=page_id), FlushTlb()]
    if number % 50 == 49:
        return chance.choice(rare)
    return chance.choice(choices)
