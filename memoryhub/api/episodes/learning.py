from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from pydantic import Field

from memoryhub.api.document.fields import In, Out, build_example
from memoryhub.api.document.samples import AT
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter
from memoryhub.errors import NotFoundError
from memoryhub.models.projects import Project
from memoryhub.queries.episodes.backlog import get_backlog
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent

router = StrictRouter(tags=["episodes"])


class LearningIn(In):
    model_config = build_example({"ask": True, "backlog": None})

    ask: bool = Field(description="Whether exchanges that are over are asked about.")
    backlog: int | None = Field(
        None,
        ge=0,
        description="Ask about what was said before, too: that many exchanges, as the "
        "answer says; fewer than wait are refused. Null: from now on.",
    )


class BacklogOut(Out):
    """Exchanges not asked about; equal ones are asked about once."""

    exchanges: int = Field(description="That nobody is asked about as it is set.")
    tokens: int = Field(description="Of questions and answers, about.")
    cost: float | None = Field(description="By the price that is set; null: none is.")


class LearningOut(Out):
    """Whether, and since when, the language model is asked for facts."""

    model_config = build_example(
        {
            "ask": True,
            "since": AT,
            "model": "llm.example.com",
            "backlog": {"exchanges": 2781, "tokens": 1946700, "cost": 0.41},
        }
    )

    ask: bool = Field(description="Whether it is asked at all.")
    since: datetime | None = Field(description="What began before is not; null: all.")
    model: str | None = Field(description="The model's host; null: there is no model.")
    backlog: BacklogOut = Field(description="What it would take to ask about all.")


@router.route(
    "GET",
    "/learning",
    needs=auth.ADMIN,
    out=LearningOut,
    refusals=[NotFoundError],
)
def get(request: HttpRequest) -> LearningOut:
    """Report whether a language model learns facts, and the backlog.

    Not found for a key that is bound to a subject.
    """
    return _get_learning(_require_project(auth.get_caller(request)))


@router.route(
    "PUT",
    "/learning",
    needs=auth.ADMIN,
    out=LearningOut,
    refusals=[NotFoundError],
)
async def put(request: HttpRequest, body: LearningIn) -> LearningOut:
    """Start or stop asking the model about exchanges, newest first.

    Asking covers new exchanges; a backlog only with its number.
    """
    agent = auth.get_caller(request)
    made = await projects.set_consolidation_async(
        _require_project(agent), auto=body.ask, backlog=body.backlog, actor=agent.actor
    )
    return await read(_get_learning, made.id)


def _require_project(agent: Agent) -> UUID:
    if agent.bound is not None:
        raise NotFoundError
    return agent.project


def _get_learning(project: UUID) -> LearningOut:
    found = Project.objects.get(id=project)
    ask = found.consolidate == Project.Consolidate.AUTO
    return LearningOut(
        ask=ask,
        since=found.consolidate_since if ask else None,
        model=settings.MODEL.host if settings.MODEL else None,
        backlog=BacklogOut.model_validate(get_backlog(found)),
    )
