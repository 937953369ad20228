"""Levels made of a page's FULL, ready to be written. Pure; one pass over the text."""

from __future__ import annotations

from dataclasses import replace

from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.levels import costs, levels
from memoryhub.kernel.levels.opened import Opened, body, media_tokens
from memoryhub.kernel.levels.tokens import Count, estimate
from memoryhub.kernel.state.page_events import LevelMade
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.state.paging_config import ESTIMATED
from memoryhub.kernel.text import strict_json

PRODUCER = "extract/1"


def made_of(
    opened: Opened, *, version: int, tokens: int | None = None, count: Count = estimate
) -> MadeLevels:
    """Make all levels that `extract/1` can make of a page at FULL; maybe none.

    `tokens` is what FULL was given; without, it weighs what is counted.
    """
    texts = levels.produce(
        body(opened, level=FULL),
        page_type=opened.type,
        modality=opened.modality,
        schema_name=_schema_name(opened),
        media_tokens=count_media(opened, tokens=tokens, count=count),
        count=count,
    )
    found = []
    for level, text in texts.items():
        shown = replace(opened, content=text.content, shown={})
        cost = costs.cost(shown, level=level, count=count)
        found.append(LevelMade(level=level, tokens=text.tokens, cost=cost))  # type: ignore[arg-type]  # 1 to 3
    plain = {str(level): text.content for level, text in texts.items()}
    return MadeLevels(
        page_id=opened.page_id,
        version=version,
        producer=PRODUCER,
        levels=tuple(found),
        payload=strict_json.as_sent({"levels": plain}),
    )


def count_media(opened: Opened, *, tokens: int | None, count: Count) -> int:
    """Count the media at FULL, within what that was given: no level may weigh more."""
    weight = media_tokens(opened)
    if tokens is None or not weight:
        return weight
    return min(weight, max(0, tokens - count(body(opened, level=FULL))))


def counting(opened: Opened, *, tokens: int, tokenizer: str) -> Count:
    """Return the counter for texts of this page, whose FULL was given `tokens`.

    For a tokenizer that only its agent runs: what we make is taken to weigh by it as
    FULL does, and rounded up.
    """
    if tokenizer == ESTIMATED:
        return estimate
    full = body(opened, level=FULL)
    if not isinstance(full, str):
        full = strict_json.as_sent(full).decode()
    own = max(1, estimate(full))

    def count(text: str) -> int:
        return -(-estimate(text) * tokens // own)

    return count


def _schema_name(opened: Opened) -> str | None:
    if opened.slot is not None or opened.modality != "structured":
        return None
    name: str | None = opened.content.get("schema_name")
    return name
