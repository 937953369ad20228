"""Manifest: the pages it lists, and its size."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.context import manifest
from memoryhub.kernel.context.contexts import (
    ContextRecord,
    FaultPolicies,
    Manifest,
    ManifestRow,
)
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.state.pages import HINT, Location
from memoryhub.kernel.text.json_text import escape_for_string
from tests.kernel.packs import as_journaled

THREAD = UUID(int=7)
ANCESTOR = UUID(int=8)
BARE = Manifest(
    thread="trip",
    turn=4,
    mapped=12,
    policies=FaultPolicies(
        faults_allowed=True,
        max_faults_per_turn=3,
        faults_left=2,
        upgrade_budget_tokens=8_000,
    ),
)


def make_page(content: Any, **fields: Any) -> OpenedPage:
    given = {"page_id": "a", "type": "claim", "modality": "text", **fields}
    return OpenedPage(content=content, **given)


def make_rows(
    number: int,
) -> tuple[tuple[ManifestRow, ...], dict[Location, OpenedPage]]:
    listed = tuple(ManifestRow(f"page-{n}", "L2", "0123", n) for n in range(number))
    texts = {
        row.get_location(THREAD): make_page(
            {"text": f"What page {row.seq} is about. " * 9}
        )
        for row in listed
    }
    return listed, texts


def fit_manifest(room: int, number: int = 0) -> Manifest | None:
    listed, texts = make_rows(number)
    return manifest.fit_rows(
        BARE,
        rows=listed,
        pages=number + 5,
        room=room,
        texts=texts,
        thread=THREAD,
    )


def render_manifest(made: Manifest, number: int = 0) -> str:
    return manifest.render_offer(made, texts=make_rows(number)[1], thread=THREAD)


def test_manifest_lists_pages_and_counts_the_omitted() -> None:
    made = fit_manifest(5_000, number=1)
    assert made is not None
    hint = "[claim] " + ("What page 0 is about. " * 9)[:120]
    assert json.loads(render_manifest(made, 1)) == {
        "available_pages": [
            {
                "page_id": "page-0",
                "modality": "text",
                "tier": "L2",
                "levels": [0, 1, 2, 3],
                "hint": hint,
            }
        ],
        "omitted": 5,
    }


@given(st.integers(0, 4_000), st.integers(0, 70))
def test_manifest_keeps_to_its_room_and_counts_the_omitted(
    room: int, number: int
) -> None:
    made = fit_manifest(room, number)
    if made is None:
        assert room < 200
        return
    assert estimate_tokens(escape_for_string(render_manifest(made, number))) <= room
    assert len(made.rows) <= 50
    assert made.omitted == number + 5 - len(made.rows)
    assert [row.seq for row in made.rows] == list(range(len(made.rows)))


def test_manifest_has_at_most_fifty_rows() -> None:
    made = fit_manifest(100_000, number=60)
    assert made is not None
    assert len(made.rows) == 50


@pytest.mark.parametrize(
    ("page", "hint"),
    [
        (make_page({"text": "hello\nthere"}), "[claim] hello\nthere"),
        (make_page("hello", role="user", slot=1), "[user] hello"),
        (make_page({"text": "x" * 121}), f"[claim] {'x' * 120}"),
        (
            make_page({"data": {"k": ["x" * 200]}}, modality="structured"),
            '[claim] {"k":["' + "x" * 113,
        ),
        (make_page({"caption": "A cat"}, modality="image"), "[claim] [IMAGE: A cat]"),
    ],
)
def test_page_without_a_hint_is_hinted_by_how_it_begins(
    page: OpenedPage, hint: str
) -> None:
    assert manifest.build_hint(page) == hint


def test_results_of_one_tool_have_distinct_hints() -> None:
    """The results begin alike; figures, capitals and long words tell more."""
    head = '{"status": "found", "carrier": "the same for each", "remarks": "' + "-" * 90
    texts = [f'{head}", "flight": "HAT{n:03}", "to": "Oslo"}}' for n in range(150)]
    row = ManifestRow("a", "home", "0", 9)
    pages = [make_page(text, role="tool", slot=n) for n, text in enumerate(texts)]
    hints = {manifest.build_available_page(row, page)["hint"] for page in pages}
    assert len(hints) == 150
    assert min(hints).endswith(" … flight HAT000 Oslo")
    # Older journals have this form.
    plain = manifest.build_available_page(row, pages[0], telling=False)["hint"]
    assert plain == manifest.build_hint(pages[0])


def test_agents_own_hint_takes_precedence() -> None:
    row = ManifestRow("a", "L1", "02", 9, HINT, ANCESTOR)
    texts = {Location(ANCESTOR, 9, HINT): make_page("Ask me about May")}
    shown = manifest.build_available_page(row, texts[row.get_location(THREAD)])
    assert shown["hint"] == "Ask me about May"
    assert shown["levels"] == [0, 2]


def test_manifest_is_restored_from_its_record() -> None:
    made = fit_manifest(1_500, number=9)
    assert made is not None
    of_a_parent = ManifestRow("b", "L1", "02", 4, HINT, ANCESTOR)
    made = replace(made, rows=(*made.rows, of_a_parent))
    record = ContextRecord(
        packer="pack/2", mode="strict", budget=9, sections=(), manifest=made
    )
    assert as_journaled(record).manifest == made
    assert "about" not in repr(record)
