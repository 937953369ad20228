"""Audit entries of services: one for each act, in the transaction of the act."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.contrib.sessions.models import Session

from memoryhub.errors import InvalidError, NameTakenError
from memoryhub.journal.audit import AuditNote
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Operator
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7
from memoryhub.queries.access.audit import verify
from memoryhub.services.access import api_keys, audit, operators, projects
from tests.cast.sockets import sign_in

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 4, 12, 0, 1, tzinfo=UTC)
ACTOR = "operator:0197"


@pytest.fixture
def olga(acme: Project) -> Operator:
    return operators.add("olga")


def get_last_entry(action: str) -> AuditEntry:
    return AuditEntry.objects.filter(action=action).latest("seq")


def list_actions() -> list[str]:
    return [*AuditEntry.objects.order_by("seq").values_list("action", flat=True)]


def test_audit_entry_has_actor_action_and_outcome() -> None:
    audit.record(actor="command", action="scanned", project=None, outcome="failed")
    row = AuditEntry.objects.get()
    assert (row.actor_kind, row.action, row.outcome) == ("command", "scanned", "failed")


@pytest.mark.parametrize("action", ["sign_in", "sign_out", "sudo"])
def test_session_act_is_audited_in_each_project_of_the_operator(
    action: str, acme: Project, zeta: Project, olga: Operator
) -> None:
    for project in (acme, zeta):
        operators.set_role(project, olga, "owner")
    audit.record_operator(olga, action, purpose="support")
    rows = AuditEntry.objects.filter(action=action)
    assert {row.project for row in rows} == {acme.id, zeta.id}
    assert {(row.actor_ref, row.purpose) for row in rows} == {(str(olga.id), "support")}


def test_sign_in_without_a_project_is_audited_once(olga: Operator) -> None:
    audit.record_operator(olga, "sign_in", purpose=None)
    assert get_last_entry("sign_in").project is None


def test_content_read_is_audited_once_a_minute(acme: Project) -> None:
    seen = uuid7()
    with time_machine.travel(START, tick=False) as travel:
        for second in (0, 30, 58, 59, 119, 120):
            travel.move_to(START + timedelta(seconds=second))
            audit.record_looks(_look(acme, str(seen)))
    times = [
        row.at
        for row in AuditEntry.objects.filter(action="content.read").order_by("seq")
    ]
    assert [(at - START).seconds for at in times] == [0, 59, 119]


def test_content_read_of_a_continued_view_is_audited_once_an_hour(
    acme: Project,
) -> None:
    first = [_look(acme, target, view="a") for target in "123"]
    with time_machine.travel(START, tick=False) as travel:
        audit.record_looks(*first)
        for second, target, view in (
            *((90, "1", "a"), (120, "4", "a"), (3599, "2", "a"), (3600, "3", "a")),
            *((3601, "1", "b"), (3601, "1", "b")),
        ):
            travel.move_to(START + timedelta(seconds=second))
            audit.record_looks(_look(acme, target, view=view), continued=True)
    found = AuditEntry.objects.filter(action="content.read").order_by("seq")
    assert [(each.request_id, each.target_id, each.count) for each in found] == [
        *(("a", "1", 3), ("a", "2", 0), ("a", "3", 0)),
        *(("a", "4", 0), ("a", "3", 0), ("b", "1", 1)),
    ]
    assert verify().wrong is None


@pytest.mark.parametrize("field", ["actor", "target", "project"])
def test_content_reads_by_others_are_audited_apart(
    field: str, acme: Project, zeta: Project
) -> None:
    with time_machine.travel(START, tick=False):
        audit.record_looks(_look(acme, "1"))
        other = {
            "actor": _look(acme, "1", actor="operator:0198"),
            "target": _look(acme, "2"),
            "project": _look(zeta, "1"),
        }
        audit.record_looks(other[field])
    assert AuditEntry.objects.filter(action="content.read").count() == 2


def _look(
    project: Project, target: str, *, actor: str = ACTOR, view: str | None = None
) -> AuditNote:
    return AuditNote(
        actor=actor,
        action="content.read",
        project=project.id,
        target_kind="thread",
        target_id=target,
        purpose="debugging",
        request_id=view,
    )


# Operators


def test_operator_creation_and_role_change_are_audited(
    acme: Project, olga: Operator
) -> None:
    assert get_last_entry("operator.added").target_id == str(olga.id)
    operators.set_role(acme, olga, "viewer", actor=ACTOR)
    row = get_last_entry("role.changed")
    assert (row.project, row.target_id) == (acme.id, str(olga.id))
    assert (row.actor_kind, row.actor_ref) == ("operator", "0197")


def test_repeated_role_is_not_audited(acme: Project, olga: Operator) -> None:
    operators.set_role(acme, olga, "owner")
    before = list_actions()
    operators.set_role(acme, olga, "owner")
    assert list_actions() == before


def test_refused_operator_change_is_not_audited(acme: Project, olga: Operator) -> None:
    operators.set_role(acme, olga, "owner")
    before = list_actions()
    with pytest.raises(InvalidError):
        operators.set_role(acme, olga, "viewer")
    with pytest.raises(NameTakenError):
        operators.add("olga")
    assert list_actions() == before


def test_password_and_link_are_audited_without_their_secret(olga: Operator) -> None:
    operators.set_password(olga, "a password of some length")
    token = operators.make_link(olga)
    for action in ("operator.password_set", "operator.link_made"):
        row = get_last_entry(action)
        assert row.target_id == str(olga.id)
        assert token not in str(vars(row))


@pytest.mark.parametrize("role", ["viewer", "officer", None])
def test_role_change_ends_the_sessions_of_the_operator(
    role: str | None, acme: Project, olga: Operator
) -> None:
    """End the sessions, whatever the new role is."""
    operators.set_role(acme, operators.ensure_default(), "owner")
    operators.set_role(acme, olga, "editor")
    kept, ended = _session(operators.ensure_default()), _session(olga)
    operators.set_role(acme, olga, role)
    left = [*Session.objects.values_list("session_key", flat=True)]
    assert kept in left
    assert ended not in left


def _session(operator: Operator) -> str:
    return sign_in(operator)


# Keys and projects


def test_api_key_acts_are_audited_by_prefix(acme: Project) -> None:
    row, key = api_keys.create(acme, actor=ACTOR)
    made, _ = api_keys.rotate(row, actor=ACTOR)
    api_keys.revoke(made, actor=ACTOR)
    entries = AuditEntry.objects.filter(target_kind="api_key").order_by("seq")
    assert [(each.action, each.target_id) for each in entries] == [
        ("api_key.made", row.prefix),
        ("api_key.made", made.prefix),
        ("api_key.rotated", row.prefix),
        ("api_key.revoked", made.prefix),
    ]
    assert {(each.project, each.actor_ref) for each in entries} == {(acme.id, "0197")}
    assert not [each for each in entries if key in str(vars(each))]


def test_project_settings_are_audited(acme: Project) -> None:
    assert get_last_entry("project.made").target_id == str(acme.id)
    projects.configure(acme, max_threads=7, actor=ACTOR)
    projects.set_retention(acme, idle_days=30, actor=ACTOR)
    projects.set_lifetimes(acme, default_ttl_seconds=60, grace_seconds=60, actor=ACTOR)
    entries = AuditEntry.objects.filter(action="project.changed")
    assert [(each.actor_ref, each.target_id, each.route) for each in entries] == [
        ("0197", str(acme.id), f"settings/{area}")
        for area in ("limits", "retention", "lifetimes")
    ]
    assert verify().wrong is None


def test_refused_project_is_not_audited(acme: Project) -> None:
    before = list_actions()
    with pytest.raises(NameTakenError):
        projects.create("acme")
    assert list_actions() == before
