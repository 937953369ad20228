from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import UUID

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Path

from memoryhub.api.document.fields import Id, In, example
from memoryhub.api.http import auth, limits
from memoryhub.api.http.operations import StrictRouter
from memoryhub.errors import (
    ExportBusyError,
    KeyMissingError,
    NotFoundError,
    Refusal,
    SubjectErasedError,
)
from memoryhub.queries.people import profiles
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.export import exports
from memoryhub.services.export.exports import Export

router = StrictRouter(tags=["subjects"])


class ExportIn(In):
    """No fields."""

    model_config = example({})


@router.route(
    "POST",
    "/subjects/{subject}/export",
    needs=auth.EXPORT,
    out=None,
    refusals=[NotFoundError, SubjectErasedError, ExportBusyError, KeyMissingError],
)
async def export(
    request: HttpRequest, subject: Path[Id], body: ExportIn
) -> StreamingHttpResponse:
    """All that is remembered of a subject, as a ZIP that is made while it is sent.

    A POST, since it is noted and counted. Should it be erased meanwhile, it ends early
    and does not open: what opens is whole.
    """
    agent = auth.caller(request)
    # Here, while there is still a status to refuse with.
    limits.require_stream(agent)
    begun = await read(_prepared, agent, subject)
    await exports.begin_async(begun, actor=agent.actor)
    return StreamingHttpResponse(
        _sent(agent, begun),
        content_type="application/zip",
        headers={
            "Content-Disposition": f'attachment; filename="{begun.name}"',
            "X-Accel-Buffering": "no",
        },
    )


def _prepared(agent: Agent, subject: UUID) -> Export:
    found = profiles.get_subject(agent.project, subject, bound=agent.bound)
    return exports.prepare(found)


async def _sent(agent: Agent, begun: Export) -> AsyncIterator[bytes]:
    """The bundle, read no further ahead than the client takes it."""
    try:
        with suppress(Refusal), limits.stream(agent):
            while part := await read(begun.take):
                # What is on its way is not cut off: the next request pays.
                limits.charge_reply(agent, len(part))
                yield part
    finally:
        # Also when the client is gone, while a reader still makes the next part.
        await read(begun.drop)
