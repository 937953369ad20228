"""Scenes: a thread at a moment, and the panels that show a scene."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from memoryhub.models.threads import Thread
from memoryhub.queries.memory.working_memory import MemoryView

#: Most events whose content may be open at once.
MAX_OPEN_EVENTS = 20
#: Views on the left and tabs on the right of a thread's page; the first of each is
#: shown unless the URL names another.
VIEWS = ("conversation", "events")
TABS = ("working-set", "changes", "memory")

Context = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadScene:
    """A thread at a moment, with the view, tab and open rows that panels show."""

    thread: Thread
    #: None follows the head.
    at_seq: int | None = None
    view: str = VIEWS[0]
    tab: str = TABS[0]
    #: Seqs of events whose content is open in the list of events.
    opened: frozenset[int] = frozenset()
    #: Seq of the event that the moment is compared with.
    base_seq: int | None = None
    #: Nouns whose events the list leaves out.
    hidden: tuple[str, ...] = ()
    #: The open group of the working set, by its first page.
    group: str = ""
    #: The page whose eviction is explained, of the pages evicted together.
    left: str = ""
    #: The timeline's thumb is being dragged; panels that need a state come later.
    passing: bool = False

    @property
    def seq(self) -> int:
        return self.thread.head_seq if self.at_seq is None else self.at_seq

    def list_carried_parameters(self, *, without: str = "") -> list[tuple[str, str]]:
        """List the URL's parameters except the moment, for links to another moment."""
        parts = {
            "view": "" if self.view == VIEWS[0] else self.view,
            "tab": "" if self.tab == TABS[0] else self.tab,
            "base": "" if self.base_seq is None else str(self.base_seq),
            "open": _join_seqs(self.opened),
            "hide": " ".join(self.hidden),
            "group": self.group,
            "left": self.left,
        }
        return [(name, parts[name]) for name in parts if name != without if parts[name]]

    def build_toggle_query(self, seq: int) -> str:
        """Build the query that opens or closes an event.

        Empty if `MAX_OPEN_EVENTS` events are open already.
        """
        opened = self.opened ^ {seq}
        if len(opened) > MAX_OPEN_EVENTS:
            return ""
        return replace(self, opened=opened, at_seq=self.seq).query()

    def query(self) -> str:
        """Build the URL's query of this scene; empty for the head by default."""
        moment = [] if self.at_seq is None else [("at_seq", str(self.at_seq))]
        return urlencode([*moment, *self.list_carried_parameters()], safe=",")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A template and context that show a scene; pushed to browsers under a name."""

    template: str
    context: Callable[[ThreadScene], Context]
    #: Name of the panel, if it differs from the screen's name.
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """Template and context of a noun's lines in the working-memory overview."""

    template: str
    context: Callable[[MemoryView], Context]


def _join_seqs(seqs: frozenset[int]) -> str:
    return ",".join(str(seq) for seq in sorted(seqs))
