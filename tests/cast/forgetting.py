"""Forgetting in tests: a person beside a twin, and every step of the erasure."""

from __future__ import annotations

from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget import erasure_counts
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.people import subjects
from tests.cast.factories import append, make_page, make_thread

State = Erasure.State
TEXT = "I would like seat 12A by the window, please."


def make_person(agent: Agent, user_id: str, *, threads: int = 1) -> Subject:
    """Make threads of a few messages and a page: the same for everybody."""
    for n in range(1, threads + 1):
        name = f"{user_id}-{n}"
        make_thread(agent, name, user_id=user_id, labels={"channel": "web"})
        append(agent, name, TEXT, "And a meal.")
        make_page(agent, "rules", thread=name)
    return get_subject(agent, user_id)


def get_subject(agent: Agent, user_id: str) -> Subject:
    found = subjects.find(agent.project, user_id)
    assert found is not None
    return found


def forget(
    subject: Subject,
    scope: str = Erasure.Scope.SUBJECT,
    *,
    until: str = State.COMPLETE,
    **asked: object,
) -> Erasure:
    """Plan and confirm an erasure, and advance it up to that state."""
    row = confirm(plan(subject, scope, **asked))
    while row.state != until:
        before = row.state
        row = erasures.advance_erasure(row)
        assert row.state != before, (row.state, row.waiting_on)
    return row


def plan(subject: Subject, scope: str = "subject", **more: object) -> Erasure:
    asked = {"reason": "test", "actor": "command", **more}
    return erasures.plan(subject, scope=scope, **asked)  # type: ignore[arg-type]


def confirm(row: Erasure, actor: str = "command") -> Erasure:
    count = ErasureLine.from_row(row).count
    return erasures.confirm(
        row, token=erasures.build_token(row), count=count, actor=actor
    )


def finish(row: Erasure) -> Erasure:
    """Advance an erasure through every step, as the worker does."""
    for _ in State.values:
        row = erasures.advance_erasure(row)
    return row


def list_records(subject: Subject) -> tuple[object, ...]:
    """Return all records that others must not lose."""
    rows = Event.objects.filter(thread__subject=subject).order_by("thread", "seq")
    return (
        [tuple(map(str, row)) for row in rows.values_list("body", "payload", "chain")],
        erasure_counts.count_subject(subject.id),
    )
