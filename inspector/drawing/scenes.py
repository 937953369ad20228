"""Scenes: a thread at a moment, and the panels that show one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from memoryhub.models.threads import Thread

#: Events whose content may stand open at once.
OPENED = 20
TABS = ("summary", "messages", "working-set", "working-memory")

Context = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a panel shows: a thread at a moment, and how."""

    thread: Thread
    #: None follows the head.
    at_seq: int | None = None
    tab: str = TABS[0]
    #: Seqs whose content stands open in the list of events.
    opened: frozenset[int] = frozenset()
    #: The event that this one is compared with.
    base_seq: int | None = None

    @property
    def seq(self) -> int:
        return self.thread.head_seq if self.at_seq is None else self.at_seq

    def carried(self, *, without: str = "") -> list[tuple[str, str]]:
        """What the URL says beside the moment, for links that go to another one."""
        parts = {
            "tab": "" if self.tab == TABS[0] else self.tab,
            "base": "" if self.base_seq is None else str(self.base_seq),
            "open": _listed(self.opened),
        }
        return [(name, parts[name]) for name in parts if name != without if parts[name]]

    def toggled(self, seq: int) -> str:
        """The query that opens an event or closes it again; empty if all are taken."""
        opened = self.opened ^ {seq}
        if len(opened) > OPENED:
            return ""
        asked = [("at_seq", str(self.seq)), *self.carried(without="open")]
        if opened:
            asked.append(("open", _listed(opened)))
        return urlencode(asked, safe=",")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    template: str
    context: Callable[[Scene], Context]


def _listed(seqs: frozenset[int]) -> str:
    return ",".join(str(seq) for seq in sorted(seqs))
