"""Outcomes: what a command would do, in words for a screen. Pure."""

from __future__ import annotations

from typing import Any

from inspector import cells, summaries
from memoryhub.queries.previews import Preview
from memoryhub.queries.restorations import Restoration

#: Events of a preview that are told one by one.
TOLD = 100


def restoring(found: Restoration) -> str:
    """What restoring does to the keys, as the button of the form says it."""
    moved = (
        (found.change, "key changes", "keys change"),
        (found.go, "goes", "go"),
        (found.come, "returns", "return"),
    )
    if "keys" not in found.parts or not any(count for count, _, _ in moved):
        return "Restore"
    said = [f"{n:,} {one if n == 1 else many}" for n, one, many in moved if n]
    if not found.change:
        count, _, word = said[0].partition(" ")
        said[0] = f"{count} key{'' if count == '1' else 's'} {word}"
    return ", ".join(said)


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
