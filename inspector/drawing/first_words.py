"""First words: how a page or a message begins, or what was found of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inspector.drawing import chat
from memoryhub.kernel.levels import opened as levels
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.search.excerpts import Excerpt
from memoryhub.kernel.state.pages import FULL

#: Pieces of a text, each with whether it is a match.
Pieces = list[tuple[bool, str]]
#: Characters that are shown; for each, so many are looked at.
SHOWN, READ = 96, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstWords:
    """What stands in the place of a text where there is room for one line."""

    text: str
    #: The tool that is called, or that gave it back.
    title: str = ""


NONE = FirstWords(text="")


def page_words(text: Opened | None, level: int, *, chars: int = SHOWN) -> FirstWords:
    """Word the beginning of a page at a level; nothing where the text is gone."""
    if text is None:
        return NONE
    if level == FULL and text.slot is not None:
        return message_words(text.content, text.role, chars=chars)
    return _worded(levels.body(text, level=level), chars)


def message_words(content: Any, role: str | None, *, chars: int = SHOWN) -> FirstWords:
    """Word the beginning of a message."""
    block = chat.opening(content, role)
    if block is None:
        return NONE
    title = block.title if block.kind in ("call", "result") else ""
    picture = f"[{block.picture.about}]" if block.picture else ""
    return FirstWords(text=_line(block.text or picture, chars), title=title)


def excerpt_pieces(excerpt: Excerpt) -> Pieces:
    """Cut an excerpt into pieces; of each tell whether it is a match."""
    found, at, text = Pieces(), 0, excerpt.text
    for begin, end in excerpt.matches:
        found += [(False, text[at:begin]), (True, text[begin:end])]
        at = end
    found = [(False, "… " if excerpt.before else ""), *found, (False, text[at:])]
    found.append((False, " …" if excerpt.after else ""))
    return [piece for piece in found if piece[1]]


def _worded(body: Any, chars: int) -> FirstWords:
    text = body if isinstance(body, str) else chat.readable(body)
    return FirstWords(text=_line(text, chars))


def _line(text: str, chars: int) -> str:
    line = " ".join(text[: READ * chars].split())
    return line if len(line) <= chars else f"{line[:chars].rstrip()}…"
