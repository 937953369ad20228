from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import UUID

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Path
from pydantic import Field

from memoryhub.api.document.fields import Id, In, build_example
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
from memoryhub.services.export.exports import BundleExport, ExportFormat

router = StrictRouter(tags=["subjects"])


class ExportIn(In):
    model_config = build_example({})

    format: ExportFormat = Field(
        "bundle",
        description="`bundle` is signed and holds all; `markdown` is the present "
        "memory as Markdown files.",
    )


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
    """Export a subject's memory as a ZIP that is built while it is sent.

    A POST, since it is noted and counted. If the subject is erased meanwhile, the file
    ends early and does not open: a file that opens is complete.
    """
    agent = auth.get_caller(request)
    # Checked here, before the answer's status is sent.
    limits.require_stream(agent)
    begun = await read(_prepare_export, agent, subject, body.format)
    await exports.begin_export_async(begun, actor=agent.actor)
    return StreamingHttpResponse(
        _iter_bundle(agent, begun),
        content_type="application/zip",
        headers={
            "Content-Disposition": f'attachment; filename="{begun.name}"',
            "X-Accel-Buffering": "no",
        },
    )


def _prepare_export(agent: Agent, subject: UUID, kind: ExportFormat) -> BundleExport:
    found = profiles.get_subject(agent.project, subject, bound=agent.bound)
    return exports.prepare_export(found, kind=kind)


async def _iter_bundle(agent: Agent, begun: BundleExport) -> AsyncIterator[bytes]:
    """Yield the bundle in parts, read no further ahead than the client takes them."""
    try:
        with suppress(Refusal), limits.hold_stream(agent):
            while part := await read(begun.take):
                # A running export is not cut off: the next request is refused.
                limits.charge_reply(agent, len(part))
                yield part
    finally:
        # Runs also if the client left while a reader still builds the next part.
        await read(begun.drop)
