"""Hidden characters: named where text is shown, escaped where it is typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from unicodedata import name as unicode_name

#: Characters that change how surrounding text looks, or that are invisible: controls
#: except tab and newline, direction marks, zero-width characters, tags.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]|\r(?!\n)"
)
#: Names that Unicode abbreviates; a mark shows the code of any other character.
_SHORT = {
    "\u200b": "ZWSP", "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE",
    "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO",
    "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI",
    "\ufeff": "BOM", "\xad": "SHY", "\x1b": "ESC", "\r": "CR", "\x7f": "DEL",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece:
    """A piece of text, or a mark that names a hidden character."""

    text: str = ""
    mark: str = ""
    title: str = ""


def split_text(text: str) -> list[TextPiece]:
    """Split a text so that each hidden character is a named mark.

    Templates escape both texts and marks.
    """
    found, start = [], 0
    for hidden in _HIDDEN.finditer(text):
        if hidden.start() > start:
            found.append(TextPiece(text=text[start : hidden.start()]))
        found.append(_name_character(hidden[0]))
        start = hidden.end()
    return [*found, TextPiece(text=text[start:])]


def escape_hidden(text: str) -> str:
    """Escape the hidden characters of JSON text for an input field, which has no marks.

    Characters beyond the first plane need two escapes, and stay as they are.
    """
    return _HIDDEN.sub(
        lambda each: f"\\u{ord(each[0]):04x}" if ord(each[0]) < 0x10000 else each[0],
        text,
    )


def _name_character(character: str) -> TextPiece:
    code = f"U+{ord(character):04X}"
    title = unicode_name(character, "control character")
    return TextPiece(mark=_SHORT.get(character, code), title=f"{code} {title.lower()}")
