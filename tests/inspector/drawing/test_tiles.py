from __future__ import annotations

from uuid import UUID

from inspector.drawing import tiles
from memoryhub.kernel.state.pages import Location
from memoryhub.queries.paging.residency import KeepReason, ResidentPage


def build_cell(slot: int, turn: int) -> ResidentPage:
    """Build the cell of a user's message."""
    why = KeepReason(rule="", score=0.0, terms=(), protected_until=None, rank=1)
    return ResidentPage(
        page_id=f"h_{slot:04}", letter="L", level=3, type="history", modality="text",
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
