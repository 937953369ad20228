"""Outcomes: what a command would do, in words for a screen. Pure."""

from __future__ import annotations

from typing import Any

from inspector.drawing import cells, summaries
from memoryhub.queries.paging.previews import Preview

#: Events of a preview that are told one by one.
TOLD = 100


def told(preview: Preview) -> dict[str, Any]:
    """What the partial of a preview is drawn from."""
    effects, why = preview.effects, preview.why
    return {
        "preview": preview,
        "effects": [
            (effect, summaries.of_body(effect.type, effect.body))
            for effect in effects[:TOLD]
        ],
        "more": max(0, len(effects) - TOLD),
        "rule": cells.RULES.get(why.rule) if why else None,
    }
