"""First words of a page or a message, and excerpts of search hits. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inspector.drawing import chat
from memoryhub.kernel.context.opened import OpenedPage, get_body
from memoryhub.kernel.search.excerpts import Excerpt
from memoryhub.kernel.state.pages import FULL

#: Pieces of a text, each with whether it is a match.
Pieces = list[tuple[bool, str]]
#: Characters shown, and characters read for each character shown.
SHOWN, READ = 96, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstWords:
    """The beginning of a text, for a place with room for one line."""

    text: str
    #: The tool that the message calls, or that returned it.
    title: str = ""


NONE = FirstWords(text="")


def build_page_words(
    text: OpenedPage | None, level: int, *, chars: int = SHOWN
) -> FirstWords:
    """Build the first words of a page at a level; `NONE` where the text is erased."""
    if text is None:
        return NONE
    if level == FULL and text.slot is not None:
        return build_message_words(text.content, text.role, chars=chars)
    return _build_body_words(get_body(text, level=level), chars)


def build_message_words(
    content: Any, role: str | None, *, chars: int = SHOWN
) -> FirstWords:
    """Build the first words of a message."""
    block = chat.find_first_block(content, role)
    if block is None:
        return NONE
    title = block.title if block.kind in ("call", "result") else ""
    picture = f"[{block.picture.about}]" if block.picture else ""
    return FirstWords(text=cut_to_line(block.text or picture, chars), title=title)


def split_excerpt(excerpt: Excerpt) -> Pieces:
    """Split an excerpt into pieces, each with whether it is a match."""
    found, at, text = Pieces(), 0, excerpt.text
    for begin, end in excerpt.matches:
        found += [(False, text[at:begin]), (True, text[begin:end])]
        at = end
    found = [(False, "… " if excerpt.before else ""), *found, (False, text[at:])]
    found.append((False, " …" if excerpt.after else ""))
    return [piece for piece in found if piece[1]]


def _build_body_words(body: Any, chars: int) -> FirstWords:
    text = body if isinstance(body, str) else chat.render_readable_json(body)
    return FirstWords(text=cut_to_line(text, chars))


def cut_to_line(text: str, chars: int = SHOWN) -> str:
    """Cut a text to one line of so many characters."""
    line = " ".join(text[: READ * chars].split())
    return line if len(line) <= chars else f"{line[:chars].rstrip()}…"
