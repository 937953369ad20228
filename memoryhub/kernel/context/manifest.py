"""The manifest: a list of pages that the model does not see in full.

Pure. Hints say where to look; they are cut short, and never evidence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any
from uuid import UUID

from memoryhub.kernel.context.contexts import Manifest, ManifestRow, Texts
from memoryhub.kernel.context.lines import render_media
from memoryhub.kernel.context.opened import OpenedPage, get_body
from memoryhub.kernel.context.opened import get_text as text_at
from memoryhub.kernel.context.tokens import Count, estimate_tokens
from memoryhub.kernel.state.pages import FULL, HINT
from memoryhub.kernel.text.json_text import dump_json, escape_for_string, make_inert

MAX_ROWS = 50
MAX_TOKENS = 2_000
HINT_CHARS = 120
#: Distinguishing words: how many, of how many characters at most, and how many
#: characters of a text are searched. `_TELLING` is their key in `Opened.shown`, below
#: all levels.
_WORDS, _LONGEST, _READ, _TELLING = 5, 24, 2_000, -1
_WORD = re.compile(r"[^\W_](?:[\w.@/:-]*[^\W_])?")
PREFER_LEVELS = [2, 1, 0]

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def render_offer(manifest: Manifest, *, texts: Texts, thread: UUID) -> str:
    """Render the text of a `page_list` result, which never changes in an exchange."""
    rows = [
        build_available_page(
            row, texts[row.get_location(thread)], telling=manifest.telling
        )
        for row in manifest.rows
    ]
    return dump_json({"available_pages": rows, "omitted": manifest.omitted})


def build_available_page(
    row: ManifestRow, opened: OpenedPage, *, telling: bool = True
) -> dict[str, Any]:
    made = opened.content if row.key == HINT else build_hint(opened, level=row.key)
    words = (
        find_telling_words(opened, row.key, made) if telling and row.key != HINT else ""
    )
    return {
        "page_id": row.page_id,
        "modality": opened.modality,
        "tier": row.tier,
        "levels": [int(digit) for digit in row.levels],
        "hint": f"{made} … {words}" if words else made,
    }


def build_hint(opened: OpenedPage, *, level: int = FULL) -> str:
    """Build a substitute for a hint: role or type, and the beginning of the page."""
    label = f"[{opened.role or opened.type}] "
    text = text_at(opened, level=level)
    if text is not None:
        return label + text[:HINT_CHARS]
    if opened.modality in ("text", "structured"):
        return label + _render_beginning(get_body(opened, level=level))
    return label + render_media(opened)[:HINT_CHARS]


def find_telling_words(opened: OpenedPage, level: int, made: str) -> str:
    """Return a few words that distinguish the page from others with the same beginning.

    The words are from the first 2,000 characters and do not occur in `made`. Words with
    figures go first, then words with capitals, then the longest. The opened text keeps
    the result.
    """
    if (kept := opened.shown.get(_TELLING - level)) is not None:
        return kept
    text = text_at(opened, level=level)
    if text is None:
        structured = opened.modality == "structured"
        text = dump_json(get_body(opened, level=level)) if structured else ""
    found = [
        word
        for word in dict.fromkeys(_WORD.findall(text[:_READ]))
        if len(word) <= _LONGEST and word not in made
    ]
    best = {*sorted(found, key=_rank_ordinary)[:_WORDS]}
    words = opened.shown[_TELLING - level] = " ".join(w for w in found if w in best)
    return words


def _rank_ordinary(word: str) -> tuple[bool, bool, int]:
    figures = any(map(str.isdigit, word))
    return not figures, word.islower(), -len(word)


def fit_rows(
    manifest: Manifest,
    *,
    rows: Iterable[ManifestRow] = (),
    pages: int,
    room: int,
    texts: Texts,
    thread: UUID,
    count: Count = estimate_tokens,
) -> Manifest | None:
    """Return `manifest` with as many rows as `room` tokens hold.

    None if not even the rest fits. `pages` is how many could be fetched. Tokens are
    counted in the request's JSON, where this text is a string.
    """

    def count_row(row: ManifestRow) -> int:
        listed = build_available_page(
            row, texts[row.get_location(thread)], telling=manifest.telling
        )
        return count(escape_for_string(make_inert(dump_json(listed))) + ",")

    left = room - count(
        escape_for_string(make_inert(_render_recorded(manifest, omitted=pages)))
    )
    if left < 0:
        return None
    shown = _take_fitting_rows(((row, count_row(row)) for row in rows), left)
    return replace(manifest, rows=shown, omitted=pages - len(shown))


def _render_recorded(manifest: Manifest, *, omitted: int) -> str:
    """Render all that is recorded beside the rows; a request holds less."""
    return dump_json(
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


def _take_fitting_rows(
    costs: Iterator[tuple[ManifestRow, int]], room: int
) -> tuple[ManifestRow, ...]:
    """Return the leading rows, as many as fit."""
    kept = list[ManifestRow]()
    for row, cost in islice(costs, MAX_ROWS):
        if cost > room:
            break
        kept.append(row)
        room -= cost
    return tuple(kept)


def _render_beginning(value: Any) -> str:
    """Render the first characters of a value's JSON, without writing the rest."""
    hint = ""
    for piece in _ENCODER.iterencode(value):
        hint += piece
        if len(hint) >= HINT_CHARS:
            break
    return hint[:HINT_CHARS]
