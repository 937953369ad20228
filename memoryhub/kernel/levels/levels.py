"""Levels: what a page looks like when it is shown less faithfully.

Pure. FULL is what was written; the others are made of it by a producer, which is known
by name and version, and whose answer never depends on anything but its arguments.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from memoryhub.kernel.levels import level_json, level_text, tokens
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.state.pages import ABSTRACT, FULL, REDUCED, REFERENCE
from memoryhub.kernel.text import json_text
from memoryhub.kernel.text.json_text import dumped

#: Media have no producer of ours: their levels come from elsewhere.
PRODUCER = "extract/1"
MADE = (REDUCED, ABSTRACT, REFERENCE)


class LevelText(NamedTuple):
    """One level of a page, ready to be sealed."""

    #: A text; of structured pages REDUCED is a JSON value.
    content: Any
    #: Of its text.
    tokens: int


def producible(modality: str) -> bool:
    """Return whether levels of this modality can be made without a model."""
    return modality in ("text", "structured")


def best(existing: Collection[int], wanted: int) -> int:
    """Return the level that a request for `wanted` gets: the greatest up to it."""
    return max(level for level in {FULL, *existing} if level <= wanted)


def cap(level: int, full: int) -> int:
    """Return the most tokens a level may have, of a page with `full` tokens."""
    caps = {REDUCED: full // 2, ABSTRACT: min(200, full // 4), REFERENCE: 50}
    return caps[level]


def produce(
    content: Any,
    *,
    page_type: str,
    modality: str,
    schema_name: str | None = None,
    media_tokens: int = 0,
    count: Count = tokens.estimate,
) -> dict[int, LevelText]:
    """Make the levels below FULL, each smaller than every more faithful one.

    `content` is the text or the JSON value itself, `media_tokens` those of media that
    only FULL shows: they make way before any word does. Levels that would not be
    smaller are left out. Linear in the size of the content.
    """
    made = dict[int, LevelText]()
    if not producible(modality):
        return made
    text = content if modality == "text" else dumped(content)
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
        found = maker.make(level, min(cap(level, full), smallest - 1))
        if found is not None:
            made[level] = found
            smallest = found.tokens
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """A page's FULL, looked at once for all levels."""

    text: str
    structured: bool
    #: The object or array that a text is; None for other texts.
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
        content = self._of_text(level, cap) if plain else self._of_json(level, cap)
        if content is None:
            return None
        text = content if isinstance(content, str) else dumped(content)
        return LevelText(content, self.count(text))

    def _of_text(self, level: int, cap: int) -> str | None:
        if level == REDUCED:
            return level_text.reduced(self.text, cap=cap, count=self.count)
        if level == ABSTRACT:
            return level_text.abstract(self.text, cap=cap, count=self.count)
        return level_text.reference(
            self.text, label=self.label, cap=cap, count=self.count
        )

    def _of_json(self, level: int, cap: int) -> Any:
        if level == REDUCED:
            copy = level_json.reduced(self.value, cap=cap, count=self.count)
            # What a page is must not change with its level: a text stays a text.
            return copy if self.structured or copy is None else dumped(copy)
        if level == ABSTRACT:
            return level_json.abstract(self.value, cap=cap, count=self.count)
        return level_json.reference(
            self.value,
            label=self.label,
            name=self.schema_name,
            cap=cap,
            count=self.count,
        )
