"""Lines of blocks in a request's head: one line each, as many as fit the room. Pure.

A block's text is quoted, like a page's line: it cannot end its line or close a fence.
Text added to the end of a block is shown behind the conversation, as the result of a
search, while the head that holds the older text stays unchanged. See decision 69.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.state.pages import MAX_BLOCK_BYTES, Location
from memoryhub.kernel.text.json_text import escape_for_string, quote_text

FENCE = "VM:BLOCKS"
#: Query of the call whose result reports additions to blocks.
ADDED_QUERY = "what was added to the blocks"
_ADDED = "Added to the end of blocks since they were written above:"


class CarriedBlock(NamedTuple):
    """A block that requests may carry: its text's location and token counts."""

    place: Location
    #: Tokens of the block's line in a request, with its text and with its name alone.
    tokens: int
    named: int


class ChosenBlock(NamedTuple):
    """A block that a request carries."""

    place: Location
    #: True: the line holds the text. False: only the name, as the text did not fit.
    whole: bool
    tokens: int


def render_block_line(opened: OpenedPage, *, whole: bool = True) -> str:
    """Render a block's line, without a line break."""
    text = opened.content["text"]
    about = f" {quote_text(opened.description)}" if opened.description else ""
    size = f"{len(text.encode())} of {MAX_BLOCK_BYTES} bytes"
    shown = quote_text(text) if whole else "left out, no room"
    return f"{opened.name} ({size}){about}: {shown}"


def is_longer(old: OpenedPage, new: OpenedPage) -> bool:
    """Return whether `new` is `old` with the same name and more text at its end."""
    same = old.page_id == new.page_id and old.name == new.name
    same = same and old.description == new.description
    return same and new.content["text"].startswith(old.content["text"])


def render_addition(old: OpenedPage, new: OpenedPage) -> str:
    """Render the text added to a block, as a line without its break."""
    text = new.content["text"]
    size = f"{len(text.encode())} of {MAX_BLOCK_BYTES} bytes"
    return f"{new.name} ({size}): {quote_text(text[len(old.content['text']) :])}"


def render_additions(lines: Iterable[str]) -> str:
    """Render the result of the call that reports additions, from their lines."""
    return "\n".join([_ADDED, *lines])


def build_carried_block(
    place: Location, opened: OpenedPage, *, count: Count
) -> CarriedBlock:
    """Build a carried block; count its lines as they stand in a request's JSON."""
    whole, named = (
        count(escape_for_string(render_block_line(opened, whole=whole) + "\n"))
        for whole in (True, False)
    )
    return CarriedBlock(place, whole, named)


def choose_blocks(blocks: Iterable[CarriedBlock], room: float) -> list[ChosenBlock]:
    """Choose blocks in order that fit the room: whole, else by name, else skipped.

    A room of exactly the tokens of the chosen blocks gives the same choice again.
    """
    found, left = list[ChosenBlock](), room
    for each in blocks:
        for whole, tokens in ((True, each.tokens), (False, each.named)):
            if tokens <= left:
                found.append(ChosenBlock(each.place, whole, tokens))
                left -= tokens
                break
    return found


def count_tokens_of(blocks: Sequence[ChosenBlock]) -> int:
    return sum(each.tokens for each in blocks)
