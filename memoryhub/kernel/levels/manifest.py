"""The manifest: what a model is told of pages that it does not see in full.

Pure. Hints tell where to look; they are cut short, and never evidence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any
from uuid import UUID

from memoryhub.kernel.levels.contexts import Manifest, Row, Texts
from memoryhub.kernel.levels.lines import media
from memoryhub.kernel.levels.opened import Opened, body
from memoryhub.kernel.levels.opened import text as text_at
from memoryhub.kernel.levels.tokens import Count, estimate
from memoryhub.kernel.state.pages import FULL, HINT
from memoryhub.kernel.text.json_text import dumped, in_string, inert

MAX_ROWS = 50
MAX_TOKENS = 2_000
HINT_CHARS = 120
#: Of what tells pages apart: how many words, of how many characters at most, and how
#: far a text is read for them. It is kept in `Opened.shown`, below all levels.
_WORDS, _LONGEST, _READ, _TELLING = 5, 24, 2_000, -1
_WORD = re.compile(r"[^\W_](?:[\w.@/:-]*[^\W_])?")
PREFER_LEVELS = [2, 1, 0]

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def offered_text(manifest: Manifest, *, texts: Texts, thread: UUID) -> str:
    """Return the text of a `page_list` result, which never changes in an exchange."""
    rows = [
        available(row, texts[row.location(thread)], telling=manifest.telling)
        for row in manifest.rows
    ]
    return dumped({"available_pages": rows, "omitted": manifest.omitted})


def available(row: Row, opened: Opened, *, telling: bool = True) -> dict[str, Any]:
    made = opened.content if row.key == HINT else hint(opened, level=row.key)
    words = telling_words(opened, row.key, made) if telling and row.key != HINT else ""
    return {
        "page_id": row.page_id,
        "modality": opened.modality,
        "tier": row.tier,
        "levels": [int(digit) for digit in row.levels],
        "hint": f"{made} … {words}" if words else made,
    }


def hint(opened: Opened, *, level: int = FULL) -> str:
    """Return a stand-in for a hint: role or type, and how the page begins."""
    label = f"[{opened.role or opened.type}] "
    text = text_at(opened, level=level)
    if text is not None:
        return label + text[:HINT_CHARS]
    if opened.modality in ("text", "structured"):
        return label + _beginning(body(opened, level=level))
    return label + media(opened)[:HINT_CHARS]


def telling_words(opened: Opened, level: int, made: str) -> str:
    """Return a few words that tell a page from others which begin as it does.

    Those of its first 2,000 characters that stand in no hint of how it begins: with
    figures, then with capitals, then the longest. Kept with the opened text.
    """
    if (kept := opened.shown.get(_TELLING - level)) is not None:
        return kept
    text = text_at(opened, level=level)
    if text is None:
        structured = opened.modality == "structured"
        text = dumped(body(opened, level=level)) if structured else ""
    found = [
        word
        for word in dict.fromkeys(_WORD.findall(text[:_READ]))
        if len(word) <= _LONGEST and word not in made
    ]
    best = {*sorted(found, key=_ordinariness)[:_WORDS]}
    words = opened.shown[_TELLING - level] = " ".join(w for w in found if w in best)
    return words


def _ordinariness(word: str) -> tuple[bool, bool, int]:
    figures = any(map(str.isdigit, word))
    return not figures, word.islower(), -len(word)


def fitted(
    manifest: Manifest,
    *,
    rows: Iterable[Row] = (),
    pages: int,
    room: int,
    texts: Texts,
    thread: UUID,
    count: Count = estimate,
) -> Manifest | None:
    """Return `manifest` with as many rows as `room` tokens hold.

    None if not even the rest fits. `pages` is how many could be fetched. Tokens are
    counted in the request's JSON, where this text is a string.
    """

    def cost(row: Row) -> int:
        listed = available(row, texts[row.location(thread)], telling=manifest.telling)
        return count(in_string(inert(dumped(listed))) + ",")

    left = room - count(in_string(inert(_recorded(manifest, omitted=pages))))
    if left < 0:
        return None
    shown = _fill(((row, cost(row)) for row in rows), left)
    return replace(manifest, rows=shown, omitted=pages - len(shown))


def _recorded(manifest: Manifest, *, omitted: int) -> str:
    """All that is recorded beside the rows, more than stands in a request."""
    return dumped(
        {
            "thread": manifest.thread,
            "turn": manifest.turn,
            "mapped": manifest.mapped,
            "working_set": [],
            "available_pages": [],
            "omitted": omitted,
            "policies": {**manifest.policies._asdict(), "prefer_levels": PREFER_LEVELS},
        }
    )


def _fill(costs: Iterator[tuple[Row, int]], room: int) -> tuple[Row, ...]:
    """The first rows, as many as fit."""
    kept = list[Row]()
    for row, cost in islice(costs, MAX_ROWS):
        if cost > room:
            break
        kept.append(row)
        room -= cost
    return tuple(kept)


def _beginning(value: Any) -> str:
    """The first characters of a value's JSON, without writing the rest."""
    hint = ""
    for piece in _ENCODER.iterencode(value):
        hint += piece
        if len(hint) >= HINT_CHARS:
            break
    return hint[:HINT_CHARS]
