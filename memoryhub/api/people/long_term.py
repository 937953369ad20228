from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from ninja import Path
from pydantic import Field

from memoryhub.api.document.fields import Id, Out, build_example
from memoryhub.api.document.samples import AT
from memoryhub.api.episodes.episodes import EpisodeOut
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.reading import GONE, get_agent_subject
from memoryhub.api.knowledge.blocks import BLOCK, BlockOut
from memoryhub.api.knowledge.facts import FACT, FactOut
from memoryhub.models.server.clock import clock
from memoryhub.queries.episodes.episodes import EpisodeView
from memoryhub.queries.episodes.pending import EpisodeOutcome
from memoryhub.queries.knowledge.blocks import BlockView
from memoryhub.queries.people import long_term
from memoryhub.services.access.api_keys import Agent

router = StrictRouter(tags=["subjects"])


class LongTermPartOut(NamedTuple):
    """A part of `long_term.PARTS`: its schema, its builder and examples."""

    out: Any
    build: Callable[[Agent, Any], Any]
    examples: list[Any]


def _build_episode(
    agent: Agent, found: tuple[EpisodeView, EpisodeOutcome]
) -> EpisodeOut:
    return EpisodeOut.from_episode(agent, *found)


def _build_block(_: Agent, found: BlockView) -> BlockOut:
    return BlockOut.model_validate(found)


#: Parts by the names of `long_term.PARTS`; each part is a list.
PARTS = {
    "blocks": LongTermPartOut(list[BlockOut], _build_block, [BLOCK]),
    "facts": LongTermPartOut(list[FactOut], FactOut.from_line, [FACT]),
    "episodes": LongTermPartOut(list[EpisodeOut], _build_episode, []),
}


class LongTermOut(Out):
    """Knowledge of a subject, all at one instant."""

    model_config = build_example(
        {
            "at": AT,
            **{name: part.examples for name, part in PARTS.items()},
            "counts": dict.fromkeys(long_term.COUNTED, 1),
        }
    )

    at: datetime = Field(description="The instant.")
    __annotations__ |= {name: part.out for name, part in PARTS.items()}
    counts: dict[str, int] = Field(description="How many there are in all, by name.")


@router.route(
    "GET",
    "/subjects/{subject}/memory",
    needs=auth.READ,
    out=LongTermOut,
    refusals=GONE,
)
def get(request: HttpRequest, subject: Path[Id]) -> HttpResponse:
    """Read an agent's start-up knowledge of a subject, at one instant.

    All blocks, the facts valid now that began to hold last, the newest episodes, and
    how many there are in all.
    """
    agent = auth.get_caller(request)
    found = long_term.get_memory(get_agent_subject(agent, subject), now=clock.now())
    parts = {
        name: [part.build(agent, each) for each in found.parts[name]]
        for name, part in PARTS.items()
    }
    return render_answer(LongTermOut(at=found.at, counts=dict(found.counts), **parts))
