"""Home threads: where what is known of a subject is written, and made by that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.journal import Address, Order, Receipt, Request
from memoryhub.kernel.commands import Command, Refuse
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent

Made = TypeVar("Made", bound=Command)


def prepared(make: Callable[[], Made], request: Request | None) -> Made | Refuse:
    """Return the command that `make` reads its way to, or one that refuses in its turn.

    A repeat may find that it cannot be done, for it has been: that is looked up where
    it is written. Raises what `make` does where there is nothing to repeat.
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
    request: Request | None = None,
) -> Receipt:
    """Write a command of a part that home threads take, for an agent.

    The thread is made in the same transaction if the subject has none. `subject` was
    found in the agent's project; `texts` are what waits in the queue. Raises what the
    command does, SubjectRestrictedError, SubjectErasedError, and NotFoundError for a
    key that is bound to another subject.
    """
    return await journal.submit(
        Order(
            address=Address.of_home(agent.project, subject.id, bound=agent.bound),
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
) -> Receipt:
    """Write the same for an operator or a worker; blocks.

    `epoch` is the subject's in which texts were read that the command was made of.
    """
    return journal.perform(
        Order(
            address=Address.of_home(subject.project_id, subject.id),
            command=command,
            actor=actor,
            if_match=if_match,
            epoch=epoch,
        )
    )
