from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from memoryhub.errors import InvalidError, SeqUnknownError
from memoryhub.kernel.text.times import YEARS
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import forks
from memoryhub.queries.threads.forks import InheritedEvent

#: The largest number that a URL may contain.
MAX_NUMBER = 2**63 - 1
#: Items of a batch by default, and at most.
BATCH, MOST_OF_A_BATCH = 50, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMoment:
    """The moment that a page shows: the head while `live`, else a fixed event."""

    seq: int
    head: int
    live: bool
    #: The URL names an event or turn beyond the thread's head.
    beyond: bool = False
    #: End of the URL's turn, if a fork inherits that; its first event is shown.
    inherited: InheritedEvent | None = None
    #: On a turn's page: the turn that ends at the moment, and the last turn.
    turn: int | None = None
    turns: int = 0

    @property
    def at_seq(self) -> int | None:
        """Return the seq that panels take; None follows the head."""
        return None if self.live else self.seq

    @property
    def newer(self) -> int:
        """Return the number of later turns on a turn's page, else of later events."""
        return self.turns - self.turn if self.turn else self.head - self.seq

    @property
    def query(self) -> str:
        """Build the query that keeps this moment in a link, without the `?`."""
        return "" if self.live else f"at_seq={self.seq}"


def read(request: HttpRequest, thread: Thread) -> ShownMoment:
    """Read `at_seq` or `at_turn` of the URL, at most the head. Raises InvalidError."""
    seq, turn = read_number(request, "at_seq"), read_number(request, "at_turn")
    head = thread.head_seq
    if seq is not None and turn is not None:
        raise InvalidError(code="at", loc="at_seq")
    if turn is not None:
        return _find_end_of_turn(thread, turn)
    if seq is not None:
        return ShownMoment(seq=min(seq, head), head=head, live=False, beyond=seq > head)
    return ShownMoment(seq=head, head=head, live=True)


def read_number(
    request: HttpRequest, name: str, *, most: int = MAX_NUMBER
) -> int | None:
    """Read a plain number of the URL's query; None if absent. Raises InvalidError."""
    text = request.GET.get(name, "")
    if not text:
        return None
    plain = text.isascii() and text.isdigit() and len(text) <= 19
    if not plain or int(text) > most:
        raise InvalidError(loc=name)
    return int(text)


def read_limit(request: HttpRequest) -> int:
    """Read the number of items that a list shows at once. Raises InvalidError."""
    wanted = read_number(request, "limit", most=MOST_OF_A_BATCH)
    if wanted == 0:
        raise InvalidError(code="limit", loc="limit")
    return wanted or BATCH


def read_since(request: HttpRequest) -> datetime:
    """Read the URL's `since`, after which items are new. Raises InvalidError."""
    try:
        time = parse_datetime(request.GET.get("since", ""))
        if time is not None and time.tzinfo is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # no time, or one that UTC has no year for
    raise InvalidError(loc="since")


def parse_instant(text: str, loc: str) -> datetime:
    """Parse a form's day or time, by default in UTC. Raises InvalidError."""
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None or found.year not in YEARS:
        raise InvalidError(loc=loc)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _find_end_of_turn(thread: Thread, turn: int) -> ShownMoment:
    head = thread.head_seq
    try:
        seq = replay.get_turn_end(thread, turn)
    except SeqUnknownError:
        if inherited := forks.find_inherited_turn(thread, turn):
            return ShownMoment(seq=1, head=head, live=False, inherited=inherited)
        return ShownMoment(seq=head, head=head, live=False, beyond=True)
    return ShownMoment(seq=seq, head=head, live=False)
