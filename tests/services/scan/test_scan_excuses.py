"""What is written of her that others, or we ourselves, have lawfully in the clear.

No erasure may wait for ever for words that never were hers alone; and none is complete
while a word that was stands anywhere.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from pytest_django import Settings

from memoryhub.kernel.state.events import LabelValue
from memoryhub.kernel.state.state import Scope
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.threads import slots
from tests.cast.factories import (
    append,
    get_thread,
    make_page,
    make_slot,
    make_thread,
    run,
)
from tests.cast.forgetting import confirm, finish, forget, of, plan
from tests.oracles.memory_acts import new_key, set_keys
from tests.services.acts import fork

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State
SHARED = "travel-agency.vienna@example.org"


@pytest.fixture
def ann(acme: Project, agent: Agent) -> Subject:
    """Her words are Bob's names, staff's names, and words of our own."""
    Project.objects.filter(id=acme.id).update(slug="acme-airlines-of-vienna")
    operators.add("olga.officer@example.org")
    labels: dict[str, LabelValue] = {"agency": SHARED, "plan": "gold card 2026"}
    make_thread(agent, "bob-1", user_id="bob", labels=labels)
    scope = Scope(agent_type="current_step", session="receipt_sha256")
    thread = make_thread(agent, "ann-1", user_id="ann", labels=labels, scope=scope)
    sent = make_slot(SHARED, from_name=SHARED, to_name="operator")
    run(slots.append(agent=agent, thread="ann-1", slots=[sent]))
    told = (
        *("acme-airlines-of-vienna", "olga.officer@example.org", "gold card 2026"),
        *(str(thread.id), str(thread.subject_id), "upgrade_budget_tokens"),
        '{"role":"assistant","type":"chat.assistant"}',
        {"role": "assistant", "until": "2026-12-21", "current_step": "pending"},
    )
    append(agent, "ann-1", *told)
    for key in ("current_step", "timestamp", "payload_digest"):
        set_keys(agent, new_key(key, 1), thread="ann-1")
    make_page(agent, "system-rules", thread="ann-1")
    return of(agent, "ann")


@pytest.mark.parametrize("scope", ["subject", "thread", "record"])
def test_what_is_not_hers_alone_is_waited_for_by_nobody(
    agent: Agent, ann: Subject, scope: str
) -> None:
    thread = get_thread(agent, "ann-1")
    given: dict[str, dict[str, object]] = {
        "subject": {},
        "thread": {"thread": thread},
        "record": {"thread": thread, "seq": 2},
    }
    row = finish(confirm(plan(ann, scope, **given[scope])))
    told = orjson.loads(row.verification)
    assert (row.state, told["undeclared"]) == (State.COMPLETE, 0), told
    assert told["needles"]["plaintext"] > 0


def test_names_that_a_fork_keeps_are_waited_for_by_nobody(
    agent: Agent, ann: Subject
) -> None:
    """What she wrote is a sender's name as well, in a thread that keeps its names."""
    fork(agent, "ann-1", "ann-fork")
    row = finish(confirm(plan(ann, "thread", thread=get_thread(agent, "ann-1"))))
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")


@pytest.mark.parametrize("text", ["gold-card-of-ann", "Tante Emma, Graz"])
def test_what_is_hers_alone_stops_it(
    agent: Agent, ann: Subject, settings: Settings, tmp_path: Path, text: str
) -> None:
    settings.LOGS = tmp_path
    set_keys(agent, new_key("gold-card-of-ann", "Tante Emma, Graz"), thread="ann-1")
    (tmp_path / "server.log").write_text(f"oh {text}!")
    row = forget(ann, until=State.SCRUBBED)
    row = erasures.advance(row)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "store")
    (tmp_path / "server.log").write_text("oh!")
    assert erasures.advance(row).state == State.VERIFIED
