from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path
from pydantic import Field

from memoryhub.api.document.fields import Id, Out, example
from memoryhub.api.document.samples import AT
from memoryhub.api.episodes.episodes import EPISODE, EpisodeOut
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.reading import GONE, find_subject
from memoryhub.api.knowledge.blocks import BLOCK, BlockOut
from memoryhub.api.knowledge.facts import FACT, FactOut
from memoryhub.models.server.clock import clock
from memoryhub.queries.episodes.episodes import Episode
from memoryhub.queries.episodes.pending import Outcome
from memoryhub.queries.knowledge.blocks import BlockView
from memoryhub.queries.people import long_term
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent

router = StrictRouter(tags=["subjects"])


class Part(NamedTuple):
    """A part of `long_term.PARTS` on the wire."""

    out: Any
    made: Callable[[Agent, Any], Any]
    example: Any


def _episode(agent: Agent, found: tuple[Episode, Outcome]) -> EpisodeOut:
    return EpisodeOut.from_episode(agent, *found)


def _block(_: Agent, found: BlockView) -> BlockOut:
    return BlockOut.model_validate(found)


#: By the names of `long_term.PARTS`; each is a list.
PARTS = {
    "blocks": Part(list[BlockOut], _block, BLOCK),
    "facts": Part(list[FactOut], FactOut.from_line, FACT),
    "episodes": Part(list[EpisodeOut], _episode, EPISODE),
}


class LongTermOut(Out):
    """What is known of a subject, all at one instant."""

    model_config = example(
        {
            "at": AT,
            **{name: [part.example] for name, part in PARTS.items()},
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
async def get(request: HttpRequest, subject: Path[Id]) -> HttpResponse:
    """What an agent loads of a subject when it starts, all at one instant.

    All blocks, the facts that began to hold last, the newest episodes, and how many
    there are in all; of facts those that hold now.
    """
    return await read(_get, auth.caller(request), subject)


def _get(agent: Agent, subject: UUID) -> HttpResponse:
    found = long_term.get_memory(find_subject(agent, subject), now=clock.now())
    parts = {
        name: [part.made(agent, each) for each in found.parts[name]]
        for name, part in PARTS.items()
    }
    return rendered(LongTermOut(at=found.at, counts=dict(found.counts), **parts))
