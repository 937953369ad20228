"""Blocks in a request's head: a line each, as many as their room holds. Pure.

What a block says is quoted, as a page's line is: it ends no line and closes no fence.
What is added to the end of one stands behind what was said, as a search of ours would
tell it, for as long as the head before it stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.state.pages import MAX_BLOCK_BYTES, Location
from memoryhub.kernel.text.json_text import in_string, quoted

FENCE = "VM:BLOCKS"
#: What the call that tells what was added says that it looks for.
ADDED_QUERY = "what was added to the blocks"
_ADDED = "Added to the end of blocks since they were written above:"


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


def is_longer(old: Opened, new: Opened) -> bool:
    """Return whether a block is an older one of the same name with more at its end."""
    same = old.page_id == new.page_id and old.description == new.description
    return same and new.content["text"].startswith(old.content["text"])


def addition(old: Opened, new: Opened) -> str:
    """Return what was added to a block, as a line without its break."""
    text = new.content["text"]
    size = f"{len(text.encode())} of {MAX_BLOCK_BYTES} bytes"
    return f"{new.page_id} ({size}): {quoted(text[len(old.content['text']) :])}"


def additions(lines: Iterable[str]) -> str:
    """Return the result of the call that tells them."""
    return "\n".join([_ADDED, *lines])


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
