"""Verdicts: conditions of a thread that need attention, with word and threshold.

The only definition of these conditions: lists filter by them, pages show them, the
worker checks them. Never writes.
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
from memoryhub.kernel.state.paging import (
    EXCHANGES_KEPT,
    REFAULT_TURNS,
    count_rated_exchanges,
)
from memoryhub.models.activity import RefusalCount
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.threads import ThreadLine

#: Minimum refaults in the latest turns for thrashing: an index of 0.5.
THRASHING_REFAULTS: Final = 3
#: Minimum numbers of exchanges and of look-ups for a meaningful rate.
ENOUGH_EXCHANGES, ENOUGH_LOOKUPS = 5, 100
LEAST_RESIDENT_RATE, LEAST_HIT_RATE = 0.50, 0.60
#: A thread that was not used for this time needs no attention now.
USED_WITHIN: Final = timedelta(days=1)
#: Minimum number of fetches refused in this hour and the hour before for the verdict.
REFUSED_FETCHES: Final = 3
REFUSED_WITHIN: Final = timedelta(hours=1)
#: Refusal codes of fetches; an agent sees the API's other refusals itself.
FETCHES: Final[tuple[str, ...]] = get_args(Refused)

Flag = Literal["thrashing", "faulting", "refused", "full", "missing"]
Tone = Literal["bad", "attn"]


class VerdictCounters(NamedTuple):
    """Counters from which the verdicts on a thread follow."""

    refaults: int
    exchanges: int
    faulted_lately: int
    full: bool
    hits: int
    misses: int
    #: Number of fetches refused lately.
    refused: int = 0

    @classmethod
    def from_line(cls, line: ThreadLine, *, refused: int = 0) -> VerdictCounters:
        return cls(
            line.refaults,
            line.exchanges,
            line.faulted_lately,
            line.nearly_full,
            line.hits,
            line.misses,
            refused,
        )


#: Columns of a thread's row for the first fields of `VerdictCounters`, in their order.
COLUMNS: Final = (
    *("refault_count", "exchange_count", "faulted_lately_count"),
    *("nearly_full", "tlb_hits", "tlb_misses"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadVerdict:
    """A condition of a thread that needs attention."""

    #: The verdict's name in searches, and its name on pages.
    flag: Flag
    word: str
    tone: Tone
    about: str
    #: The threshold in a few words, and the place where it is set.
    limit: str
    set_in: str
    holds: Callable[[VerdictCounters], bool]
    #: The condition on database rows, as of an instant.
    condition: Callable[[datetime], Q]


def _has_low_resident_rate(counters: VerdictCounters) -> bool:
    """Tell whether the resident rate is below 0.50, over enough exchanges."""
    last = count_rated_exchanges(counters.exchanges)
    return last >= ENOUGH_EXCHANGES and counters.faulted_lately * 2 > last


def _build_faulting_condition(_: datetime) -> Q:
    enough = Q(exchange_count__gte=ENOUGH_EXCHANGES)
    last = Least(F("exchange_count"), EXCHANGES_KEPT)
    return enough & Q(GreaterThan(F("faulted_lately_count") * 2, last))


def _has_low_hit_rate(counters: VerdictCounters) -> bool:
    """Tell whether the TLB's hit rate is below 0.60, over enough look-ups."""
    enough = counters.hits + counters.misses >= ENOUGH_LOOKUPS
    return enough and counters.misses * 3 > counters.hits * 2


def _build_missing_condition(_: datetime) -> Q:
    enough = GreaterThanOrEqual(F("tlb_hits") + F("tlb_misses"), ENOUGH_LOOKUPS)
    return Q(GreaterThan(F("tlb_misses") * 3, F("tlb_hits") * 2)) & Q(enough)


def _build_refused_condition(now: datetime) -> Q:
    return Q(Exists(count_refused_lately(now).filter(thread=OuterRef("pk"))))


def count_refused_lately(now: datetime) -> QuerySet[RefusalCount, Any]:
    """Return threads with too many refused fetches lately, and the counts."""
    since = now.replace(minute=0, second=0, microsecond=0) - REFUSED_WITHIN
    rows = RefusalCount.objects.filter(
        thread__isnull=False, at__gte=since, code__in=FETCHES
    )
    counted = rows.order_by().values("thread").annotate(refused=Sum("count"))
    return counted.filter(refused__gte=REFUSED_FETCHES)


#: Verdicts, worst first.
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
        holds=_has_low_resident_rate,
        condition=_build_faulting_condition,
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
        condition=_build_refused_condition,
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
        holds=_has_low_hit_rate,
        condition=_build_missing_condition,
    ),
)

#: Words that people read in place of flags.
WORDS: Final[dict[str, str]] = {each.flag: each.word for each in VERDICTS}


def find(counters: VerdictCounters) -> tuple[ThreadVerdict, ...]:
    """Return the verdicts that these counters meet, worst first."""
    return tuple(each for each in VERDICTS if each.holds(counters))


def find_in_line(line: ThreadLine) -> tuple[ThreadVerdict, ...]:
    """Return the verdicts from a thread's own counters: all but refused fetches."""
    return find(VerdictCounters.from_line(line))


def build_recent_condition(now: datetime) -> Q:
    """Build the condition on open threads used lately, which may need attention.

    Threads of restricted subjects are left out: agents cannot use them.
    """
    return Q(
        status=Thread.Status.OPEN,
        listed_at__gte=now - USED_WITHIN,
        subject__state=Subject.State.ACTIVE,
    )


def filter_unhealthy(now: datetime) -> QuerySet[Thread]:
    """Return threads, of all projects, that meet any verdict now."""
    any_of = Q()
    for each in VERDICTS:
        any_of |= each.condition(now)
    return Thread.objects.filter(build_recent_condition(now)).filter(any_of)
