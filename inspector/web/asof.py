from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest

from memoryhub.errors import InvalidError, SeqUnknownError
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay

#: The largest number that is one of ours.
MOST = 2**63 - 1
#: Items of a batch, and the most that may be asked for.
BATCH, MOST_OF_A_BATCH = 50, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """The moment a page shows: the head while `live`, else a fixed event."""

    seq: int
    head: int
    live: bool
    #: More was asked for than the thread has.
    beyond: bool = False

    @property
    def at_seq(self) -> int | None:
        """What panels take: None follows the head."""
        return None if self.live else self.seq

    @property
    def query(self) -> str:
        """What keeps this moment in a link, to be put behind its `?`."""
        return "" if self.live else f"at_seq={self.seq}"


def read(request: HttpRequest, thread: Thread) -> AsOf:
    """The `at_seq` or `at_turn` of the URL, at most the head. Raises InvalidError."""
    seq, turn = number(request, "at_seq"), number(request, "at_turn")
    head = thread.head_seq
    if seq is not None and turn is not None:
        raise InvalidError(code="at", loc="at_seq")
    if turn is not None:
        return _end_of_turn(thread, turn)
    if seq is not None:
        return AsOf(seq=min(seq, head), head=head, live=False, beyond=seq > head)
    return AsOf(seq=head, head=head, live=True)


def number(request: HttpRequest, name: str, *, most: int = MOST) -> int | None:
    """A plain number of the query, None if it is absent. Raises InvalidError."""
    text = request.GET.get(name, "")
    if not text:
        return None
    plain = text.isascii() and text.isdigit() and len(text) <= 19
    if not plain or int(text) > most:
        raise InvalidError(loc=name)
    return int(text)


def limit(request: HttpRequest) -> int:
    """How many items a list shows at once. Raises InvalidError."""
    asked = number(request, "limit", most=MOST_OF_A_BATCH)
    if asked == 0:
        raise InvalidError(code="limit", loc="limit")
    return asked or BATCH


def _end_of_turn(thread: Thread, turn: int) -> AsOf:
    head = thread.head_seq
    try:
        seq = replay.seq_at_turn(thread, turn)
    except SeqUnknownError:
        return AsOf(seq=head, head=head, live=False, beyond=True)
    return AsOf(seq=seq, head=head, live=False)
