"""Pending exchanges: what the language model was not asked yet. Never writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Literal, NamedTuple
from uuid import UUID

from django.db.models import Count, Max, Q

from memoryhub.kernel.state.knowledge import Consolidated
from memoryhub.models.derivations import Derivation
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes.episodes import SILENCE, Episode
from memoryhub.queries.knowledge.facts import AssertionLine, assertion_lines
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import timelines_of
from memoryhub.queries.replay import states

State = Literal["pending", "consolidated", "failed", "given_up"]
_HIDDEN = (Thread.Status.IMPORTING, Thread.Status.ERASED)
#: Threads that one statement counts, or looks through.
_AT_ONCE = 200
_NOBODY = Consolidated()


class Pending(NamedTuple):
    """Exchanges of a subject that nothing was learnt of, in numbers."""

    #: Nobody has asked the model yet.
    waiting: int
    #: It is asked again; or no more.
    failed: int
    given_up: int


def unasked(held: Consolidated) -> Q:
    """Give the condition of a thread's slots whose exchanges nobody was asked about."""
    found = Q(index__gte=held.to)
    for first, end in held.skipped:
        found |= Q(index__gte=first, index__lt=end)
    return found


def wanted_of(project: Project) -> Q:
    """Give the condition of the slots whose exchanges a project wants to be asked."""
    since = project.consolidate_since
    return Q() if since is None else Q(at__gte=since)


def held_of(subject: Subject) -> Mapping[str, Consolidated]:
    """Return how far each thread of a subject is, by id. At most three queries."""
    home = find_home(subject)
    return {} if home is None else states.state_of(home).knowledge.consolidated


def count(subject: Subject) -> Pending:
    """Count a subject's exchanges that are pending. One query for 200 threads."""
    held = held_of(subject)
    rows = Slot.objects.filter(subject=subject, role="user", erased=False)
    rows = rows.exclude(thread__status__in=_HIDDEN)
    waiting = rows.count()
    for batch in _batches([*held.items()]):
        done = Q()
        for thread, each in batch:
            done |= Q(thread_id=UUID(thread)) & ~unasked(each)
        waiting -= rows.filter(done).count()
    failed = [each for of in held.values() for each in of.failed]
    given_up = sum(each.retry_at is None for each in failed)
    return Pending(waiting, len(failed) - given_up, given_up)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an exchange."""

    state: State
    #: Assertions that name one of its messages as their source, oldest first.
    facts: tuple[AssertionLine, ...] = ()


def list_outcomes(subject: Subject, found: Sequence[Episode]) -> list[Outcome]:
    """Return what became of each of these exchanges of a subject. Ten queries."""
    home = find_home(subject)
    if home is None or not found:
        return [Outcome(state="pending") for _ in found]
    held = states.state_of(home).knowledge.consolidated
    spans = [(each.input.home, each.input.seq, each.lines[-1].seq) for each in found]
    inside = Q()
    for thread, first, last in spans:
        inside |= Q(thread_id=thread, source_seq__gte=first, source_seq__lte=last)
    rows = Derivation.objects.filter(inside, derived_thread=home.id)
    learnt = [*rows.values_list("thread_id", "source_seq", "derived_seq")]
    seqs = [seq for *_, seq in learnt]
    timelines = timelines_of(home, seqs)
    claims = [(at, at.claim(seq)) for seq, at in timelines.items()]
    there = [(at, claim) for at, claim in claims if claim is not None]
    lines = {each.seq: each for each in assertion_lines(home, there)}
    return [
        Outcome(
            state=state_of(held.get(str(thread), _NOBODY), episode.input.index),
            facts=tuple(
                lines[seq]
                for at, source, seq in sorted(learnt, key=itemgetter(2))
                if at == thread and first <= source <= last and seq in lines
            ),
        )
        for episode, (thread, first, last) in zip(found, spans, strict=True)
    ]


def state_of(held: Consolidated, begin: int) -> State:
    """Return what became of an exchange of a thread that is so far."""
    failed = held.find(begin)
    if failed is not None:
        return "given_up" if failed.retry_at is None else "failed"
    return "consolidated" if held.was_asked(begin) else "pending"


class Wanted(NamedTuple):
    """A project that has it done, of what was said from then on; None: of all."""

    project: UUID
    since: datetime | None


def wanted() -> frozenset[Wanted]:
    """Return the projects that have it done. One query."""
    rows = Project.objects.filter(
        consolidate=Project.Consolidate.AUTO, state=Project.State.ACTIVE
    )
    return frozenset(map(Wanted._make, rows.values_list("id", "consolidate_since")))


def is_wanted(thread: Thread) -> bool:
    """Return whether anything of a thread may be asked, as `iter_threads` has it.

    It comes with its project and its subject.
    """
    project, subject = thread.project, thread.subject
    return (
        project.consolidate == Project.Consolidate.AUTO
        and project.state == Project.State.ACTIVE
        and subject.state == Subject.State.ACTIVE
        and thread.status in (Thread.Status.OPEN, Thread.Status.CLOSED)
    )


class Due(NamedTuple):
    """A thread that has an exchange to be asked, or will have one by then."""

    thread: UUID
    project: UUID
    #: None: by now.
    at: datetime | None
    #: When the newest of its exchanges began that are wanted.
    newest: datetime


def iter_threads(
    *, since: datetime | None, also: Collection[UUID] = ()
) -> Iterator[Due]:
    """Yield threads that have, or will have, an exchange to be asked.

    In projects that have it done, of people who are neither restricted nor being
    erased; those that moved `since`, or whose home did, or all, and `also` these. Three
    queries for 200 threads, and the state of each home that is not at hand.
    """
    rows = Thread.objects.filter(
        project__consolidate=Project.Consolidate.AUTO,
        project__state=Project.State.ACTIVE,
        subject__state=Subject.State.ACTIVE,
        subject__anonymous=False,
        home=False,
        status__in=(Thread.Status.OPEN, Thread.Status.CLOSED),
    ).select_related("subject", "project")
    moved = Q()
    if since is not None:
        # An operator has a failed one asked again, which moves the home alone.
        homes = Thread.objects.filter(home=True, listed_at__gte=since)
        moved = Q(listed_at__gte=since) | Q(subject__in=homes.values("subject"))
        moved |= Q(id__in=[*also])
    after = UUID(int=0)
    while True:
        later = rows.filter(moved, id__gt=after).order_by("id")
        batch = [*later[:_AT_ONCE]]
        if not batch:
            return
        yield from _with_any(batch)
        after = batch[-1].id


def _with_any(batch: Sequence[Thread]) -> Iterator[Due]:
    homes: dict[UUID, Mapping[str, Consolidated]] = {}
    for each in batch:
        if each.subject_id not in homes:
            homes[each.subject_id] = held_of(each.subject)
    held = {
        each.id: homes[each.subject_id].get(str(each.id), _NOBODY) for each in batch
    }
    wanted = Q()
    for each in batch:
        done = held[each.id]
        again = Q(index__in=[one.begin for one in done.failed if one.retry_at])
        own = (unasked(done) & wanted_of(each.project)) | again
        wanted |= Q(thread=each.id) & own
    rows = Slot.objects.filter(wanted, role="user", erased=False).values_list("thread")
    counted = rows.annotate(Max("index"), Count("index"), Max("at"))
    found = {thread: numbers for thread, *numbers in counted}
    for thread in batch:
        if thread.id not in found:
            continue
        last, number, newest = found[thread.id]
        done, closed = held[thread.id], thread.status != Thread.Status.OPEN
        due = any(each.retry_at for each in done.failed)
        if due or number > 1 or closed or last < done.to:
            yield Due(thread.id, thread.project_id, None, newest)
        else:
            # The last one is over when nobody goes on with it.
            over = thread.last_event_at + SILENCE
            yield Due(thread.id, thread.project_id, over, newest)


def _batches(
    found: Sequence[tuple[str, Consolidated]],
) -> Iterator[Sequence[tuple[str, Consolidated]]]:
    for start in range(0, len(found), _AT_ONCE):
        yield found[start : start + _AT_ONCE]
