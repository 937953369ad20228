"""Home threads: the thread of each subject's knowledge, created by the first write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.journal import Address, KeyedRequest, Order, OrderReceipt
from memoryhub.kernel.commands import Command, Refuse
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent

Made = TypeVar("Made", bound=Command)


def build_or_refuse(
    make: Callable[[], Made], request: KeyedRequest | None
) -> Made | Refuse:
    """Return the command that `make` builds, or a command that raises its refusal.

    A repeated request may be refused because it was done already: the writer then finds
    the earlier receipt. Raises what `make` raises where there is no request to repeat.
    """
    try:
        return make()
    except Refusal as refusal:
        if request is None:
            raise
        return Refuse(refusal=refusal)


async def submit(
    *,
    agent: Agent,
    subject: Subject,
    command: Command,
    texts: Sequence[bytes] = (),
    if_match: int | None = None,
    epoch: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Submit an agent's command to the subject's home thread.

    The same transaction creates the thread if the subject has none. `subject` was found
    in the agent's project; `texts` are bytes that wait in the queue. Raises what the
    command raises, SubjectRestrictedError, SubjectErasedError, and NotFoundError for a
    key that is bound to another subject.
    """
    return await journal.submit(
        Order(
            address=Address.build_home(agent.project, subject.id, bound=agent.bound),
            command=command,
            actor=agent.actor,
            if_match=if_match,
            epoch=epoch,
            request=request,
            size=sum(map(len, texts)),
        )
    )


def perform(
    subject: Subject,
    command: Command,
    *,
    actor: str,
    if_match: int | None = None,
    epoch: int | None = None,
) -> OrderReceipt:
    """Perform an operator's or worker's command in the home thread; blocks.

    `epoch` is the subject's epoch when the texts of the command were read.
    """
    return journal.perform(
        Order(
            address=Address.build_home(subject.project_id, subject.id),
            command=command,
            actor=actor,
            if_match=if_match,
            epoch=epoch,
        )
    )
