"""Remembered exchanges: messages in one batch, in a thread of the subject."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from memoryhub.errors import NotFoundError, ThreadFullError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.state.events import SlotAppended, ThreadCreated
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.kernel.threads.exchanges import RememberedCall
from memoryhub.models.server.clock import clock
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.queries.episodes import episodes as reading
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.threads import episodes
from memoryhub.services.threads.episodes import NewEpisode
from tests.cast.factories import make_thread, run

pytestmark = pytest.mark.django_db

THEN = datetime(2024, 5, 1, 9, tzinfo=UTC)
USES = (
    RememberedCall(name="seat_map", arguments='{"flight":"LX318"}', result="12A: free"),
    RememberedCall(name="hold", arguments="{}", result=None),
)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return subjects.find_or_create(agent.project, "ann")


def remember(
    agent: Agent, subject: UUID, thread: str = "talk", **changes: object
) -> OrderReceipt:
    new = NewEpisode(
        **{  # type: ignore[arg-type]  # as the test gives them
            "question": "Is 12A free?",
            "answer": "Yes.",
            "uses": USES,
            "occurred_at": THEN,
            **changes,
        }
    )
    work = episodes.append_episode(
        agent=agent, subject=subject, thread=thread, episode=new
    )
    return run(work)


def test_remembered_exchange_is_one_episode(agent: Agent, ann: Subject) -> None:
    """Write question, calls, results and answer in one commit, as one episode."""
    receipt = remember(agent, ann.id)
    assert [type(each.event) for each in receipt.events[:1]] == [ThreadCreated]
    made = receipt.list_events(SlotAppended)
    assert [each.role for each in made] == ["user", "assistant", "tool", "assistant"]
    assert [each.to_name for each in made] == [
        "assistant",
        "tools",
        "assistant",
        "user",
    ]
    (found,) = reading.list_episodes(ann, now=clock.now()).items
    assert (found.occurred_at, found.messages) == (THEN, 4)
    assert found.input.content == {"role": "user", "content": "Is 12A free?"}
    assert found.output
    assert found.output.content == {"role": "assistant", "content": "Yes."}
    assert [(call.name, call.arguments) for _, call in found.tool_calls] == [
        (use.name, use.arguments) for use in USES
    ]


def test_thread_of_an_episode_carries_the_blocks_of_its_person(
    agent: Agent, ann: Subject
) -> None:
    for subject, carries in ((ann.id, True), (agent.anonymous, False)):
        receipt = remember(agent, subject, thread=f"talk-{carries}")
        (made,) = receipt.list_events(ThreadCreated)
        assert made.config.blocks is carries


def test_refused_exchange_leaves_nothing(agent: Agent, ann: Subject) -> None:
    make_thread(agent, "talk", user_id="ann", max_slots=3)
    with pytest.raises(ThreadFullError):
        remember(agent, ann.id)
    with pytest.raises(JsonRefusedError):
        remember(agent, ann.id, question="?" * 2**21)
    assert not Slot.objects.exists()


def test_thread_of_somebody_else_is_not_found(agent: Agent, ann: Subject) -> None:
    make_thread(agent, "theirs", user_id="bob")
    with pytest.raises(NotFoundError):
        remember(agent, ann.id, "theirs")
    with pytest.raises(NotFoundError):
        remember(agent, subjects.get_anonymous(agent.project).id, "theirs")
    assert not Slot.objects.exists()
