"""Scan excuses: a subject's words that others, or we ourselves, lawfully hold.

No erasure waits for words that were never the subject's alone. No erasure is complete
while a word of the subject alone stands anywhere.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from pytest_django import Settings

from memoryhub.kernel.state.events import LabelValue
from memoryhub.kernel.state.state import ScopeLabels
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
from tests.cast.forgetting import confirm, finish, forget, get_subject, plan
from tests.oracles.memory_acts import new_key, set_keys
from tests.services.acts import fork

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State
SHARED = "travel-agency.vienna@example.org"


@pytest.fixture
def ann(acme: Project, agent: Agent) -> Subject:
    """Make ann, whose words are also names of Bob and staff, and words of our own."""
    Project.objects.filter(id=acme.id).update(slug="acme-airlines-of-vienna")
    operators.add("olga.officer@example.org")
    labels: dict[str, LabelValue] = {"agency": SHARED, "plan": "gold card 2026"}
    make_thread(agent, "bob-1", user_id="bob", labels=labels)
    scope = ScopeLabels(agent_type="current_step", session="receipt_sha256")
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
    return get_subject(agent, "ann")


@pytest.mark.parametrize("scope", ["subject", "thread", "record"])
def test_words_shared_with_others_do_not_delay_an_erasure(
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


def test_names_kept_by_a_fork_do_not_delay_an_erasure(
    agent: Agent, ann: Subject
) -> None:
    """Erase a text that is also a sender's name, in a thread that keeps names."""
    fork(agent, "ann-1", "ann-fork")
    row = finish(confirm(plan(ann, "thread", thread=get_thread(agent, "ann-1"))))
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")


@pytest.mark.parametrize("text", ["gold-card-of-ann", "Tante Emma, Graz"])
def test_word_of_the_subject_alone_stops_the_erasure(
    agent: Agent, ann: Subject, settings: Settings, tmp_path: Path, text: str
) -> None:
    settings.LOGS = tmp_path
    set_keys(agent, new_key("gold-card-of-ann", "Tante Emma, Graz"), thread="ann-1")
    (tmp_path / "server.log").write_text(f"oh {text}!")
    row = forget(ann, until=State.SCRUBBED)
    row = erasures.advance_erasure(row)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "store")
    (tmp_path / "server.log").write_text("oh!")
    assert erasures.advance_erasure(row).state == State.VERIFIED
