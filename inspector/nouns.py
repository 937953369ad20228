"""The inspector's screens (lists and panels), one line each."""

from __future__ import annotations

from typing import Any

from inspector.forget import audit, erasures, receipts
from inspector.knowledge import blocks
from inspector.lists.screens import Screen
from inspector.memory import checkpoints, keys, notes, task
from inspector.observing import observer
from inspector.paging import pages
from inspector.people import holds, subjects
from inspector.threads import events, imports, slots, threads
from inspector.turns import lacking_turns, marks, turns

NOUNS: tuple[Screen[Any], ...] = (
    threads.SCREEN,
    imports.SCREEN,
    audit.SCREEN,
    subjects.SCREEN,
    erasures.SCREEN,
    receipts.SCREEN,
    holds.SCREEN,
    slots.SCREEN,
    events.SCREEN,
    pages.SCREEN,
    keys.SCREEN,
    task.SCREEN,
    notes.SCREEN,
    blocks.SCREEN,
    observer.SCREEN,
    checkpoints.SCREEN,
    turns.SCREEN,
    marks.SCREEN,
    lacking_turns.SCREEN,
)
