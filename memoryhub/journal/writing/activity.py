"""Activity: counts of each process's work for each project, by the minute.

Counted in the process and added to the rows of all processes every few seconds: neither
a write nor a refusal costs a statement. A killed process loses the counts that it had
not written yet. See decision 55.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple, get_args
from uuid import UUID

from django.db import transaction

from memoryhub.journal.log import fence
from memoryhub.journal.log.heads import ThreadHead
from memoryhub.journal.rows.projections import RequestTokens
from memoryhub.journal.rows.statements import Add
from memoryhub.kernel.context.recalls import SOURCES
from memoryhub.kernel.state.page_events import Refused
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.activity import ModelHour, ProjectHour, RefusalCount
from memoryhub.models.server.clock import SECOND_NS, clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import Thread

#: Lengths of the counted intervals, in minutes; refusals of a thread are counted by the
#: hour.
WIDTHS: Final = (1, 15, 60)
#: Milliseconds up to which a commit counts in the first column, the second, and so on.
WITHIN: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
#: Milliseconds up to which an answer counts in its first column, the second, and so on.
ANSWERED: Final = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
#: Places of refusals that are told apart between two flushes; beyond that only the
#: project is counted, so that made-up names can't fill the memory.
PLACES: Final = 1_000
_MINUTE_NS: Final = 60 * SECOND_NS
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REFUSED: Final[tuple[str, ...]] = get_args(Refused)
#: Fates of recalled texts, and the counters of each.
_RECALLED: Final = tuple(
    (fate, f"recall.{fate}.{source}")
    for fate in ("brought", "used", "wasted")
    for source in SOURCES
)
_READABLE: Final = (Thread.Status.OPEN, Thread.Status.CLOSED)
_GONE: Final = ("erasing", "erased")

#: A thread as a refused caller names it: its id, or the names that it may have.
Place = UUID | tuple[str, ...] | None
#: The role in which a model is asked; and whether its answer was written, was useless,
#: did not come, or was void because another write came first.
ModelRole = Literal["consolidation", "observer", "reflector"]
ModelOutcome = Literal["written", "useless", "no_model", "void"]
_Asking = tuple[UUID, datetime, ModelRole, ModelOutcome]


class HourRow(NamedTuple):
    """A row of ProjectHour, in the order of its columns."""

    project_id: UUID
    minutes: int
    at: datetime
    events: int
    turns: int
    tokens: int
    prefix_tokens: int
    answer_tokens: int
    exchanges: int
    faulted_exchanges: int
    faults: int
    refaults: int
    within_1: int
    within_2: int
    within_5: int
    within_10: int
    within_20: int
    within_50: int
    within_100: int
    within_200: int
    within_500: int
    within_1000: int
    slower: int
    answered_250: int
    answered_500: int
    answered_1000: int
    answered_2000: int
    answered_4000: int
    answered_8000: int
    answered_16000: int
    answered_32000: int
    answered_64000: int
    answered_later: int


class ModelRow(NamedTuple):
    """A row of ModelHour, in the order of its columns."""

    project_id: UUID
    at: datetime
    role: str
    outcome: str
    runs: int
    calls: int
    tokens: int


class RefusalRow(NamedTuple):
    """A row of RefusalCount, in the order of its columns."""

    id: UUID
    project_id: UUID
    thread_id: UUID | None
    minutes: int
    at: datetime
    code: str
    # Named after the model's field; no caller uses tuple.count of a row.
    count: int  # type: ignore[assignment]


class CountedRefusal(NamedTuple):
    """A refusal's code in a project, with its minute and thread."""

    project: UUID
    minute: int
    code: str
    place: Place


_FIGURES: Final = HourRow._fields[3:]
_FASTEST: Final = _FIGURES.index("within_1")
_ANSWERED: Final = _FIGURES.index("answered_250")


class ActivityTotals:
    """Sums of a process's counts over all projects, since the process began."""

    def __init__(self) -> None:
        self._figures = _build_figures()
        self.refusals: Counter[str] = Counter()
        #: By role and outcome: runs, calls, tokens.
        self.model: dict[tuple[str, str], list[int]] = defaultdict(_build_model_figures)
        #: Look-ups of TLBs, and recalled texts by fate; these and the seconds have no
        #: rows.
        self.tlb_hits = self.tlb_misses = 0
        self.recalled: Counter[str] = Counter()
        self.commit_seconds = 0.0

    @property
    def figures(self) -> dict[str, int]:
        """Sums by the names of the figures that are no commit's duration."""
        return dict(zip(_FIGURES[:_FASTEST], self._figures, strict=False))

    @property
    def commits(self) -> list[int]:
        """Numbers of commits by duration: one for each of `WITHIN`, and the slower."""
        return self._figures[_FASTEST:_ANSWERED]

    def add(
        self,
        hours: Mapping[tuple[UUID, int], list[int]],
        refusals: Mapping[CountedRefusal, int],
        model: Mapping[_Asking, list[int]],
        *,
        sign: Literal[1, -1] = 1,
    ) -> None:
        """Add counts, or subtract what was added before."""
        for figures in hours.values():
            _add_figures(self._figures, (sign * each for each in figures))
        for refusal, count in refusals.items():
            self.refusals[refusal.code] += sign * count
        for (_, _, role, outcome), figures in model.items():
            sums = self.model[role, outcome]
            _add_figures(sums, (sign * each for each in figures))


class Activity:
    """Counts since the last flush. Any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By project and minute since 1970, the figures in the order of the columns.
        self._hours: dict[tuple[UUID, int], list[int]] = defaultdict(_build_figures)
        self._refusals: Counter[CountedRefusal] = Counter()
        #: By project, hour, role and outcome; figures in the order of the columns.
        self._model: dict[_Asking, list[int]] = defaultdict(_build_model_figures)
        #: Sums of the counts that a flush took.
        self._totals = ActivityTotals()

    def sum_up(self) -> ActivityTotals:
        """Sum the counts of this process since its start, written or not."""
        with self._lock:
            totals = deepcopy(self._totals)
            totals.add(self._hours, self._refusals, self._model)
        return totals

    def count_moves(
        self,
        heads: Iterable[tuple[ThreadHead, ThreadHead]],
        requests: Mapping[UUID, RequestTokens],
    ) -> None:
        """Count a commit's work: the difference of each thread's heads.

        A few microseconds a thread, however many events moved it.
        """
        minute = _read_minute()
        with self._lock:
            for before, after in heads:
                was, now = before.state, after.state
                figures = self._hours[now.project, minute]
                figures[0] += now.seq - was.seq
                if packed := requests.get(now.id):
                    figures[2] += packed.tokens
                    figures[3] += packed.prefix_tokens
                    figures[4] += packed.answer_tokens
                # An erased thread has no counters left that could be compared.
                if now.paging is not was.paging and now.status != "erased":
                    self._count_paging(figures, was, now, minute)

    def _count_paging(
        self, figures: list[int], was: ThreadState, now: ThreadState, minute: int
    ) -> None:
        figures[1] += now.turn_count - was.turn_count
        before, after = was.paging.exchanges, now.paging.exchanges
        figures[5] += after.begun - before.begun
        figures[6] += after.faulted - before.faulted
        self._totals.tlb_hits += now.paging.tlb.hits - was.paging.tlb.hits
        self._totals.tlb_misses += now.paging.tlb.misses - was.paging.tlb.misses
        counted, counts = was.paging.counts, now.paging.counts
        if counts is counted:
            return
        figures[7] += counts.get("faults", 0) - counted.get("faults", 0)
        figures[8] += counts.get("refaults", 0) - counted.get("refaults", 0)
        self._count_recalled(was, now)
        if counts.get("refused", 0) == counted.get("refused", 0):
            return
        for code in _REFUSED:
            word = f"refused.{code}"
            if more := counts.get(word, 0) - counted.get(word, 0):
                self._refusals[CountedRefusal(now.project, minute, code, now.id)] += (
                    more
                )

    def _count_recalled(self, was: ThreadState, now: ThreadState) -> None:
        """Count texts that a turn recalled, and what became of earlier ones."""
        before, after = was.paging, now.paging
        if now.turn_count != was.turn_count or after.brought is not before.brought:
            for fate, name in _RECALLED:
                more = after.counts.get(name, 0) - before.counts.get(name, 0)
                self._totals.recalled[fate] += more

    def count_commits(self, took: Iterable[tuple[UUID, float]]) -> None:
        """Count the seconds that commands waited until they were on disk."""
        minute = _read_minute()
        with self._lock:
            for project, seconds in took:
                column = _FASTEST + bisect_left(WITHIN, seconds * 1_000)
                self._hours[project, minute][column] += 1
                self._totals.commit_seconds += seconds

    def count_answers(self, took: Iterable[tuple[UUID, timedelta]]) -> None:
        """Count the times between requests and the answers right after these."""
        minute = _read_minute()
        with self._lock:
            for project, time in took:
                late = bisect_left(ANSWERED, time / timedelta(milliseconds=1))
                self._hours[project, minute][_ANSWERED + late] += 1

    def count_model_run(
        self,
        project: UUID,
        role: ModelRole,
        outcome: ModelOutcome,
        *,
        calls: int,
        tokens: int,
    ) -> None:
        """Count a run of the language model."""
        at = compute_interval_start(_read_minute(), WIDTHS[-1])
        with self._lock:
            _add_figures(self._model[project, at, role, outcome], (1, calls, tokens))

    def count_refusal(self, project: UUID, code: str, place: Place) -> None:
        """Count a refusal; of a thread too, if `place` names one."""
        with self._lock:
            refusal = CountedRefusal(project, _read_minute(), code, place)
            if refusal not in self._refusals and len(self._refusals) >= PLACES:
                refusal = refusal._replace(place=None)
            self._refusals[refusal] += 1

    def flush(self) -> int:
        """Add the counts to the rows; return how many. Only the writer calls it."""
        with self._lock:
            hours, self._hours = self._hours, defaultdict(_build_figures)
            refusals, self._refusals = self._refusals, Counter()
            model, self._model = self._model, defaultdict(_build_model_figures)
            self._totals.add(hours, refusals, model)
        try:
            return _write_counts(hours, refusals, model)
        except Exception:
            # Nothing was written, so add the counts back.
            with self._lock:
                self._totals.add(hours, refusals, model, sign=-1)
                for key, figures in hours.items():
                    _add_figures(self._hours[key], figures)
                self._refusals.update(refusals)
                for asking, figures in model.items():
                    _add_figures(self._model[asking], figures)
            raise

    def clear(self) -> None:
        with self._lock:
            self._hours.clear()
            self._refusals.clear()
            self._model.clear()


def _build_figures() -> list[int]:
    return [0] * len(_FIGURES)


def _build_model_figures() -> list[int]:
    return [0, 0, 0]


def _add_figures(figures: list[int], more: Iterable[int]) -> None:
    for column, figure in enumerate(more):
        figures[column] += figure


def _read_minute() -> int:
    return clock.time_ns() // _MINUTE_NS


def compute_interval_start(minute: int, width: int) -> datetime:
    """Return the start of the interval of `width` minutes that contains a minute."""
    return _EPOCH + timedelta(minutes=minute - minute % width)


def _write_counts(
    hours: Mapping[tuple[UUID, int], list[int]],
    refusals: Counter[CountedRefusal],
    model: Mapping[_Asking, list[int]],
) -> int:
    summed: dict[tuple[UUID, int, datetime], list[int]] = defaultdict(_build_figures)
    for (project, minute), figures in hours.items():
        for width in WIDTHS:
            _add_figures(
                summed[project, width, compute_interval_start(minute, width)], figures
            )
    rows = [HourRow(*key, *figures) for key, figures in summed.items()]
    whole: Counter[tuple[UUID, None, int, datetime, str]] = Counter()
    for each, count in refusals.items():
        for width in WIDTHS:
            at = compute_interval_start(each.minute, width)
            whole[each.project, None, width, at, each.code] += count
    with transaction.atomic():
        threads = _count_by_thread(refusals)
        _ADD_HOURS.write(rows)
        _ADD_REFUSALS.write([RefusalRow(uuid7(), *key, n) for key, n in whole.items()])
        _ADD_TO_THREADS.write(
            [RefusalRow(uuid7(), *key, n) for key, n in threads.items()]
        )
        _ADD_MODEL.write([ModelRow(*key, *figures) for key, figures in model.items()])
    return len(rows) + len(whole) + len(threads) + len(model)


def _count_by_thread(
    refusals: Counter[CountedRefusal],
) -> Counter[tuple[UUID, UUID, int, datetime, str]]:
    """Count by the hour the refusals of threads that exist.

    At most four queries. A subject being erased gets no new row: the subject is locked
    before the thread is read.
    """
    owners = _find_threads(
        {(each.project, each.place) for each in refusals if each.place}
    )
    fence.hold({subject for _, subject in owners.values()})
    rows = Thread.objects.filter(id__in={thread for thread, _ in owners.values()})
    rows = rows.filter(status__in=_READABLE).exclude(subject__state__in=_GONE)
    there = set(rows.values_list("id", flat=True)) if owners else set()
    counted: Counter[tuple[UUID, UUID, int, datetime, str]] = Counter()
    for each, count in refusals.items():
        thread, _ = owners.get((each.project, each.place), (None, None))
        if thread is not None and thread in there:
            at = compute_interval_start(each.minute, WIDTHS[-1])
            counted[each.project, thread, WIDTHS[-1], at, each.code] += count
    return counted


def _find_threads(
    places: Collection[tuple[UUID, Place]],
) -> dict[tuple[UUID, Place], tuple[UUID, UUID]]:
    """Find thread and subject of each place. Two queries."""
    if not places:
        return {}
    ids = {place for _, place in places if isinstance(place, UUID)}
    names = {name for _, place in places if isinstance(place, tuple) for name in place}
    columns = ("project_id", "name", "id", "subject_id")
    rows = [*Thread.objects.filter(id__in=ids).values_list(*columns)] if ids else []
    if names:
        projects = {project for project, _ in places}
        named = Thread.objects.filter(project__in=projects, name__in=names)
        rows += named.values_list(*columns)
    by_id = {thread: (thread, subject) for _, _, thread, subject in rows}
    by_name = {(project, name): by_id[thread] for project, name, thread, _ in rows}
    found: dict[tuple[UUID, Place], tuple[UUID, UUID]] = {}
    for project, place in places:
        if isinstance(place, UUID):
            there = by_id.get(place)
        else:
            named_so = ((project, name) for name in place or ())
            there = next((by_name[at] for at in named_so if at in by_name), None)
        if there is not None:
            found[project, place] = there
    return found


_ADD_HOURS = Add(
    ProjectHour, HourRow, key=("project_id", "minutes", "at"), figures=_FIGURES
)
_ADD_MODEL = Add(
    ModelHour,
    ModelRow,
    key=("project_id", "at", "role", "outcome"),
    figures=("runs", "calls", "tokens"),
)
_ADD_REFUSALS = Add(
    RefusalCount,
    RefusalRow,
    key=("project_id", "minutes", "at", "code"),
    only=' WHERE "thread_id" IS NULL',
    figures=("count",),
)
_ADD_TO_THREADS = Add(
    RefusalCount,
    RefusalRow,
    key=("thread_id", "at", "code"),
    only=' WHERE "thread_id" IS NOT NULL',
    figures=("count",),
)
#: The process's one activity counter.
activity = Activity()
