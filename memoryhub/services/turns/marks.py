"""Marks of turns, by agents and by operators: what a comment may hold."""

from __future__ import annotations

from typing import Final

from memoryhub.errors import InvalidError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.state.turn_marks import MarkWord
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.turns.marks import MarkTurn
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import working_memory

MAX_COMMENT_CHARS: Final = 2_000


async def submit_mark(
    *,
    agent: Agent,
    thread: str,
    turn: int,
    mark: MarkWord | None,
    comment: str | None = None,
) -> OrderReceipt:
    """Mark an agent's turn, or remove its mark. Emits turn.marked, or nothing.

    Raises InvalidError for the comment, NotFoundError for a turn not begun.
    """
    command = _build_command(turn, mark, comment)
    texts = [] if command.comment is None else [command.comment]
    return await working_memory.submit_command(
        agent=agent, thread=thread, command=command, texts=texts
    )


def mark_for_operator(
    thread: Thread,
    turn: int,
    mark: MarkWord | None,
    comment: str | None = None,
    *,
    actor: str,
) -> OrderReceipt:
    """Mark a turn, or remove its mark, as `submit_mark` does, also when closed."""
    command = _build_command(turn, mark, comment)
    return working_memory.perform_command(thread, command, actor=actor)


def _build_command(turn: int, mark: MarkWord | None, comment: str | None) -> MarkTurn:
    """Build the command; an empty comment is none."""
    text = None
    if comment:
        strict_json.check(comment, strict_json.CONTENT)
        if len(comment) > MAX_COMMENT_CHARS:
            raise InvalidError(loc="comment")
        text = strict_json.dump_stored(comment)
    return MarkTurn(turn=turn, mark=mark, comment=text)
