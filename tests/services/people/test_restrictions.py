"""Restrictions: agents kept out, the basis, and the part of an open erasure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from memoryhub.errors import (
    ErasureInProgressError,
    InvalidError,
    SubjectErasedError,
    SubjectRestrictedError,
)
from memoryhub.models import Project, Subject
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.server.clock import clock
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import restrictions, subjects
from tests.cast import factories, graves

pytestmark = pytest.mark.django_db

ACTOR = "command"


@pytest.fixture
def ann(acme: Project) -> Subject:
    return subjects.find_or_create(acme.id, "ann")


def _actions(subject: Subject) -> list[tuple[str, str]]:
    rows = AuditEntry.objects.filter(target_id=str(subject.id)).order_by("seq")
    return [*rows.values_list("action", "actor_kind")]


@pytest.mark.parametrize("basis", restrictions.BASES)
def test_restriction_keeps_agents_out_until_it_is_lifted(
    agent: Agent, ann: Subject, basis: str
) -> None:
    for whose in ("ann", "bob"):
        factories.make_thread(agent, f"{whose}-1", user_id=whose)
    done = restrictions.restrict_subject(ann.id, basis=basis, actor=ACTOR)
    assert (done.state, done.basis) == ("restricted", basis)
    with pytest.raises(SubjectRestrictedError):
        factories.append(agent, "ann-1", "hello")
    factories.append(agent, "bob-1", "hello")
    lifted = restrictions.unrestrict_subject(ann.id, actor=ACTOR)
    assert (lifted.state, lifted.basis) == ("active", "")
    factories.append(agent, "ann-1", "hello")
    expected = [("subject.restricted", "command"), ("subject.unrestricted", "command")]
    assert _actions(ann) == expected


def test_repeated_restriction_changes_the_basis_alone(ann: Subject) -> None:
    restrictions.unrestrict_subject(ann.id, actor=ACTOR)
    assert _actions(ann) == []
    for basis in ("claims", "claims", "accuracy_contested"):
        changed = restrictions.restrict_subject(ann.id, basis=basis, actor=ACTOR)
        assert changed.basis == basis
    assert len(_actions(ann)) == 2
    for _ in range(2):
        assert restrictions.unrestrict_subject(ann.id, actor=ACTOR).state == "active"
    assert len(_actions(ann)) == 3


def test_restriction_basis_is_one_of_four_words(ann: Subject) -> None:
    for basis in ("", "because she asked", "legal_claims", restrictions.PLANNED):
        with pytest.raises(InvalidError) as caught:
            restrictions.restrict_subject(ann.id, basis=basis, actor=ACTOR)
        assert caught.value.loc == "basis"
    ann.refresh_from_db()
    assert ann.state == "active"


@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_erased_subject_is_not_restricted(ann: Subject, state: str) -> None:
    erasure = graves.make_erasure(ann)
    receipt = graves.make_receipt(erasure)
    Subject.objects.filter(id=ann.id).update(state=state)
    acts: tuple[Callable[[], object], ...] = (
        lambda: restrictions.restrict_subject(ann.id, basis="claims", actor=ACTOR),
        lambda: restrictions.unrestrict_subject(ann.id, actor=ACTOR),
    )
    for act in acts:
        with pytest.raises(SubjectErasedError) as caught:
            act()
        proof = {"erasure": str(erasure.id), "receipt": str(receipt.id)}
        assert caught.value.detail == proof


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        ({"state": "planned", "restrict": True}, restrictions.PLANNED),
        ({"state": "held"}, restrictions.HELD),
    ],
)
def test_restriction_of_an_erasure_is_lifted_by_nobody_else(
    ann: Subject, plan: dict[str, Any], word: str
) -> None:
    open_one = graves.make_erasure(ann, confirmed_at=None, **plan)
    Subject.objects.filter(id=ann.id).update(state="restricted", basis=word)
    with pytest.raises(ErasureInProgressError) as refused:
        restrictions.unrestrict_subject(ann.id, actor=ACTOR)
    assert refused.value.detail == {"erasure": str(open_one.id)}
    restrictions.restrict_subject(ann.id, basis="claims", actor=ACTOR)
    kept = restrictions.unrestrict_subject(ann.id, actor=ACTOR)
    assert (kept.state, kept.basis) == ("restricted", word)
    open_one.state = "cancelled"
    open_one.save(update_fields=["state"])
    assert restrictions.unrestrict_subject(ann.id, actor=ACTOR).state == "active"


@pytest.mark.parametrize(
    "plan",
    [
        {"state": "planned", "restrict": False},
        {"state": "planned", "restrict": True, "age": timedelta(minutes=16)},
        {"state": "expired", "restrict": True},
    ],
)
def test_plan_without_restriction_does_not_block_unrestricting(
    ann: Subject, plan: dict[str, Any]
) -> None:
    age = plan.pop("age", timedelta())
    expires_at = clock.now() + timedelta(minutes=15) - age
    graves.make_erasure(ann, confirmed_at=None, expires_at=expires_at, **plan)
    restrictions.restrict_subject(ann.id, basis="claims", actor=ACTOR)
    assert restrictions.unrestrict_subject(ann.id, actor=ACTOR).state == "active"
