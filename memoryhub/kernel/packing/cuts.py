"""Cuts: what a request shows only in part, and how much that is. Pure.

The beginning of a text, and of the running exchange what stands at a lower level; what
the history has lowered is told by paging.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.levels.contexts import Record, Ref, Texts
from memoryhub.kernel.levels.opened import text as text_at
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.state.pages import FULL


class Cut(NamedTuple):
    """A text in a request, in tokens as it was and of what is left."""

    page_id: str
    tokens: int
    shown_tokens: int


def cuts(
    record: Record, texts: Texts, *, thread: UUID, count: Count
) -> tuple[Cut, ...]:
    """All of a record, in its order; without what was erased since."""
    return tuple(_cuts(record, texts, thread, count))


def _cuts(record: Record, texts: Texts, thread: UUID, count: Count) -> Iterator[Cut]:
    for section in record.sections:
        running = section.name == "exchange"
        for ref in section.refs:
            opened = texts.get(ref.location(thread))
            # Of a result that is only named, 0 characters are kept: it is away.
            if opened is None or ref.cut == 0:
                continue
            shown = text_at(opened, level=ref.level) or ""
            whole = _message_text(ref, texts, thread) if running else None
            if ref.cut or whole is not None:
                tokens = count(shown if whole is None else whole)
                yield Cut(opened.page_id, tokens, count(shown[: ref.cut]))


def _message_text(ref: Ref, texts: Texts, thread: UUID) -> str | None:
    """What a message said that the exchange shows at a lower level."""
    if ref.message_at is None or ref.recalled:
        return None
    opened = texts.get(ref.message(thread))
    return text_at(opened, level=FULL) if opened else None
