"""The command `delete_project`: effects, output and errors."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from memoryhub.journal.forget import scrub
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.access import operators, projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import holds
from memoryhub.workers import deletions
from tests.cast import factories
from tests.cast.forgetting import finish
from tests.management.operators.test_commands import require_refusal, run

pytestmark = pytest.mark.django_db(transaction=True)

CONFIRMED = ("delete_project", "acme", "--confirm=acme", "--reason=not_needed")


@pytest.fixture(autouse=True)
def ann(agent: Agent) -> Subject:
    thread = factories.make_thread(agent, "ann-1", user_id="ann")
    factories.append(agent, "ann-1", "I would like seat 12A, please.")
    return thread.subject


def state() -> str:
    return Project.objects.values_list("state", flat=True).get(slug="acme")


def test_delete_project_without_a_confirmation_only_counts() -> None:
    out, _ = run("delete_project", "acme", "--wait")
    for what, count in (("subjects", 2), ("threads", 1), ("API keys", 1)):
        assert any(
            line.split()[: len(what.split()) + 1] == [*what.split(), str(count)]
            for line in out.splitlines()
        ), (what, out)
    assert "delete_project acme --confirm acme --reason WORD" in out
    assert state() == "active"
    assert not Erasure.objects.exists()


def test_confirmed_project_deletion_goes_on_in_the_background() -> None:
    out, _ = run(*CONFIRMED)
    assert out.strip() == (
        "The project acme is being deleted: 0 of 2 subjects are erased."
    )
    assert state() == "deleting"
    assert run("delete_project", "acme")[0] == out
    # Continue as a worker does, without replacing this process's log.
    deletions.advance_all(clock.now())
    for row in Erasure.objects.all():
        finish(row)
    assert "2 of 2" in run("delete_project", "acme")[0]


def test_delete_project_waits_for_the_end_on_request() -> None:
    out, _ = run(*CONFIRMED, "--ticket=LEGAL-42", "--wait")
    assert out.startswith("The project acme was deleted at ")
    assert state() == "deleted"
    assert Receipt.objects.count() == 2
    # Repeating the command prints the same; new work in the project is refused.
    assert run("delete_project", "acme")[0] == out
    assert run(*CONFIRMED, "--wait")[0] == out
    assert require_refusal("create_key", "acme").startswith("project_deleted")
    taken = require_refusal("create_project", "acme")
    assert "There is a project acme already" in taken


def test_delete_project_names_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, err = io.StringIO(), io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(scrub, "scrub", lambda **_: "reader")
        with pytest.raises(SystemExit) as ended:
            call_command(*CONFIRMED, "--wait", stdout=out, stderr=err, no_color=True)
    assert ended.value.code == 1
    assert "0 of 2 subjects are erased; waiting: reader." in out.getvalue()
    assert "goes on by itself" in err.getvalue()
    assert "was deleted" in run("delete_project", "acme", "--wait")[0]


def test_delete_project_is_refused_while_a_hold_is_in_force(ann: Subject) -> None:
    operator = operators.ensure_default()
    holds.open_hold(
        ann,
        basis="legal_claims",
        reviewer=operator,
        expires_at=timezone.now() + timedelta(days=30),
        actor="command",
    )
    out, _ = run("delete_project", "acme")
    assert "Holds in force: 1." in out
    assert "--confirm" not in out
    printed = require_refusal(*CONFIRMED, "--wait")
    assert printed.startswith("Nothing was deleted. subject_held:")
    assert "holds: 1" in printed
    assert state() == "active"


def test_wrong_delete_project_usage_is_refused_in_one_line() -> None:
    projects.create("zeta")
    assert "no project" in require_refusal("delete_project", "omega", code=2)
    wrong = ("delete_project", "acme", "--confirm=zeta", "--reason=test")
    assert "once more" in require_refusal(*wrong, code=2)
    assert "--reason" in require_refusal(
        "delete_project", "acme", "--confirm=acme", code=2
    )
    assert require_refusal(*CONFIRMED, "--ticket=ask Ann").startswith("value:")
    assert state() == "active"
