"""Cuts: what a request shows only in part, and how much that is. Pure.

Texts of which a part is left out, and messages of the running exchange at a lower
level, memory bringing them or not; what the history has lowered is told by paging.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.levels.contexts import Record, Ref, Section, Texts
from memoryhub.kernel.levels.opened import text as text_at
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.packing import shortening
from memoryhub.kernel.state.pages import FULL


class Cut(NamedTuple):
    """A text in a request, in tokens as it was and of what is left."""

    page_id: str
    tokens: int
    shown_tokens: int


def cuts(
    record: Record, texts: Texts, *, thread: UUID, count: Count
) -> tuple[Cut, ...]:
    """Return all cuts of a record in its order, without texts erased since."""
    return tuple(_cuts(record, texts, thread, count))


def _cuts(record: Record, texts: Texts, thread: UUID, count: Count) -> Iterator[Cut]:
    for section in record.sections:
        since = _since(section, texts, thread) if section.name == "exchange" else None
        for ref in section.refs:
            if ref.as_said:
                continue
            opened = texts.get(ref.location(thread))
            # Of a result that is only named, 0 characters are kept: it is away.
            if opened is None or ref.cut == 0:
                continue
            shown = shortening.read_left(opened, ref)
            whole = None if since is None else _message_text(ref, texts, thread, since)
            if ref.cut or whole is not None:
                whole = whole or text_at(opened, level=ref.level) or ""
                tokens = count(whole)
                yield Cut(opened.page_id, tokens, count(shown))


def _since(section: Section, texts: Texts, thread: UUID) -> int:
    """Return the first slot of those that stand in a section as they were said."""
    refs = (ref for ref in section.refs if not ref.recalled)
    messages = (texts.get(ref.message(thread)) for ref in refs)
    slots = (each.slot for each in messages if each and each.slot is not None)
    return min(slots, default=sys.maxsize)


def _message_text(ref: Ref, texts: Texts, thread: UUID, since: int) -> str | None:
    """Read what a message of the exchange said that it shows at a lower level.

    What memory brings from before slot `since` is what somebody asked it for.
    """
    opened = texts.get(ref.message(thread)) if ref.message_at else None
    if opened is None or (ref.recalled and (opened.slot or 0) < since):
        return None
    return text_at(opened, level=FULL)
