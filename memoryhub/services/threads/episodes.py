"""Episodes: a finished exchange, remembered at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memoryhub.journal import KeyedRequest, OrderReceipt
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.context import tokens
from memoryhub.kernel.formats.transcripts import Calls, read_message
from memoryhub.kernel.threads import exchanges, measuring
from memoryhub.kernel.threads.exchanges import RememberedCall
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEpisode:
    """Question of a user, the tools used for it, and the answer."""

    question: str
    answer: str
    uses: Sequence[RememberedCall] = ()
    occurred_at: datetime | None = None

    def build_slots(self, thread: str) -> list[NewSlot]:
        """Build the episode's messages, counted by est/1.

        Raises JsonRefusedError for a message that is too large.
        """
        calls = Calls()
        messages = [
            read_message(each, thread=thread, calls=calls, agent_at=self.occurred_at)
            for each in exchanges.build_messages(self.question, self.answer, self.uses)
        ]
        est = tokens.EST
        return [
            measuring.measure_message(each, est, counted_by=est.name)
            for each in messages
        ]


async def append_episode(
    *,
    agent: Agent,
    subject: UUID,
    thread: str,
    episode: NewEpisode,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Append the messages of one exchange to a thread of the subject, all or none.

    Emits and raises as `slots.append` does; an unknown name creates a thread of the
    subject, and another subject's thread is not found.
    """
    return await slots.append(
        agent=agent,
        thread=thread,
        slots=episode.build_slots(thread),
        subject=subject,
        if_match=if_match,
        request=request,
    )
