"""Nouns whose states are exported, one a line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from memoryhub.queries.knowledge import facts
from memoryhub.queries.memory import checkpoints, keys, notes, tasks
from memoryhub.queries.paging import page_states
from memoryhub.queries.replay.state_files import StateFile
from memoryhub.queries.turns import marks

NOUNS: tuple[StateFile, ...] = (
    keys.STATES,
    tasks.STATES,
    notes.STATES,
    facts.STATES,
    page_states.STATES,
    checkpoints.STATES,
    marks.STATES,
)

#: State files by path in the bundle.
FILES: Final[Mapping[str, StateFile]] = MappingProxyType(
    {file.path: file for file in NOUNS}
)
#: Event types by noun: each line of the file is a record of one event, which a profile
#: counts.
COUNTED: Final[Mapping[str, str]] = MappingProxyType(
    {file.name: file.counted for file in NOUNS if file.counted is not None}
)
