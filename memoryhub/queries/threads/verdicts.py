"""Verdicts: what is wrong with a thread, each with its word and its threshold.

The one place that says when: lists filter by it, pages show it, the worker looks for
it. Never writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, get_args

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Least
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual

from memoryhub.kernel.state.page_events import Refused
from memoryhub.kernel.state.paging import EXCHANGES_KEPT, REFAULT_TURNS, lately
from memoryhub.models.activity import RefusalCount
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.threads import ThreadLine

#: Refaults in the last turns from which on a thread thrashes: an index of 0.5.
THRASHING_REFAULTS: Final = 3
#: Exchanges and look-ups that a rate needs to say something.
ENOUGH_EXCHANGES, ENOUGH_LOOKUPS = 5, 100
LEAST_RESIDENT_RATE, LEAST_HIT_RATE = 0.50, 0.60
#: Who was not used for so long does not need a look now.
USED_WITHIN: Final = timedelta(days=1)
#: Fetches refused in this hour and the one before from which on it is said.
REFUSED_FETCHES: Final = 3
REFUSED_WITHIN: Final = timedelta(hours=1)
#: Codes of fetches; of the API's other refusals an agent knows by itself.
FETCHES: Final[tuple[str, ...]] = get_args(Refused)

Flag = Literal["thrashing", "faulting", "refused", "full", "missing"]
Tone = Literal["bad", "attn"]


class Counters(NamedTuple):
    """What the verdicts on a thread go by."""

    refaults: int
    exchanges: int
    faulted_lately: int
    full: bool
    hits: int
    misses: int
    #: Fetches, lately.
    refused: int = 0

    @classmethod
    def from_line(cls, line: ThreadLine, *, refused: int = 0) -> Counters:
        return cls(
            line.refaults,
            line.exchanges,
            line.faulted_lately,
            line.nearly_full,
            line.hits,
            line.misses,
            refused,
        )


#: Columns of a thread's row that its counters begin with, in their order.
COLUMNS: Final = (
    *("refault_count", "exchange_count", "faulted_lately_count"),
    *("nearly_full", "tlb_hits", "tlb_misses"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadVerdict:
    """One thing that may be wrong with a thread."""

    #: As searches name it, and as pages call it.
    flag: Flag
    word: str
    tone: Tone
    about: str
    #: The threshold in a few words, and where it is set.
    limit: str
    set_in: str
    holds: Callable[[Counters], bool]
    #: The same for rows, as of a time.
    condition: Callable[[datetime], Q]


def _faulting(counters: Counters) -> bool:
    """A resident rate below 0.50 of enough exchanges."""
    last = lately(counters.exchanges)
    return last >= ENOUGH_EXCHANGES and counters.faulted_lately * 2 > last


def _faulting_rows(_: datetime) -> Q:
    enough = Q(exchange_count__gte=ENOUGH_EXCHANGES)
    last = Least(F("exchange_count"), EXCHANGES_KEPT)
    return enough & Q(GreaterThan(F("faulted_lately_count") * 2, last))


def _missing(counters: Counters) -> bool:
    """A hit rate of the TLB below 0.60 of enough look-ups."""
    enough = counters.hits + counters.misses >= ENOUGH_LOOKUPS
    return enough and counters.misses * 3 > counters.hits * 2


def _missing_rows(_: datetime) -> Q:
    enough = GreaterThanOrEqual(F("tlb_hits") + F("tlb_misses"), ENOUGH_LOOKUPS)
    return Q(GreaterThan(F("tlb_misses") * 3, F("tlb_hits") * 2)) & Q(enough)


def _refused_rows(now: datetime) -> Q:
    return Q(Exists(refused_lately(now).filter(thread=OuterRef("pk"))))


def refused_lately(now: datetime) -> QuerySet[RefusalCount, Any]:
    """Threads that were refused too many fetches lately, and how many."""
    since = now.replace(minute=0, second=0, microsecond=0) - REFUSED_WITHIN
    rows = RefusalCount.objects.filter(
        thread__isnull=False, at__gte=since, code__in=FETCHES
    )
    counted = rows.order_by().values("thread").annotate(refused=Sum("count"))
    return counted.filter(refused__gte=REFUSED_FETCHES)


#: The worst first.
VERDICTS: Final = (
    ThreadVerdict(
        flag="thrashing",
        word="thrashing",
        tone="bad",
        about="Pages come back about as soon as they have left: what the thread needs "
        "does not fit its budget.",
        limit=f"limit {THRASHING_REFAULTS - 1}",
        set_in=f"fixed: in the last {REFAULT_TURNS} turns of a thread",
        holds=lambda counters: counters.refaults >= THRASHING_REFAULTS,
        condition=lambda _: Q(refault_count__gte=THRASHING_REFAULTS),
    ),
    ThreadVerdict(
        flag="faulting",
        word="low resident rate",
        tone="attn",
        about="The share of exchanges in which the model had to fetch nothing.",
        limit=f"goal {LEAST_RESIDENT_RATE:.2f}",
        set_in=f"fixed: of a thread's last {EXCHANGES_KEPT} exchanges, "
        f"{ENOUGH_EXCHANGES} at least",
        holds=_faulting,
        condition=_faulting_rows,
    ),
    ThreadVerdict(
        flag="refused",
        word="refused fetches",
        tone="attn",
        about="The model asked for pages and was refused: it had no faults left in the "
        "exchange, or there was no room.",
        limit=f"limit {REFUSED_FETCHES - 1}",
        set_in="fixed: in this hour and the one before; a thread's fault budget is set "
        "in its settings of paging",
        holds=lambda counters: counters.refused >= REFUSED_FETCHES,
        condition=_refused_rows,
    ),
    ThreadVerdict(
        flag="full",
        word="messages over 90 % full",
        tone="attn",
        about="A thread that holds its `max_slots` messages takes no more. Raise the "
        "number (`PATCH /threads/{thread}`), or fork the thread at an earlier event.",
        limit="limit 90 %",
        set_in="fixed: of the messages that a thread may have, its `max_slots`",
        holds=lambda counters: counters.full,
        condition=lambda _: Q(nearly_full=True),
    ),
    ThreadVerdict(
        flag="missing",
        word="low TLB hit rate",
        tone="attn",
        about="The share of look-ups answered without the page table; more entries "
        "(`tlb_entries`) keep more of them at hand.",
        limit=f"goal {LEAST_HIT_RATE:.2f}",
        set_in=f"fixed: of all look-ups of a thread, {ENOUGH_LOOKUPS} at least",
        holds=_missing,
        condition=_missing_rows,
    ),
)

#: What people read in the place of a flag.
WORDS: Final[dict[str, str]] = {each.flag: each.word for each in VERDICTS}


def find(counters: Counters) -> tuple[ThreadVerdict, ...]:
    """Return what is wrong, the worst first."""
    return tuple(each for each in VERDICTS if each.holds(counters))


def find_in_line(line: ThreadLine) -> tuple[ThreadVerdict, ...]:
    """Return what a thread's own counters say is wrong: all but refused fetches."""
    return find(Counters.from_line(line))


def looked_at(now: datetime) -> Q:
    """Filter open threads that were used lately: those that may need a look now.

    Those of restricted subjects are left out: agents can't go on with them.
    """
    return Q(
        status=Thread.Status.OPEN,
        listed_at__gte=now - USED_WITHIN,
        subject__state=Subject.State.ACTIVE,
    )


def unhealthy(now: datetime) -> QuerySet[Thread]:
    """Return threads, of all projects, of which anything is wrong now."""
    any_of = Q()
    for each in VERDICTS:
        any_of |= each.condition(now)
    return Thread.objects.filter(looked_at(now)).filter(any_of)
