"""Backlog: exchanges that the model is not asked about unless an owner agrees.

Never writes. Counts a whole project, for the owner's decision: too costly for pages
that are drawn often.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum

from memoryhub.kernel.knowledge.consolidation import ExchangeConsolidated
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.slots import SHOWN, Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes import pending

#: Tokens, estimated: of a question without its exchange, and of an answer.
_QUESTION, _ANSWER = 300, 100
#: Most tokens of an exchange in a question: a longer exchange loses its middle.
_LONGEST = 8_000
#: Threads per statement.
_AT_ONCE: Final = 200


class Backlog(NamedTuple):
    """Estimated cost of consolidating the backlog.

    An upper bound: of equal exchanges the model is asked about one.
    """

    exchanges: int
    #: Estimated tokens of questions and answers.
    tokens: int
    #: In the currency of the model's price; None without a configured price.
    cost: float | None


def get_backlog(project: Project) -> Backlog:
    """Estimate the exchanges that the project's present settings leave out.

    Counts active subjects: not restricted, erased or anonymous subjects. Three
    queries, and the state of the home thread of each subject with a consolidation.
    """
    auto = project.consolidate == Project.Consolidate.AUTO
    since = project.consolidate_since
    if auto and since is None:
        return Backlog(0, 0, _compute_cost(0, 0))
    slots = Slot.objects.filter(
        thread__project=project,
        thread__home=False,
        thread__status__in=(Thread.Status.OPEN, Thread.Status.CLOSED),
        thread__subject__state=Subject.State.ACTIVE,
        thread__subject__anonymous=False,
    )
    if auto:
        slots = slots.filter(at__lt=since)
    begins = slots.filter(SHOWN, role="user")
    every = begins.count()
    exchanges = every - _count_asked(project, begins)
    if exchanges <= 0:
        return Backlog(0, 0, _compute_cost(0, 0))
    spoken = slots.filter(role__in=("user", "assistant"))
    tokens = spoken.aggregate(all=Sum("tokens", default=0))["all"] * exchanges // every
    tokens = min(tokens, exchanges * _LONGEST) + exchanges * _QUESTION
    answered = exchanges * _ANSWER
    return Backlog(exchanges, tokens + answered, _compute_cost(tokens, answered))


def _count_asked(project: Project, begins: QuerySet[Slot]) -> int:
    """Count the exchanges among `begins` that the model was asked about."""
    homes = Event.objects.filter(
        thread__project=project,
        thread__home=True,
        type=ExchangeConsolidated.event_type,
    )
    subjects = Subject.objects.filter(
        id__in=homes.values("thread__subject"), project=project
    )
    found, done = 0, list[Q]()
    for subject in subjects:
        for thread, held in pending.get_consolidated(subject).items():
            done.append(Q(thread_id=thread) & ~pending.filter_unasked(held))
    for start in range(0, len(done), _AT_ONCE):
        batch = Q()
        for each in done[start : start + _AT_ONCE]:
            batch |= each
        found += begins.filter(batch).aggregate(n=Count("index"))["n"]
    return found


def _compute_cost(tokens_in: int, tokens_out: int) -> float | None:
    price = settings.MODEL.price if settings.MODEL else None
    return price.compute_cost(tokens_in, tokens_out) if price else None
