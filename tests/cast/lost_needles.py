"""Erasures that met their user id somewhere, and a restart that forgets it."""

from __future__ import annotations

from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session

from memoryhub.models.erasures import Erasure
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.scan import collecting
from tests.cast.forgetting import confirm, finish, make_person, plan

USER = "ann.of.accounts@example.org"


def planted(text: str) -> SessionStore:
    """Insert the id into a row of ours in which it should not be."""
    session = SessionStore()
    session["seen"] = text
    session.save()
    return session


def restart() -> None:
    """Drop the state that a process keeps in memory alone."""
    for row in Erasure.objects.all():
        collecting.remembered.pop(row.id)
    collecting.remembered.take_typed()


def meet(agent: Agent) -> tuple[Erasure, SessionStore]:
    """Run an erasure that meets its user id in a session."""
    session = planted(USER)
    row = finish(confirm(plan(make_person(agent, USER))))
    assert (row.state, row.waiting_on) == ("scrubbed", "store")
    return row, session


def lose(agent: Agent) -> Erasure:
    """Return the erasure after a restart, once somebody has removed what it met."""
    row, session = meet(agent)
    restart()
    session.delete()
    row = finish(row)
    assert (row.state, row.waiting_on) == ("scrubbed", "needles")
    return row


def plant() -> None:
    """Plant the id. Runs in an instance."""
    planted(USER)


def remove() -> None:
    """Remove the id, as somebody would. Runs in an instance."""
    Session.objects.all().delete()
