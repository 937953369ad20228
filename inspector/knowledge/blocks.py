"""Blocks: what always stands in front of the model, and its versions side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inspector.drawing.scenes import Context
from inspector.knowledge import home_visits
from inspector.lists import screens
from inspector.lists.screens import ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.memory import editing
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.knowledge.blocks import BlockView, Version

#: Versions of one block that are shown beside each other.
BESIDE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBlock:
    """A block, its versions if it is the one that stands open, and who carried it."""

    view: BlockView
    #: Requests that had this version in their head.
    turns: int
    versions: tuple[Version, ...] = ()

    @property
    def filled(self) -> int:
        """Compute how much of its limit it takes, in percent."""
        return self.view.bytes * 100 // self.view.limit_bytes


def _list(ask: ListRequest[Visit]) -> Context:
    """The blocks in their order. A constant number of queries."""
    visit = ask.where
    if not visit.row.home:
        return {"shown": [], "editable": visit.editable}
    opened = ask.request.GET.get("block", "")
    found = blocks.list_blocks(visit.row, seq=visit.moment.at_seq)
    carried = blocks.count_turns(visit.row, [each.seq for each in found])
    shown = [
        ShownBlock(
            view=each,
            turns=carried.get(each.seq, 0),
            versions=_versions(visit, each) if each.block == opened else (),
        )
        for each in found
    ]
    return {
        "shown": shown,
        "opened": opened,
        "editable": visit.editable,
        "saved": editing.find_saved(ask.request, visit, blocks.find_edit),
    }


def _versions(visit: Visit, view: BlockView) -> tuple[Version, ...]:
    at = visit.moment.at_seq
    return tuple(blocks.list_versions(visit.row, view.block, seq=at, limit=BESIDE))


SCREEN = Screen(
    folder="knowledge/blocks",
    tab="memory",
    scope=replace(screens.THREAD, enter=home_visits.find),
    lines=_list,
)
