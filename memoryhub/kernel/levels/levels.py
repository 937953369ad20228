"""Levels: shorter forms of a page, each less faithful than the one before.

Pure. FULL is the original text. A producer, known by name and version, makes the other
levels from FULL; its answer depends only on its arguments.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from memoryhub.kernel.context import tokens
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.levels import level_json, level_text
from memoryhub.kernel.state.pages import ABSTRACT, FULL, REDUCED, REFERENCE
from memoryhub.kernel.text import json_text
from memoryhub.kernel.text.json_text import dump_json

#: Producer of text levels. Media have none of ours: their levels come from elsewhere.
PRODUCER = "extract/1"
MADE = (REDUCED, ABSTRACT, REFERENCE)


class LevelText(NamedTuple):
    """One level of a page, ready to be sealed."""

    #: A text; the REDUCED level of a structured page is a JSON value.
    content: Any
    #: Tokens of the level's text.
    tokens: int


def can_produce(modality: str) -> bool:
    """Return whether levels of this modality can be made without a model."""
    return modality in ("text", "structured")


def choose_level(existing: Collection[int], wanted: int) -> int:
    """Return the greatest available level up to `wanted`."""
    return max(level for level in {FULL, *existing} if level <= wanted)


def compute_cap(level: int, full: int) -> int:
    """Return the most tokens a level may have, of a page with `full` tokens."""
    caps = {REDUCED: full // 2, ABSTRACT: min(200, full // 4), REFERENCE: 50}
    return caps[level]


def produce_levels(
    content: Any,
    *,
    page_type: str,
    modality: str,
    schema_name: str | None = None,
    media_tokens: int = 0,
    count: Count = tokens.estimate_tokens,
) -> dict[int, LevelText]:
    """Make the levels below FULL, each smaller than every more faithful one.

    `content` is the text or the JSON value itself. `media_tokens` are the tokens of
    media that only FULL shows: lower levels drop media before any word. Levels that
    would not be smaller are left out. Linear in the size of the content.
    """
    made = dict[int, LevelText]()
    if not can_produce(modality):
        return made
    text = content if modality == "text" else dump_json(content)
    maker = _Maker(
        text=text,
        structured=modality == "structured",
        value=json_text.read(text) if modality == "text" else content,
        label=f"[{page_type}] ",
        schema_name=schema_name,
        count=count,
    )
    full = smallest = count(text) + media_tokens
    for level in MADE:
        found = maker.make(level, min(compute_cap(level, full), smallest - 1))
        if found is not None:
            made[level] = found
            smallest = found.tokens
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """Producer of all levels of one page's FULL."""

    text: str
    structured: bool
    #: The object or array that the text parses to; None for other texts.
    value: Any
    label: str
    schema_name: str | None
    count: Count

    def make(self, level: int, cap: int) -> LevelText | None:
        if cap < 1:
            return None
        if level == REDUCED and not self.structured and self.count(self.text) <= cap:
            return LevelText(self.text, self.count(self.text))
        plain = self.value is None and not self.structured
        content = (
            self._make_from_text(level, cap)
            if plain
            else self._make_from_json(level, cap)
        )
        if content is None:
            return None
        text = content if isinstance(content, str) else dump_json(content)
        return LevelText(content, self.count(text))

    def _make_from_text(self, level: int, cap: int) -> str | None:
        if level == REDUCED:
            return level_text.reduce_text(self.text, cap=cap, count=self.count)
        if level == ABSTRACT:
            return level_text.abstract_text(self.text, cap=cap, count=self.count)
        return level_text.render_text_reference(
            self.text, label=self.label, cap=cap, count=self.count
        )

    def _make_from_json(self, level: int, cap: int) -> Any:
        if level == REDUCED:
            copy = level_json.reduce_json(self.value, cap=cap, count=self.count)
            # A page's modality must not change with its level: a text stays a text.
            return copy if self.structured or copy is None else dump_json(copy)
        if level == ABSTRACT:
            return level_json.abstract_json(self.value, cap=cap, count=self.count)
        return level_json.render_json_reference(
            self.value,
            label=self.label,
            name=self.schema_name,
            cap=cap,
            count=self.count,
        )
