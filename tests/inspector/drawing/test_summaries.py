from __future__ import annotations

import pytest

from inspector.drawing import summaries


@pytest.mark.parametrize(
    ("event_type", "body"),
    [
        ("page.created", {"page_id": "p", "type": "claim", "tokens": 1}),
        ("page.mapped", {"page_id": "p", "level": 2, "tokens": 1}),
        ("turn.packed", {"turn": 1, "tokens": 1, "budget": 9}),
        (
            "page.lowered",
            {
                "page_id": "p",
                "level_before": 0,
                "level": 2,
                "tokens_before": 3,
                "tokens": 2,
            },
        ),
    ],
)
def test_summary_says_token_in_the_singular_for_one(
    event_type: str, body: dict[str, object]
) -> None:
    text = summaries.summarise_body(event_type, body)
    assert "1 token" in text
    assert "tokens" not in text
