"""The configured model, as workers ask it: counted, within what a day has for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from uuid import UUID

from django.conf import settings

from memoryhub import journal
from memoryhub.errors.trouble import ModelError
from memoryhub.journal.writing.activity import activity
from memoryhub.queries.knowledge import model_use
from memoryhub.services.model_calls import Ask, Message, Reply

#: How long nobody is asked while the model is away, or a project's day is used up.
AWAY, USED_UP = timedelta(minutes=1), timedelta(minutes=10)


def model() -> Ask | None:
    """Return what asks the configured model; None without one."""
    if settings.MODEL is None:
        return None
    # It needs an extra that nobody has who needs no model.
    client = import_module("memoryhub.services.model_client")
    ask: Ask = client.ModelClient(settings.MODEL).ask
    return ask


def host() -> str | None:
    """Return whom messages are given to."""
    return settings.MODEL.host if settings.MODEL else None


def is_used_up(project: UUID, now: datetime) -> bool:
    """Return whether a project has no tokens left of its day."""
    journal.run(activity.flush)
    spent = model_use.get_use(project, now=now).tokens
    return spent >= settings.MODEL_DAILY_TOKENS


@dataclass(slots=True)
class Counted:
    """Asks, and counts it for the project."""

    ask: Ask
    project: UUID
    #: What was asked last.
    answered: bool = False

    def __call__(self, messages: Sequence[Message]) -> Reply:
        self.answered = False
        try:
            reply = self.ask(messages)
        except ModelError:
            activity.model_asked(self.project, 0, failed=True)
            raise
        self.answered = True
        activity.model_asked(self.project, reply.tokens_in + reply.tokens_out)
        return reply
