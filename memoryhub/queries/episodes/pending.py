"""Pending exchanges, which the model has not consolidated yet. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from operator import itemgetter
from typing import Literal, NamedTuple
from uuid import UUID

from django.db.models import Count, Max, Q

from memoryhub.journal.rows import totals
from memoryhub.kernel.state.knowledge import (
    ConsolidationState,
    FailedExchange,
    Knowledge,
)
from memoryhub.models.derivations import Derivation
from memoryhub.models.projects import Project
from memoryhub.models.slots import SHOWN, Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes.episodes import (
    LOOKED,
    SILENCE,
    EpisodeView,
    select_ended_begins,
)
from memoryhub.queries.knowledge.facts import AssertionLine, iter_assertion_lines
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import map_timelines
from memoryhub.queries.replay import states

ExchangeState = Literal["pending", "consolidated", "failed", "given_up"]
#: Threads per statement.
_AT_ONCE = 200
_NEVER_ASKED = ConsolidationState()
_NOTHING = Knowledge()
#: Threads of these states are consolidated.
_CONSOLIDATED = (Thread.Status.OPEN, Thread.Status.CLOSED)


class PendingCounts(NamedTuple):
    """Numbers of a subject's exchanges that are not consolidated."""

    #: The model was not asked yet.
    waiting: int
    #: The model failed: it will be asked again (`failed`), or never (`given_up`).
    failed: int
    given_up: int


def filter_unasked(held: ConsolidationState) -> Q:
    """Return the condition of a thread's slots whose exchanges were not asked about."""
    found = Q(index__gte=held.to)
    for first, end in held.skipped:
        found |= Q(index__gte=first, index__lt=end)
    return found


def filter_wanted(project: Project, requested: Collection[int]) -> Q:
    """Return the condition of the slots whose exchanges are to be consolidated.

    These are the exchanges that the project consolidates, and the requested exchanges
    of the thread, by their first slots.
    """
    one_by_one = Q(index__in=[*requested])
    if not is_automatic(project):
        return one_by_one
    since = project.consolidate_since
    return Q() if since is None else Q(at__gte=since) | one_by_one


def is_automatic(project: Project) -> bool:
    """Tell whether a project consolidates its exchanges without a request."""
    return project.consolidate == Project.Consolidate.AUTO


def list_retries(
    project: Project, held: ConsolidationState, requested: Collection[int]
) -> list[FailedExchange]:
    """List the failed exchanges of a thread that are to be asked about again."""
    automatic = is_automatic(project)
    return [
        each
        for each in held.failed
        if each.retry_at is not None and (automatic or each.begin in requested)
    ]


def get_consolidated(subject: Subject) -> Mapping[str, ConsolidationState]:
    """Return how far each thread of a subject is consolidated, by the thread's id.

    At most three queries.
    """
    return get_knowledge(subject).consolidated


def get_knowledge(subject: Subject) -> Knowledge:
    """Return the knowledge of a subject, without a home thread none. Three queries."""
    home = find_home(subject)
    return _NOTHING if home is None else states.load_state(home).knowledge


def list_requestable(
    subject: Subject, thread: Thread | None = None, *, now: datetime, limit: int
) -> list[tuple[UUID, int]]:
    """List the newest pending exchanges that are over, by thread and first slot.

    Of a thread or of all threads of the subject; none of an anonymous subject. Looks at
    LOOKED exchanges at most. Four queries.
    """
    if subject.anonymous:
        return []
    held = get_consolidated(subject)
    rows = select_ended_begins(subject, now=now)
    rows = rows.filter(thread__status__in=_CONSOLIDATED, thread__home=False)
    rows = rows if thread is None else rows.filter(thread=thread)
    every = (
        (row.thread_id, row.index)
        for row in rows[:LOOKED].iterator(chunk_size=_AT_ONCE)
        if not held.get(str(row.thread_id), _NEVER_ASKED).has_asked(row.index)
    )
    return [*islice(every, limit)]


def count(subject: Subject) -> PendingCounts:
    """Count a subject's exchanges that are pending, from the kept total of all.

    Reads the questions of consolidated threads alone: one query for 200 such threads,
    and four. An erased thread counts until its messages are deleted.
    """
    held = get_consolidated(subject)
    rows = Slot.objects.filter(SHOWN, subject=subject, role="user")
    rows = rows.exclude(thread__status=Thread.Status.IMPORTING)
    waiting = totals.count_records(totals.get(subject.id), totals.EPISODES)
    for batch in _iter_batches([*held.items()]):
        done = Q()
        for thread, each in batch:
            done |= Q(thread_id=UUID(thread)) & ~filter_unasked(each)
        waiting -= rows.filter(done).count()
    failed = [each for of in held.values() for each in of.failed]
    given_up = sum(each.retry_at is None for each in failed)
    return PendingCounts(waiting, len(failed) - given_up, given_up)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeOutcome:
    """Result of consolidating an exchange."""

    state: ExchangeState
    #: Assertions whose source is a message of the exchange, oldest first.
    facts: tuple[AssertionLine, ...] = ()


def list_outcomes(
    subject: Subject, found: Sequence[EpisodeView]
) -> list[EpisodeOutcome]:
    """Return the outcome of each of these episodes of a subject. Ten queries."""
    home = find_home(subject)
    if home is None or not found:
        return [EpisodeOutcome(state="pending") for _ in found]
    held = states.load_state(home).knowledge.consolidated
    spans = [(each.input.home, each.input.seq, each.lines[-1].seq) for each in found]
    inside = Q()
    for thread, first, last in spans:
        inside |= Q(thread_id=thread, source_seq__gte=first, source_seq__lte=last)
    rows = Derivation.objects.filter(inside, derived_thread=home.id)
    learnt = [*rows.values_list("thread_id", "source_seq", "derived_seq")]
    seqs = [seq for *_, seq in learnt]
    timelines = map_timelines(home, seqs)
    claims = [(at, at.find_assertion(seq)) for seq, at in timelines.items()]
    there = [(at, claim) for at, claim in claims if claim is not None]
    lines = {each.seq: each for each in iter_assertion_lines(home, there)}
    return [
        EpisodeOutcome(
            state=compute_state(
                held.get(str(thread), _NEVER_ASKED), episode.input.index
            ),
            facts=tuple(
                lines[seq]
                for at, source, seq in sorted(learnt, key=itemgetter(2))
                if at == thread and first <= source <= last and seq in lines
            ),
        )
        for episode, (thread, first, last) in zip(found, spans, strict=True)
    ]


def compute_state(held: ConsolidationState, begin: int) -> ExchangeState:
    """Return the state of the exchange that begins at slot `begin` of a thread."""
    failed = held.find_failed(begin)
    if failed is not None:
        return "given_up" if failed.retry_at is None else "failed"
    return "consolidated" if held.has_asked(begin) else "pending"


def build_state_check(
    subject: Subject, state: ExchangeState
) -> Callable[[UUID, int], bool]:
    """Build the check whether the exchange at a slot of a thread is in that state.

    At most three queries now, none later.
    """
    held = get_consolidated(subject)

    def is_in_state(thread: UUID, begin: int) -> bool:
        return compute_state(held.get(str(thread), _NEVER_ASKED), begin) == state

    return is_in_state


class ConsolidatingProject(NamedTuple):
    """A project that consolidates automatically exchanges since `since`; None: all."""

    project: UUID
    since: datetime | None


def list_consolidating_projects() -> frozenset[ConsolidatingProject]:
    """List the active projects that consolidate automatically. One query."""
    rows = Project.objects.filter(
        consolidate=Project.Consolidate.AUTO, state=Project.State.ACTIVE
    )
    return frozenset(
        map(ConsolidatingProject._make, rows.values_list("id", "consolidate_since"))
    )


def can_consolidate(thread: Thread) -> bool:
    """Tell whether a thread's exchanges may be consolidated, by the states alone.

    `thread` comes with its project and its subject.
    """
    project, subject = thread.project, thread.subject
    return (
        project.state == Project.State.ACTIVE
        and subject.state == Subject.State.ACTIVE
        and thread.status in _CONSOLIDATED
    )


class DueThread(NamedTuple):
    """A thread with an exchange to consolidate now, or from the instant `at` on."""

    thread: UUID
    project: UUID
    #: None: the exchange is due now.
    at: datetime | None
    #: When the newest exchange to consolidate began.
    newest: datetime


def iter_due_threads(
    *, since: datetime | None, also: Collection[UUID] = ()
) -> Iterator[DueThread]:
    """Yield threads that have, or will have, an exchange to consolidate.

    In projects that consolidate automatically, or with a request, of subjects who are
    neither restricted nor being erased. With `since`: threads that moved since, threads
    whose home moved since, and `also`. Three queries for 200 threads, and the state of
    each uncached home.
    """
    requested = Thread.objects.filter(has_requests=True).values("subject")
    rows = Thread.objects.filter(
        Q(project__consolidate=Project.Consolidate.AUTO) | Q(subject__in=requested),
        project__state=Project.State.ACTIVE,
        subject__state=Subject.State.ACTIVE,
        subject__anonymous=False,
        home=False,
        status__in=_CONSOLIDATED,
    ).select_related("subject", "project")
    moved = Q()
    if since is not None:
        # An operator who retries a failed exchange moves the home thread alone.
        homes = Thread.objects.filter(home=True, listed_at__gte=since)
        moved = Q(listed_at__gte=since) | Q(subject__in=homes.values("subject"))
        moved |= Q(id__in=[*also])
    after = UUID(int=0)
    while True:
        later = rows.filter(moved, id__gt=after).order_by("id")
        batch = [*later[:_AT_ONCE]]
        if not batch:
            return
        yield from _iter_due(batch)
        after = batch[-1].id


def _iter_due(batch: Sequence[Thread]) -> Iterator[DueThread]:
    homes: dict[UUID, Knowledge] = {}
    for each in batch:
        if each.subject_id not in homes:
            homes[each.subject_id] = get_knowledge(each.subject)
    held = {
        each.id: homes[each.subject_id].consolidated.get(str(each.id), _NEVER_ASKED)
        for each in batch
    }
    requests = {
        each.id: homes[each.subject_id].requested.get(str(each.id), ())
        for each in batch
    }
    retries = {
        each.id: list_retries(each.project, held[each.id], requests[each.id])
        for each in batch
    }
    wanted = Q()
    for each in batch:
        again = Q(index__in=[one.begin for one in retries[each.id]])
        new = filter_unasked(held[each.id])
        own = (new & filter_wanted(each.project, requests[each.id])) | again
        wanted |= Q(thread=each.id) & own
    rows = Slot.objects.filter(wanted, SHOWN, role="user").values_list("thread")
    counted = rows.annotate(Max("index"), Count("index"), Max("at"))
    found = {thread: numbers for thread, *numbers in counted}
    for thread in batch:
        if thread.id not in found:
            continue
        last, number, newest = found[thread.id]
        done, closed = held[thread.id], thread.status != Thread.Status.OPEN
        due = bool(retries[thread.id]) or last in requests[thread.id]
        if due or number > 1 or closed or last < done.to:
            yield DueThread(thread.id, thread.project_id, None, newest)
        else:
            # The last exchange is over once the thread stays silent.
            over = thread.last_event_at + SILENCE
            yield DueThread(thread.id, thread.project_id, over, newest)


def _iter_batches(
    found: Sequence[tuple[str, ConsolidationState]],
) -> Iterator[Sequence[tuple[str, ConsolidationState]]]:
    for start in range(0, len(found), _AT_ONCE):
        yield found[start : start + _AT_ONCE]
