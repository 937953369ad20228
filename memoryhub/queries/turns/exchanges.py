"""Exchanges: the user's question, the model's answers, and the turns in between.

Never writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery, Sum

from memoryhub.errors import NotFoundError
from memoryhub.journal import texts
from memoryhub.kernel.messages.words import render_content_words
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.events import EventAddress, get_rows_at
from memoryhub.queries.threads.slots import SlotFilter, SlotLine
from memoryhub.queries.turns import turns
from memoryhub.queries.turns.turns import TurnLine

#: Number of messages after a turn began that are searched for answers.
FOLLOWING = 24
#: Number of newest user messages read per listed turn.
LOOKED_AT = 20
#: A seq that no thread reaches.
_BEYOND = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The exchange of a turn: from a user's question up to the next question."""

    #: The turn with which the exchange began.
    first: int
    #: None in a thread without user messages.
    question: SlotLine | None
    #: The model's answers in the turn itself, oldest first.
    answers: tuple[SlotLine, ...]

    @property
    def question_text(self) -> str:
        """Return the text of the question; empty once erased."""
        if self.question is None or self.question.erased:
            return ""
        return render_content_words(self.question.content)


def get_exchange(thread: Thread, state: ThreadState, n: int) -> Exchange:
    """Return the exchange of turn `n`, whose request was packed from `state`.

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
        first=first,
        question=question,
        answers=_list_answers(thread, state.slot_count, n),
    )


def _list_answers(thread: Thread, begin: int, n: int) -> tuple[SlotLine, ...]:
    """List the model's answers in a turn, up to the next message of the user."""
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


def list_questions(thread: Thread, lines: Sequence[TurnLine]) -> dict[int, Any]:
    """Return the questions of the exchanges that these turns begin, by turn.

    Each as it was sent, None once erased. Three queries. `thread` comes with its
    subject. A turn that continues an exchange has no question.
    """
    rows = _map_questions(lines)
    return _open_questions(
        thread, {n: (row.thread_id, row.seq) for n, row in rows.items()}
    )


def list_last_turns(thread: Thread, lines: Sequence[TurnLine]) -> list[TurnLine]:
    """List those of these turns that end an exchange. Five queries at most.

    `lines` are newest first, without a gap. The thread's newest turn ends one, too.
    """
    if not lines:
        return []
    newest = lines[0].n
    around = turns.list_around(thread, newest, before=0, after=1)
    later = [line for line in around if line.n > newest]
    begun = {*_map_questions([*later, *lines])}
    return [
        line
        for line in lines
        if line.n + 1 in begun or (line.n == newest and not later)
    ]


def find_questions_before(thread: Thread, lines: Sequence[TurnLine]) -> dict[int, Any]:
    """Return the questions of the exchanges that these turns continue, by turn.

    As `list_questions`, in two queries. Without those that an ancestor of a fork holds.
    """
    among = Q()
    for home, own in _group_by_home(lines).items():
        among |= Q(thread_id=home, n__in=[line.n for line in own])
    if not among:
        return {}
    earlier = Slot.objects.filter(
        thread_id=OuterRef("thread_id"), role="user", seq__lt=OuterRef("seq")
    )
    newest = Subquery(earlier.order_by("-seq").values("seq")[:1])
    rows = Turn.objects.filter(among).values_list("n", "thread_id", newest)
    return _open_questions(thread, {n: (home, seq) for n, home, seq in rows if seq})


def _open_questions(thread: Thread, places: dict[int, EventAddress]) -> dict[int, Any]:
    """Open the messages at these places. One query."""
    opened = get_rows_at(places.values(), content=True)
    return {
        n: texts.open_content(thread, opened[place]).get("content")
        for n, place in places.items()
    }


def count_answer_tokens(lines: Sequence[TurnLine]) -> dict[int, int]:
    """Count the tokens of the model's messages in each of these turns. Two queries."""
    homes = _group_by_home(lines)
    if not homes:
        return {}
    last = {home: max(line.n for line in own) for home, own in homes.items()}
    after = _read_starts([(home, n + 1) for home, n in last.items()])
    among = Q()
    for home, own in homes.items():
        among |= Q(
            thread_id=home,
            turn__lte=last[home],
            seq__gt=min(line.seq for line in own),
            seq__lt=after.get(home, _BEYOND),
        )
    rows = Slot.objects.filter(among, role="assistant").order_by().values_list("turn")
    return dict(rows.annotate(Sum("tokens")))


def _group_by_home(lines: Sequence[TurnLine]) -> dict[UUID, list[TurnLine]]:
    homes: dict[UUID, list[TurnLine]] = {}
    for line in lines:
        homes.setdefault(line.home, []).append(line)
    return homes


def _map_questions(lines: Sequence[TurnLine]) -> dict[int, Slot]:
    """Map each turn to the newest user message since the turn before it."""
    homes = _group_by_home(lines)
    if not homes:
        return {}
    first = [(home, min(line.n for line in own)) for home, own in homes.items()]
    before = _read_starts([(home, n - 1) for home, n in first])
    among = Q()
    for home, own in homes.items():
        end = max(line.seq for line in own)
        among |= Q(thread_id=home, seq__gt=before.get(home, 0), seq__lt=end)
    rows = Slot.objects.filter(among, role="user").order_by("-index")
    begun, found = {line.n for line in lines}, dict[int, Slot]()
    for row in rows[: LOOKED_AT * len(lines)]:
        if row.turn + 1 in begun:
            found.setdefault(row.turn + 1, row)
    return found


def _read_starts(turns: Sequence[tuple[UUID, int]]) -> dict[UUID, int]:
    """Return the seq with which a thread's turn began, by thread. One query."""
    named = Q()
    for home, n in turns:
        named |= Q(thread_id=home, n=n)
    return dict(Turn.objects.filter(named).values_list("thread_id", "seq"))
