"""Outcomes: what a command would do, in words for a screen. Pure."""

from __future__ import annotations

from typing import Any

from inspector.drawing import summaries
from memoryhub.queries.paging.previews import Preview

#: Events of a preview that are shown one by one.
SHOWN = 100
#: The rule that pins a page, in words.
RULES = {
    "explicit": "pinned by a command",
    "system": "auto-pinned: system prompt",
    "exchange": "auto-pinned: since the last user message",
    "recent": "auto-pinned: made in the last turns",
    "claim": "auto-pinned: claim",
}


def preview_context(preview: Preview) -> dict[str, Any]:
    """What the partial of a preview is drawn from."""
    effects, why = preview.effects, preview.why
    return {
        "preview": preview,
        "effects": [
            (effect, summaries.of_body(effect.type, effect.body))
            for effect in effects[:SHOWN]
        ],
        "more": max(0, len(effects) - SHOWN),
        "rule": RULES.get(why.rule) if why else None,
    }
