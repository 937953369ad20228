from __future__ import annotations

from uuid import UUID

from inspector.drawing import tiles
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.state.policies import ScoreParts
from memoryhub.queries.paging.residency import KeepReason, ResidentPage


def build_cell(slot: int, turn: int) -> ResidentPage:
    """Build the cell of a user's message."""
    why = KeepReason(
        rule="", score=0.0, parts=ScoreParts(0, 0, 0, 0, 0, 0, 0), policy="lru",
        protected_until=None, rank=1,
    )  # fmt: skip
    return ResidentPage(
        page_id=f"h_{slot:04}", level=3, type="history", modality="text",
        role="user", version=1, importance=0.5, tokens=10, full_tokens=10,
        recalled=False, references=0, idle_turns=0, cause_seq=None, cause="",
        since_seq=None, slot=slot, created_turn=turn, why=why,
        place=Location(UUID(int=1), slot, 3),
    )  # fmt: skip


def test_group_title_names_its_least_and_its_last_turn() -> None:
    older = [27, 28, 29, *range(30, 38), 26]
    cells = [build_cell(n, turn) for n, turn in enumerate([*older, *range(50, 62)])]
    groups = tiles.group_cells(cells, since=0, opened="")
    assert [group.title for group in groups] == ["Turns 26 to 37", "Newest"]


def test_group_cells_draws_only_open_groups_when_closed_is_false() -> None:
    cells = [build_cell(n, n // 10) for n in range(80)]
    drawn = tiles.group_cells(cells, since=0, opened="h_0000", closed=False)
    shown = [bool(group.tiles) for group in drawn]
    assert shown == [True, *[False] * (len(drawn) - 2), True]
    every = tiles.group_cells(cells, since=0, opened="h_0000")
    assert all(group.tiles for group in every)
    assert [group.open for group in drawn] == [group.open for group in every]
