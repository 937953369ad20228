"""Blocks in a request's head: a line each, as many as their room holds. Pure.

What a block says is quoted, as a page's line is: it ends no line and closes no fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.state.pages import MAX_BLOCK_BYTES, Location
from memoryhub.kernel.text.json_text import in_string, quoted

FENCE = "VM:BLOCKS"


class Carried(NamedTuple):
    """A block that requests may carry: where its text lies, and what it takes."""

    place: Location
    #: Of its line in a request, whole, and with its name alone.
    tokens: int
    named: int


class Chosen(NamedTuple):
    """A block that a request carries."""

    place: Location
    #: Else its name alone: there was no room for its text.
    whole: bool
    tokens: int


def line(opened: Opened, *, whole: bool = True) -> str:
    """Return a block's line, without a line break."""
    text = opened.content["text"]
    about = f" {quoted(opened.description)}" if opened.description else ""
    size = f"{len(text.encode())} of {MAX_BLOCK_BYTES} bytes"
    shown = quoted(text) if whole else "left out, no room"
    return f"{opened.page_id} ({size}){about}: {shown}"


def carried(place: Location, opened: Opened, *, count: Count) -> Carried:
    """Return a block as requests may carry it, counted as it stands in their JSON."""
    whole, named = (
        count(in_string(line(opened, whole=whole) + "\n")) for whole in (True, False)
    )
    return Carried(place, whole, named)


def chosen(blocks: Iterable[Carried], room: float) -> list[Chosen]:
    """Choose in order what the room holds: whole, else by name, else not at all.

    In a room of just the tokens of what was chosen the same is chosen again.
    """
    found, left = list[Chosen](), room
    for each in blocks:
        for whole, tokens in ((True, each.tokens), (False, each.named)):
            if tokens <= left:
                found.append(Chosen(each.place, whole, tokens))
                left -= tokens
                break
    return found


def tokens_of(blocks: Sequence[Chosen]) -> int:
    return sum(each.tokens for each in blocks)
