"""Scenes: a thread at a moment, and the panels that show one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from memoryhub.models.threads import Thread
from memoryhub.queries.memory.working_memory import MemoryView

#: Events whose content may stand open at once.
OPENED = 20
#: What stands on the left of a thread at a moment, and on the right; the first of each
#: unless the URL says so.
VIEWS = ("conversation", "events")
TABS = ("working-set", "changes", "memory")

Context = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a panel shows: a thread at a moment, and how."""

    thread: Thread
    #: None follows the head.
    at_seq: int | None = None
    view: str = VIEWS[0]
    tab: str = TABS[0]
    #: Seqs whose content stands open in the list of events.
    opened: frozenset[int] = frozenset()
    #: The event that this one is compared with.
    base_seq: int | None = None
    #: Nouns whose events are not listed.
    hidden: tuple[str, ...] = ()
    #: The group of the working set that is asked for, by its first page.
    group: str = ""
    #: The page whose leaving is explained, of those that leave together.
    left: str = ""
    #: The thumb is still being dragged: what takes a state comes once it rests.
    passing: bool = False

    @property
    def seq(self) -> int:
        return self.thread.head_seq if self.at_seq is None else self.at_seq

    def carried(self, *, without: str = "") -> list[tuple[str, str]]:
        """What the URL says beside the moment, for links that go to another one."""
        parts = {
            "view": "" if self.view == VIEWS[0] else self.view,
            "tab": "" if self.tab == TABS[0] else self.tab,
            "base": "" if self.base_seq is None else str(self.base_seq),
            "open": _listed(self.opened),
            "hide": " ".join(self.hidden),
            "group": self.group,
            "left": self.left,
        }
        return [(name, parts[name]) for name in parts if name != without if parts[name]]

    def toggled(self, seq: int) -> str:
        """The query that opens an event or closes it again; empty if all are taken."""
        opened = self.opened ^ {seq}
        if len(opened) > OPENED:
            return ""
        return replace(self, opened=opened, at_seq=self.seq).query()

    def query(self) -> str:
        """This scene as a URL has it, behind the `?`; empty for the newest as it is."""
        moment = [] if self.at_seq is None else [("at_seq", str(self.at_seq))]
        return urlencode([*moment, *self.carried()], safe=",")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What shows a scene, and is pushed under a name."""

    template: str
    context: Callable[[Scene], Context]
    #: If it is not called like its screen.
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """Lines of a noun in the overview of working memory."""

    template: str
    context: Callable[[MemoryView], Context]


def _listed(seqs: frozenset[int]) -> str:
    return ",".join(str(seq) for seq in sorted(seqs))
