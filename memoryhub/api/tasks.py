from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api import auth
from memoryhub.api.fields import ThreadName
from memoryhub.api.memory_fields import expected
from memoryhub.api.memory_schemas import ExistedOut, TaskIn, TaskOut, TaskPatch
from memoryhub.api.operations import StrictRouter, rendered
from memoryhub.api.preconditions import CONDITIONAL
from memoryhub.api.reading import GONE, find_thread, seq_of
from memoryhub.api.schemas import AsOf
from memoryhub.errors import (
    ProjectFullError,
    SeqUnknownError,
    TaskNotFoundError,
)
from memoryhub.journal import Receipt
from memoryhub.kernel import strict_json
from memoryhub.kernel.memory_commands import ClearTask, SetTask, UpdateTask
from memoryhub.kernel.memory_events import TaskField
from memoryhub.queries import tasks
from memoryhub.queries.readers import read
from memoryhub.services import working_memory
from memoryhub.services.api_keys import Agent

router = StrictRouter(tags=["task"])

#: Fields whose content is sealed.
_TEXTS: tuple[TaskField, ...] = ("description", "data")


@router.route(
    "GET",
    "/threads/{thread}/task",
    needs=auth.READ,
    out=TaskOut,
    refusals=[*GONE, SeqUnknownError, TaskNotFoundError],
)
async def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """The state of the task, now or as of an event."""
    return await read(_get, auth.caller(request), thread, query)


@router.route(
    "PUT",
    "/threads/{thread}/task",
    needs=auth.WRITE,
    out=TaskOut,
    refusals=[*CONDITIONAL, ProjectFullError],
)
async def put(
    request: HttpRequest, thread: Path[ThreadName], body: TaskIn
) -> HttpResponse:
    """Set the whole of it; what is absent takes its default.

    Makes the thread if the name is new.
    """
    texts = _texts(body)
    command = SetTask(
        status=body.status,
        current_step=body.current_step,
        progress_percent=body.progress_percent,
        started_at=body.started_at,
        started="started_at" in body.model_fields_set,
        texts=texts,
        expected=expected(request),
    )
    receipt = await working_memory.submit(
        agent=auth.caller(request),
        thread=thread,
        command=command,
        texts=[*texts.values()],
        born=True,
    )
    return await read(_written, receipt)


@router.route(
    "PATCH",
    "/threads/{thread}/task",
    needs=auth.WRITE,
    out=TaskOut,
    refusals=[*CONDITIONAL, TaskNotFoundError],
)
async def patch(
    request: HttpRequest, thread: Path[ThreadName], body: TaskPatch
) -> HttpResponse:
    """Change what is sent; null clears. Two at once never lose each other's fields.

    Sent with nothing in it, it says that the task is alive.
    """
    sent = {name: getattr(body, name) for name in body.model_fields_set}
    texts = _texts(body)
    command = UpdateTask(
        fields={
            name: value
            for name, value in sent.items()
            if value is not None and name not in _TEXTS
        },
        texts=texts,
        cleared=tuple(name for name, value in sent.items() if value is None),  # type: ignore[misc]  # names of fields
        expected=expected(request),
    )
    receipt = await working_memory.submit(
        agent=auth.caller(request),
        thread=thread,
        command=command,
        texts=[*texts.values()],
    )
    return await read(_written, receipt)


@router.route(
    "DELETE",
    "/threads/{thread}/task",
    needs=auth.WRITE,
    out=ExistedOut,
    refusals=CONDITIONAL,
)
async def delete(request: HttpRequest, thread: Path[ThreadName]) -> HttpResponse:
    """Remove the task; keys, notes and checkpoints stay."""
    receipt = await working_memory.submit(
        agent=auth.caller(request),
        thread=thread,
        command=ClearTask(expected=expected(request)),
    )
    existed = bool(receipt.events)
    return rendered(ExistedOut(existed=existed, seq=receipt.seq if existed else None))


def _texts(body: TaskIn | TaskPatch) -> dict[TaskField, bytes]:
    texts = {name: getattr(body, name) for name in _TEXTS}
    return {
        name: strict_json.as_sent(text)
        for name, text in texts.items()
        if text is not None
    }


def _get(agent: Agent, name: str, moment: AsOf) -> HttpResponse:
    thread = find_thread(agent, name)
    return rendered(TaskOut.of(tasks.get_task(thread, seq=seq_of(thread, moment))))


def _written(receipt: Receipt) -> HttpResponse:
    return rendered(TaskOut.of(tasks.after(receipt)))
