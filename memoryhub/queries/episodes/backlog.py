"""The backlog: exchanges that the model is not asked about unless an owner agrees.

Never writes. Figures of a whole project, for whoever decides about it: not for pages
that are drawn often.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum

from memoryhub.kernel.knowledge.consolidation import ExchangeConsolidated
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes import pending

#: Tokens that an exchange is asked with besides its own, and of an answer, about.
_QUESTION, _ANSWER = 300, 100
#: Of an exchange at most: what is longer loses its middle.
_LONGEST = 8_000
#: Homes and threads that one statement is about.
_AT_ONCE: Final = 200


class Backlog(NamedTuple):
    """Figures of asking about it. Equal exchanges are asked once: it is less."""

    exchanges: int
    #: Of questions and answers, about.
    tokens: int
    #: In the currency of the model's price; None where nobody set one.
    cost: float | None


def get_backlog(project: Project) -> Backlog:
    """Count the exchanges of a project that are not asked about as its settings are.

    Of all people but those who are restricted, erased or nobody in particular. Three
    queries, and the state of each home whose subject was asked about.
    """
    auto = project.consolidate == Project.Consolidate.AUTO
    since = project.consolidate_since
    if auto and since is None:
        return Backlog(0, 0, _cost(0, 0))
    slots = Slot.objects.filter(
        thread__project=project,
        thread__home=False,
        thread__status__in=(Thread.Status.OPEN, Thread.Status.CLOSED),
        thread__subject__state=Subject.State.ACTIVE,
        thread__subject__anonymous=False,
    )
    if auto:
        slots = slots.filter(at__lt=since)
    begins = slots.filter(role="user", erased=False)
    every = begins.count()
    exchanges = every - _count_asked(project, begins)
    if exchanges <= 0:
        return Backlog(0, 0, _cost(0, 0))
    spoken = slots.filter(role__in=("user", "assistant"))
    tokens = spoken.aggregate(all=Sum("tokens", default=0))["all"] * exchanges // every
    tokens = min(tokens, exchanges * _LONGEST) + exchanges * _QUESTION
    answered = exchanges * _ANSWER
    return Backlog(exchanges, tokens + answered, _cost(tokens, answered))


def _count_asked(project: Project, begins: QuerySet[Slot]) -> int:
    """Count those of these exchanges that the model was asked about."""
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
        for thread, held in pending.held_of(subject).items():
            done.append(Q(thread_id=thread) & ~pending.unasked(held))
    for start in range(0, len(done), _AT_ONCE):
        batch = Q()
        for each in done[start : start + _AT_ONCE]:
            batch |= each
        found += begins.filter(batch).aggregate(n=Count("index"))["n"]
    return found


def _cost(tokens_in: int, tokens_out: int) -> float | None:
    price = settings.MODEL.price if settings.MODEL else None
    return price.cost(tokens_in, tokens_out) if price else None
