from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from memoryhub.errors import InvalidError, SeqUnknownError
from memoryhub.kernel.text.times import YEARS
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay

#: The largest number that is one of ours.
MOST = 2**63 - 1
#: Items of a batch, and the most that may be asked for.
BATCH, MOST_OF_A_BATCH = 50, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """Hold the moment a page shows: the head while `live`, else a fixed event."""

    seq: int
    head: int
    live: bool
    #: More was asked for than the thread has.
    beyond: bool = False
    #: The turn at whose end it is, and the last one, of a page about a turn.
    turn: int | None = None
    turns: int = 0

    @property
    def at_seq(self) -> int | None:
        """Give what panels take: None follows the head."""
        return None if self.live else self.seq

    @property
    def newer(self) -> int:
        """Count the turns after it on a page about a turn, else the events."""
        return self.turns - self.turn if self.turn else self.head - self.seq

    @property
    def query(self) -> str:
        """Word what keeps this moment in a link, to be put behind its `?`."""
        return "" if self.live else f"at_seq={self.seq}"


def read(request: HttpRequest, thread: Thread) -> AsOf:
    """Read `at_seq` or `at_turn` of the URL, at most the head. Raises InvalidError."""
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
    """Read a plain number of the query, None if it is absent. Raises InvalidError."""
    text = request.GET.get(name, "")
    if not text:
        return None
    plain = text.isascii() and text.isdigit() and len(text) <= 19
    if not plain or int(text) > most:
        raise InvalidError(loc=name)
    return int(text)


def limit(request: HttpRequest) -> int:
    """Read how many items a list shows at once. Raises InvalidError."""
    wanted = number(request, "limit", most=MOST_OF_A_BATCH)
    if wanted == 0:
        raise InvalidError(code="limit", loc="limit")
    return wanted or BATCH


def since(request: HttpRequest) -> datetime:
    """Read from when on something counts as new. Raises InvalidError."""
    try:
        time = parse_datetime(request.GET.get("since", ""))
        if time is not None and time.tzinfo is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # no time, or one that UTC has no year for
    raise InvalidError(loc="since")


def instant(text: str, loc: str) -> datetime:
    """Read what a form has for a day or a time, which is UTC. Raises InvalidError."""
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None or found.year not in YEARS:
        raise InvalidError(loc=loc)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _end_of_turn(thread: Thread, turn: int) -> AsOf:
    head = thread.head_seq
    try:
        seq = replay.seq_at_turn(thread, turn)
    except SeqUnknownError:
        return AsOf(seq=head, head=head, live=False, beyond=True)
    return AsOf(seq=seq, head=head, live=False)
