"""Episodes: an exchange that is over is remembered at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memoryhub.journal import Receipt, Request
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.formats.transcripts import Calls, read_message
from memoryhub.kernel.levels import tokens
from memoryhub.kernel.threads import exchanges, measuring
from memoryhub.kernel.threads.exchanges import ToolUse
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEpisode:
    """What the user said, the tools that were used for it, and the answer."""

    question: str
    answer: str
    uses: Sequence[ToolUse] = ()
    occurred_at: datetime | None = None

    def slots(self, thread: str) -> list[NewSlot]:
        """Return its messages, counted by est/1.

        Raises JsonRefusedError for a message that is too large.
        """
        calls = Calls()
        messages = [
            read_message(each, thread=thread, calls=calls, agent_at=self.occurred_at)
            for each in exchanges.messages_of(self.question, self.answer, self.uses)
        ]
        est = tokens.EST
        return [
            measuring.of_message(each, est, counted_by=est.name) for each in messages
        ]


async def remember(
    *,
    agent: Agent,
    subject: UUID,
    thread: str,
    episode: NewEpisode,
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    """Append the messages of one exchange to a thread of the subject, all or none.

    Emits and raises as appending slots does; a new name makes a thread of the subject,
    and another subject's thread is not found.
    """
    return await slots.append(
        agent=agent,
        thread=thread,
        slots=episode.slots(thread),
        subject=subject,
        if_match=if_match,
        request=request,
    )
