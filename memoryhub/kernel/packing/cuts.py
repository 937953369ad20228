"""Cuts: texts that a request shows only in part, with the sizes. Pure.

Cuts are texts with a part left out, and messages of the running exchange at a lower
level, brought by memory or not. Paging reports the lowered pages of the history.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.context.contexts import ContextRecord, Ref, Section, Texts
from memoryhub.kernel.context.opened import get_text as text_at
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.packing import shortening
from memoryhub.kernel.state.pages import FULL


class TextCut(NamedTuple):
    """A cut text in a request: tokens of the whole text, and of the shown part."""

    page_id: str
    tokens: int
    shown_tokens: int


def list_cuts(
    record: ContextRecord, texts: Texts, *, thread: UUID, count: Count
) -> tuple[TextCut, ...]:
    """List all cuts of a record in its order, without texts erased since."""
    return tuple(_iter_cuts(record, texts, thread, count))


def _iter_cuts(
    record: ContextRecord, texts: Texts, thread: UUID, count: Count
) -> Iterator[TextCut]:
    for section in record.sections:
        since = (
            _find_first_slot(section, texts, thread)
            if section.name == "exchange"
            else None
        )
        for ref in section.refs:
            if ref.is_as_said:
                continue
            opened = texts.get(ref.get_location(thread))
            # A result that is only named has a cut of 0 characters: its text is not
            # shown.
            if opened is None or ref.cut == 0:
                continue
            shown = shortening.read_left(opened, ref)
            whole = (
                None if since is None else _find_message_text(ref, texts, thread, since)
            )
            if ref.cut or whole is not None:
                whole = whole or text_at(opened, level=ref.level) or ""
                tokens = count(whole)
                yield TextCut(opened.page_id, tokens, count(shown))


def _find_first_slot(section: Section, texts: Texts, thread: UUID) -> int:
    """Return the first slot in a section that stands there as it was said."""
    refs = (ref for ref in section.refs if not ref.recalled)
    messages = (texts.get(ref.get_message_location(thread)) for ref in refs)
    slots = (each.slot for each in messages if each and each.slot is not None)
    return min(slots, default=sys.maxsize)


def _find_message_text(ref: Ref, texts: Texts, thread: UUID, since: int) -> str | None:
    """Return the full text of an exchange message that is shown at a lower level.

    None for a page that memory brings from before slot `since`: somebody asked for that
    page at that level.
    """
    opened = texts.get(ref.get_message_location(thread)) if ref.message_at else None
    if opened is None or (ref.recalled and (opened.slot or 0) < since):
        return None
    return text_at(opened, level=FULL)
