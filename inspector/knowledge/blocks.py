"""Screen of blocks, texts that every request holds, with versions side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inspector.drawing.scenes import Context
from inspector.knowledge import version_changes
from inspector.knowledge.version_changes import ChangedPiece
from inspector.lists import screens
from inspector.lists.person_visits import PersonVisit
from inspector.lists.screens import ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.memory import editing
from memoryhub.queries.knowledge import block_lines, block_turns, blocks
from memoryhub.queries.knowledge.block_lines import BlockLine
from memoryhub.queries.knowledge.block_turns import CarryingTurn
from memoryhub.queries.knowledge.blocks import BlockVersion, BlockView
from memoryhub.queries.lists.cursors import ListBatch

#: Versions of one block that the screen shows side by side.
BESIDE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersion:
    """Version of a block, with its words that changed since the version before."""

    version: BlockVersion
    pieces: tuple[ChangedPiece, ...]

    @property
    def is_marked(self) -> bool:
        """Tell whether a word came or is gone."""
        return any(mark for mark, _ in self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBlock:
    """Block with its versions, or with the turns that carried it, if these are open."""

    view: BlockView
    #: Number of requests that had this version in their head.
    turns: int
    #: Query that lists the turns.
    turns_query: str
    versions: tuple[ShownVersion, ...] = ()
    #: Batch of those turns, newest first; None while they are closed.
    carriers: ListBatch[CarryingTurn] | None = None
    #: Query that lists the turns before `carriers`; empty without any.
    more: str = ""
    #: Lines that say what facts no longer say; only as of now.
    outdated: tuple[BlockLine, ...] = ()

    @property
    def filled(self) -> int:
        """Share of its limit that the block takes, in percent."""
        return self.view.bytes * 100 // self.view.limit_bytes


def _build_list(ask: ListRequest[PersonVisit]) -> Context:
    """Build the list of blocks in their order. A constant number of queries.

    Raises BadCursorError.
    """
    visit = ask.where.home
    if visit is None:
        return {"shown": [], "editable": ask.where.editable}
    opened = ask.request.GET.get("block", "")
    found = blocks.list_blocks(visit.row, seq=visit.moment.at_seq)
    carried = block_turns.count_turns(visit.row, [each.seq for each in found])
    outdated: list[BlockLine] = []
    if visit.moment.live:
        outdated = block_lines.list_outdated_lines(visit.row, found, at=ask.now)
    shown = [
        replace(
            _build_shown_block(
                ask, visit, each, carried.get(each.seq, 0), opened=each.block == opened
            ),
            outdated=tuple(line for line in outdated if line.block == each.block),
        )
        for each in found
    ]
    return {
        "shown": shown,
        "opened": opened,
        "editable": visit.editable,
        "saved": editing.find_saved(ask.request, visit, blocks.find_edit),
    }


def _build_shown_block(
    ask: ListRequest[PersonVisit],
    home: Visit,
    view: BlockView,
    turns: int,
    *,
    opened: bool,
) -> ShownBlock:
    carriers = None
    if ask.request.GET.get("carried") == view.block:
        carriers = block_turns.list_turns(home.row, view.seq, after=ask.after)
    after = carriers.next if carriers else None
    return ShownBlock(
        view=view,
        turns=turns,
        turns_query=ask.query(carried=view.block),
        versions=_list_versions(home, view) if opened else (),
        carriers=carriers,
        more=ask.query(carried=view.block, after=after) if after else "",
    )


def _list_versions(visit: Visit, view: BlockView) -> tuple[ShownVersion, ...]:
    """List the newest versions with their changes. One query."""
    at, limit = visit.moment.at_seq, BESIDE + 1
    found = blocks.list_versions(visit.row, view.page_id, seq=at, limit=limit)
    older = [each.text for each in found[1:]] + [None]
    return tuple(
        ShownVersion(
            version=each,
            pieces=(*version_changes.list_changes(before, each.text or ""),),
        )
        for each, before in zip(found[:BESIDE], older, strict=False)
    )


SCREEN = Screen(folder="knowledge/blocks", scope=screens.PERSON, lines=_build_list)
