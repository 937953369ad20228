"""Exchanges: what a turn's model was asked, what it said, and which turns belong to it.

Never writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, Subquery
from django.db.models.functions import Coalesce

from memoryhub.errors import NotFoundError
from memoryhub.kernel.messages.words import content_words
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.events import rows_at
from memoryhub.queries.threads.slots import SlotFilter, SlotLine
from memoryhub.queries.turns.turns import TurnLine

#: Messages after a turn began that are looked through for its answer.
FOLLOWING = 24
#: Messages of the user for each turn of a list that are looked at, newest first.
LOOKED_AT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The exchange of a turn: from a question on, until the next one."""

    #: The turn that it began with.
    first: int
    #: None in a thread whose messages have no user.
    question: SlotLine | None
    #: What the model said in this very turn, oldest first.
    answers: tuple[SlotLine, ...]

    @property
    def question_text(self) -> str:
        """Give the words of the question; none once it is erased."""
        if self.question is None or self.question.erased:
            return ""
        return content_words(self.question.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The message of the user that a turn begins an exchange with."""

    index: int
    #: As it was sent; None once erased.
    content: Any


def get_exchange(thread: Thread, state: ThreadState, n: int) -> Exchange:
    """Return the exchange of turn `n`, whose request `state` led to.

    At most four queries, more in a fork. `thread` comes with its subject.
    """
    user, question = state.paging.last_user, None
    if user is not None:
        try:
            question = slots.get_slot(thread, user.slot)
        except NotFoundError:
            question = None
    first = n if question is None else max(1, min(n, question.turn + 1))
    return Exchange(
        first=first, question=question, answers=_answers(thread, state.slot_count, n)
    )


def _answers(thread: Thread, begin: int, n: int) -> tuple[SlotLine, ...]:
    """What the model said after a message: up to the next of the user."""
    found = list[SlotLine]()
    batch = slots.list_slots(
        thread,
        start=begin,
        end=begin + FOLLOWING,
        where=SlotFilter(turn=n),
        limit=FOLLOWING,
    )
    for slot in batch.items:
        if slot.role == "user":
            break
        if slot.role == "assistant":
            found.append(slot)
    return tuple(found)


def list_questions(thread: Thread, lines: Sequence[TurnLine]) -> dict[int, Question]:
    """Return what the exchanges that these turns begin were begun with, by turn.

    Two queries. `thread` comes with its subject. Of a turn that goes on with an
    exchange there is none.
    """
    rows = _questions(lines)
    opened = rows_at([(row.thread_id, row.seq) for row in rows.values()], content=True)
    return {
        n: Question(
            index=row.index,
            content=replay.opened(thread, opened[row.thread_id, row.seq]).get(
                "content"
            ),
        )
        for n, row in rows.items()
    }


def _questions(lines: Sequence[TurnLine]) -> dict[int, Slot]:
    """The newest message of the user before each turn and after the one before it."""
    homes: dict[UUID, list[TurnLine]] = {}
    for line in lines:
        homes.setdefault(line.home, []).append(line)
    among = Q()
    for home, own in homes.items():
        among |= _between(home, own)
    if not lines:
        return {}
    rows = Slot.objects.filter(among, role="user").order_by("-index")
    begun, found = {line.n for line in lines}, dict[int, Slot]()
    for row in rows[: LOOKED_AT * len(lines)]:
        if row.turn + 1 in begun:
            found.setdefault(row.turn + 1, row)
    return found


def _between(home: UUID, lines: Sequence[TurnLine]) -> Q:
    """Messages from the turn before the first of these until the last one began."""
    before = Turn.objects.filter(thread_id=home, n=min(line.n for line in lines) - 1)
    return Q(
        thread_id=home,
        seq__gt=Coalesce(Subquery(before.values("seq")[:1]), 0),
        seq__lt=max(line.seq for line in lines),
    )
