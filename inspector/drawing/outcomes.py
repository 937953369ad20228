"""Outcomes: what a command would change, in words for its preview. Pure."""

from __future__ import annotations

from typing import Any

from inspector.drawing import summaries
from memoryhub.queries.paging.previews import CommandPreview

#: Most events of a preview that are shown one by one.
MAX_EFFECTS = 100
#: Words for each rule that pins a page.
PIN_RULES = {
    "explicit": "pinned by a command",
    "system": "auto-pinned: system prompt",
    "exchange": "auto-pinned: since the last user message",
    "recent": "auto-pinned: made in the last turns",
    "claim": "auto-pinned: claim",
}


def build_preview_context(preview: CommandPreview) -> dict[str, Any]:
    """Build the context of a preview's partial template."""
    effects, why = preview.effects, preview.why
    return {
        "preview": preview,
        "effects": [
            (effect, summaries.summarise_body(effect.type, effect.body))
            for effect in effects[:MAX_EFFECTS]
        ],
        "more": max(0, len(effects) - MAX_EFFECTS),
        "rule": PIN_RULES.get(why.rule) if why else None,
    }
