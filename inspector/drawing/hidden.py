"""Hidden characters: named where text is shown, escaped where it is typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from unicodedata import name as unicode_name

#: Characters that change how text around them looks, or are not seen at all: controls
#: but tab and newline, direction marks, zero widths, tags.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]|\r(?!\n)"
)
_SHORT = {
    "\u200b": "ZWSP", "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE",
    "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO",
    "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI",
    "\ufeff": "BOM", "\xad": "SHY", "\x1b": "ESC", "\r": "CR", "\x7f": "DEL",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of text as it is, or a mark that names a character not seen."""

    text: str = ""
    mark: str = ""
    title: str = ""


def pieces(text: str) -> list[Piece]:
    """The text with each hidden character named; a template escapes both."""
    found, start = [], 0
    for hidden in _HIDDEN.finditer(text):
        if hidden.start() > start:
            found.append(Piece(text=text[start : hidden.start()]))
        found.append(_mark(hidden[0]))
        start = hidden.end()
    return [*found, Piece(text=text[start:])]


def typed(text: str) -> str:
    """JSON text for a field to type in, where no mark can stand: the same in escapes.

    Those beyond the first plane, which no single escape stands for, stay as they are.
    """
    return _HIDDEN.sub(
        lambda each: f"\\u{ord(each[0]):04x}" if ord(each[0]) < 0x10000 else each[0],
        text,
    )


def _mark(character: str) -> Piece:
    code = f"U+{ord(character):04X}"
    title = unicode_name(character, "control character")
    return Piece(mark=_SHORT.get(character, code), title=f"{code} {title.lower()}")
