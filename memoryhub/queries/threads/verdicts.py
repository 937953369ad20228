"""Verdicts: conditions of a thread that need attention, with word and threshold.

The only definition of these conditions: lists filter by them, pages show them, the
worker checks them. Never writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, get_args

from django.db.models import F, Q, QuerySet, Sum, Value
from django.db.models.functions import Least
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual

from memoryhub.kernel.state.page_events import Refused
from memoryhub.kernel.state.paging import (
    EXCHANGES_KEPT,
    REFAULT_TURNS,
    count_rated_exchanges,
)
from memoryhub.models.activity import RefusalCount
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.thresholds import (
    Thresholds,
    build_expression,
)

#: Minimum numbers of exchanges and of look-ups for a meaningful rate.
ENOUGH_EXCHANGES, ENOUGH_LOOKUPS = 5, 100
#: A thread that was not used for this time needs no attention now.
USED_WITHIN: Final = timedelta(days=1)
#: Most closed threads that are counted for a verdict.
COUNTED: Final = 1_000
#: Fetches count that were refused in this hour and the hour before.
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
    #: The threshold in a few words, what it counts, and the project's column that
    #: sets it; without a column the threshold is fixed.
    limit: str
    set_in: str
    column: str
    holds: Callable[[VerdictCounters, Thresholds], bool]
    #: The condition on database rows, as of an instant, by each row's own project; with
    #: a project, on the rows of this project alone.
    condition: Callable[[datetime, Project | None], Q]


def _has_low_resident_rate(counters: VerdictCounters, limits: Thresholds) -> bool:
    """Tell whether the resident rate is below its least, over enough exchanges."""
    last = count_rated_exchanges(counters.exchanges)
    most = last * (100 - limits.least_resident_percent)
    return last >= ENOUGH_EXCHANGES and counters.faulted_lately * 100 > most


def _build_faulting_condition(_: datetime, __: Project | None) -> Q:
    enough = Q(exchange_count__gte=ENOUGH_EXCHANGES)
    last = Least(F("exchange_count"), EXCHANGES_KEPT)
    share = Value(100) - build_expression("least_resident_percent")
    return enough & Q(GreaterThan(F("faulted_lately_count") * 100, last * share))


def _has_low_hit_rate(counters: VerdictCounters, limits: Thresholds) -> bool:
    """Tell whether the TLB's hit rate is below its least, over enough look-ups."""
    lookups = counters.hits + counters.misses
    most = lookups * (100 - limits.least_hit_percent)
    return lookups >= ENOUGH_LOOKUPS and counters.misses * 100 > most


def _build_missing_condition(_: datetime, __: Project | None) -> Q:
    lookups = F("tlb_hits") + F("tlb_misses")
    share = Value(100) - build_expression("least_hit_percent")
    enough = GreaterThanOrEqual(lookups, ENOUGH_LOOKUPS)
    return Q(GreaterThan(F("tlb_misses") * 100, lookups * share)) & Q(enough)


def _build_refused_condition(now: datetime, project: Project | None) -> Q:
    counted = count_refused_lately(now)
    if project is not None:
        counted = counted.filter(project=project)
    # Not a question for each thread: few threads were refused anything lately.
    return Q(id__in=counted.values("thread"))


def count_refused_lately(now: datetime) -> QuerySet[RefusalCount, Any]:
    """Return threads with too many refused fetches lately, and the counts.

    Each project's own threshold counts.
    """
    since = now.replace(minute=0, second=0, microsecond=0) - REFUSED_WITHIN
    rows = RefusalCount.objects.filter(
        thread__isnull=False, at__gte=since, code__in=FETCHES
    )
    counted = rows.order_by().values("thread").annotate(refused=Sum("count"))
    return counted.filter(refused__gt=build_expression("most_refused_fetches"))


#: Verdicts, worst first.
VERDICTS: Final = (
    ThreadVerdict(
        flag="thrashing",
        word="thrashing",
        tone="bad",
        about="Pages come back about as soon as they have left: what the thread needs "
        "does not fit its budget.",
        limit="limit {}",
        set_in=f"in the last {REFAULT_TURNS} turns of a thread",
        column="most_refaults",
        holds=lambda counters, limits: counters.refaults > limits.most_refaults,
        condition=lambda _, __: Q(refault_count__gt=build_expression("most_refaults")),
    ),
    ThreadVerdict(
        flag="faulting",
        word="low resident rate",
        tone="attn",
        about="The share of exchanges in which the model had to fetch nothing.",
        limit="goal {}",
        set_in=f"of a thread's last {EXCHANGES_KEPT} exchanges, "
        f"{ENOUGH_EXCHANGES} at least",
        column="least_resident_percent",
        holds=_has_low_resident_rate,
        condition=_build_faulting_condition,
    ),
    ThreadVerdict(
        flag="refused",
        word="refused fetches",
        tone="attn",
        about="The model asked for pages and was refused: it had no faults left in the "
        "exchange, or there was no room.",
        limit="limit {}",
        set_in="in this hour and the one before; a thread's fault budget is set in its "
        "settings of paging",
        column="most_refused_fetches",
        holds=lambda counters, limits: counters.refused > limits.most_refused_fetches,
        condition=_build_refused_condition,
    ),
    ThreadVerdict(
        flag="full",
        word="messages over 90 % full",
        tone="attn",
        about="A thread that holds its `max_slots` messages takes no more. Raise the "
        "number (`PATCH /threads/{thread}`), or fork the thread at an earlier event.",
        limit="limit 90 %",
        set_in="fixed, since each message stores the mark: of the messages that a "
        "thread may have, its `max_slots`, which its settings change",
        column="",
        holds=lambda counters, _: counters.full,
        condition=lambda _, __: Q(nearly_full=True),
    ),
    ThreadVerdict(
        flag="missing",
        word="low TLB hit rate",
        tone="attn",
        about="The share of look-ups answered without the page table; more entries "
        "(`tlb_entries`) keep more of them at hand.",
        limit="goal {}",
        set_in=f"of all look-ups of a thread, {ENOUGH_LOOKUPS} at least",
        column="least_hit_percent",
        holds=_has_low_hit_rate,
        condition=_build_missing_condition,
    ),
)

#: Words that people read in place of flags.
WORDS: Final[dict[str, str]] = {each.flag: each.word for each in VERDICTS}


def list_verdicts(limits: Thresholds) -> tuple[ThreadVerdict, ...]:
    """Return all verdicts, worst first, each with the project's threshold in words."""
    return tuple(_put_limit(each, limits) for each in VERDICTS)


def find(counters: VerdictCounters, limits: Thresholds) -> tuple[ThreadVerdict, ...]:
    """Return the verdicts that these counters meet, worst first."""
    met = (each for each in VERDICTS if each.holds(counters, limits))
    return tuple(_put_limit(each, limits) for each in met)


def find_in_line(line: ThreadLine, limits: Thresholds) -> tuple[ThreadVerdict, ...]:
    """Return the verdicts from a thread's own counters: all but refused fetches."""
    return find(VerdictCounters.from_line(line), limits)


def _put_limit(verdict: ThreadVerdict, limits: Thresholds) -> ThreadVerdict:
    if not verdict.column:
        return verdict
    number = getattr(limits, verdict.column)
    share = verdict.column.endswith("_percent")
    text = f"{number / 100:.2f}" if share else f"{number:,}"
    return replace(verdict, limit=verdict.limit.format(text))


def build_recent_condition(now: datetime) -> Q:
    """Build the condition on open threads used lately, which may need attention.

    Threads of restricted subjects are left out: agents cannot use them.
    """
    return _build_active_condition(now) & Q(status=Thread.Status.OPEN)


def build_used_condition(now: datetime) -> Q:
    """Build the condition on threads, open or closed, that agents used lately."""
    # To be closed alone is no use.
    used = Q(last_active_at__gte=now - USED_WITHIN) | Q(status=Thread.Status.OPEN)
    either = Q(status__in=(Thread.Status.OPEN, Thread.Status.CLOSED))
    return _build_active_condition(now) & either & used


def _build_active_condition(now: datetime) -> Q:
    active = Q(subject__state=Subject.State.ACTIVE)
    return Q(listed_at__gte=now - USED_WITHIN) & active


def count_closed(project: Project, now: datetime) -> dict[Flag, int]:
    """Count by flag, up to COUNTED, closed threads used lately that met a verdict.

    Nothing can be done for these threads any more, so that they are not unhealthy; but
    whoever looks for the worst threads should find them. One query for each verdict.
    """
    recent = build_used_condition(now) & Q(status=Thread.Status.CLOSED)
    rows = Thread.objects.filter(recent, project=project).order_by()
    return {
        each.flag: count
        for each in VERDICTS
        if (count := rows.filter(each.condition(now, project))[:COUNTED].count())
    }


def filter_unhealthy(now: datetime) -> QuerySet[Thread]:
    """Return threads, of all projects, that meet any verdict now."""
    any_of = Q()
    for each in VERDICTS:
        any_of |= each.condition(now, None)
    return Thread.objects.filter(build_recent_condition(now)).filter(any_of)
