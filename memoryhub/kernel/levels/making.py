"""Levels made from a page's FULL, ready to be written. Pure; one pass over the text."""

from __future__ import annotations

from dataclasses import replace

from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.context import costs
from memoryhub.kernel.context.opened import OpenedPage, count_media_tokens, get_body
from memoryhub.kernel.context.tokens import Count, estimate_tokens
from memoryhub.kernel.levels import levels
from memoryhub.kernel.state.page_events import LevelMade
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.state.paging_config import ESTIMATED
from memoryhub.kernel.text import strict_json

PRODUCER = "extract/1"


def make_levels(
    opened: OpenedPage,
    *,
    version: int,
    tokens: int | None = None,
    count: Count = estimate_tokens,
) -> MadeLevels:
    """Make all levels that `extract/1` can make of a page at FULL; maybe none.

    `tokens` is the size recorded for FULL; without it, FULL weighs its counted tokens.
    """
    texts = levels.produce_levels(
        get_body(opened, level=FULL),
        page_type=opened.type,
        modality=opened.modality,
        schema_name=_get_schema_name(opened),
        media_tokens=count_media(opened, tokens=tokens, count=count),
        count=count,
    )
    found = []
    for level, text in texts.items():
        shown = replace(opened, content=text.content, shown={})
        cost = costs.compute_cost(shown, level=level, count=count)
        found.append(LevelMade(level=level, tokens=text.tokens, cost=cost))  # type: ignore[arg-type]  # 1 to 3
    plain = {str(level): text.content for level, text in texts.items()}
    return MadeLevels(
        page_id=opened.page_id,
        version=version,
        producer=PRODUCER,
        levels=tuple(found),
        payload=strict_json.dump_stored({"levels": plain}),
    )


def count_media(opened: OpenedPage, *, tokens: int | None, count: Count) -> int:
    """Count the tokens of media at FULL, so that no level weighs more than FULL."""
    weight = count_media_tokens(opened)
    if tokens is None or not weight:
        return weight
    return min(weight, max(0, tokens - count(get_body(opened, level=FULL))))


def build_counter(opened: OpenedPage, *, tokens: int, tokenizer: str) -> Count:
    """Build the counter for texts of this page, whose FULL was given `tokens`.

    For a tokenizer that only its agent runs, the counter assumes the ratio of tokens to
    est/1 that FULL has, and rounds up.
    """
    if tokenizer == ESTIMATED:
        return estimate_tokens
    full = get_body(opened, level=FULL)
    if not isinstance(full, str):
        full = strict_json.dump_stored(full).decode()
    own = max(1, estimate_tokens(full))

    def count(text: str) -> int:
        return -(-estimate_tokens(text) * tokens // own)

    return count


def _get_schema_name(opened: OpenedPage) -> str | None:
    if opened.slot is not None or opened.modality != "structured":
        return None
    name: str | None = opened.content.get("schema_name")
    return name
