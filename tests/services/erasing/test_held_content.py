"""Held content: neither a page's deletion nor an expiry takes any of the content."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memoryhub import journal
from memoryhub.errors import Refusal, SubjectHeldError, SubjectRestrictedError
from memoryhub.journal import Address, Order
from memoryhub.kernel.commands import RetireThread
from memoryhub.kernel.memory.keys import EraseValues
from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.models.access.operators import Membership
from memoryhub.models.erasures import Hold
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import expiry as due
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access import operators, projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import operator_pages
from memoryhub.services.people import holds, restrictions, subjects
from memoryhub.workers import expiry
from tests.cast import factories
from tests.oracles.memory_acts import (
    DAY,
    MINUTE,
    NOON,
    lasting,
    new_key,
    set_keys,
    travel_to,
)
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db

OPERATOR = "operator:1"
#: After the expiry of the minute-long value, and its grace of a day.
OVER = NOON + 2 * DAY


@pytest.fixture(autouse=True)
def people(agent: Agent) -> None:
    """Make ann and bob, each with a page and a value for a minute."""
    with travel_to(NOON):
        for name in ("ann", "bob"):
            factories.make_thread(agent, name, user_id=name)
            factories.make_page(agent, "rules", thread=name)
            brief = new_key("brief", "x" * 50, lasting(MINUTE))
            set_keys(agent, brief, thread=name)


def _hold(agent: Agent, *, until: timedelta = 30 * DAY) -> Hold:
    """Open a hold on ann from now on."""
    vera = operators.add("vera")
    ann = _require_subject(agent)
    operators.set_role(ann.project, vera, Membership.Role.OFFICER)
    return holds.open_hold(
        ann,
        basis="legal_claims",
        reviewer=vera,
        expires_at=clock.now() + until,
        actor="command",
    )


def _require_subject(agent: Agent) -> Subject:
    found = subjects.find(agent.project, "ann")
    assert found is not None
    return found


def _count_sealed(agent: Agent, name: str) -> int:
    row = factories.get_thread(agent, name)
    assert verify(row) is None
    return Event.objects.filter(thread=row, payload__isnull=False).count()


def _erase() -> int:
    expiry.expire(clock.now())
    return expiry.erase(clock.now())


@pytest.mark.parametrize("by", ["agent", "operator"])
def test_held_page_is_not_deleted_before_the_hold_ends(agent: Agent, by: str) -> None:
    def delete(name: str) -> None:
        if by == "agent":
            act(agent, DeletePage(page_id="rules"), thread=name)
        else:
            row = factories.get_thread(agent, name)
            operator_pages.delete_page(row, "rules", actor=OPERATOR)

    with travel_to(NOON):
        hold = _hold(agent)
        kept = _count_sealed(agent, "ann")
        with pytest.raises(SubjectHeldError) as refused:
            delete("ann")
        assert refused.value.detail == {"until": hold.expires_at.isoformat()}
        assert _count_sealed(agent, "ann") == kept
        # Appends go on, and pages of a subject without a hold are deleted.
        factories.append(agent, "ann", "Still here.")
        delete("bob")
        assert _count_sealed(agent, "bob") < kept
    with travel_to(hold.expires_at):
        delete("ann")
        assert _count_sealed(agent, "ann") == kept


def test_expired_values_stay_until_the_hold_is_lifted(agent: Agent) -> None:
    with travel_to(NOON):
        hold = _hold(agent)
    with travel_to(OVER):
        kept = _count_sealed(agent, "ann")
        assert _erase() == 1
        assert (_count_sealed(agent, "ann"), _count_sealed(agent, "bob")) == (
            kept,
            kept - 1,
        )
        # Held values are neither overdue nor counted as due.
        assert due.get_lag(OVER) == timedelta()
        assert not [*due.iter_due_projects(OVER)]
        project = _require_subject(agent).project
        projects.set_lifetimes(project, default_ttl_seconds=None, grace_seconds=None)
        assert due.count_doomed(project, grace_seconds=0, now=OVER).count == 0
        projects.set_lifetimes(project, default_ttl_seconds=None, grace_seconds=0)
        holds.lift_hold(hold.id, actor="command")
        assert _erase() == 1
        assert _count_sealed(agent, "ann") == kept - 1


def test_expired_hold_keeps_no_value(agent: Agent) -> None:
    with travel_to(NOON):
        _hold(agent, until=DAY)
    with travel_to(OVER):
        assert _erase() == 2


def test_expired_values_stay_while_the_subject_is_restricted(agent: Agent) -> None:
    ann = _require_subject(agent)
    with travel_to(OVER):
        kept = _count_sealed(agent, "ann")
        restrictions.restrict_subject(ann.id, basis="claims", actor="command")
        assert _erase() == 1
        assert (_count_sealed(agent, "ann"), _count_sealed(agent, "bob")) == (
            kept,
            kept - 1,
        )
        restrictions.unrestrict_subject(ann.id, actor="command")
        assert _erase() == 1


@pytest.mark.parametrize("why", ["held", "restricted", ""])
def test_expiry_worker_is_refused_when_a_hold_is_opened_meanwhile(
    agent: Agent, why: str
) -> None:
    """Open the hold after the worker has read which values are due."""
    row = factories.get_thread(agent, "ann")
    seq = Event.objects.get(thread=row, type="key.set").seq
    with travel_to(OVER):
        expiry.expire(OVER)
        if why == "held":
            _hold(agent)
        elif why == "restricted":
            restrictions.restrict_subject(
                _require_subject(agent).id, basis="claims", actor="command"
            )
        kept = _count_sealed(agent, "ann")
        refusal = _find_refusal(row, EraseValues(seqs=(seq,), grace=DAY))
        kinds = {"held": SubjectHeldError, "restricted": SubjectRestrictedError}
        assert type(refusal) is kinds.get(why, type(None))
        assert _count_sealed(agent, "ann") == (kept if why else kept - 1)


def test_thread_held_meanwhile_is_not_retired(agent: Agent) -> None:
    with travel_to(OVER):
        _hold(agent)
        for name, kind in (("ann", SubjectHeldError), ("bob", type(None))):
            row = factories.get_thread(agent, name)
            assert (
                type(_find_refusal(row, RetireThread(policy_days=1, idle_days=2)))
                is kind
            )


def _find_refusal(row: Thread, command: EraseValues | RetireThread) -> Refusal | None:
    address = Address(project=row.project_id, name=row.name)
    try:
        journal.perform(Order(address=address, command=command, actor="worker:expiry"))
    except Refusal as refusal:
        return refusal
    return None
