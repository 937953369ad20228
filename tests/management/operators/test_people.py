"""The commands `subject` and `hold`: effects, output and errors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memoryhub.models import Membership, Project, Subject
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Hold
from memoryhub.models.server.clock import clock
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from tests.cast import factories, graves
from tests.management.operators.test_commands import answer, require_refusal, run

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "ann-1", user_id="ann")
    factories.append(agent, "ann-1", "hello")
    return subjects.find_or_create(agent.project, "ann")


@pytest.fixture
def vera(acme: Project) -> str:
    made = operators.add("vera")
    operators.set_role(acme, made, Membership.Role.OFFICER)
    return "vera"


def _run_subject(
    monkeypatch: pytest.MonkeyPatch, *words: str, user_id: str = "ann"
) -> tuple[str, str]:
    answer(monkeypatch, f"{user_id}\n")
    return run("subject", words[0], "--project", "acme", *words[1:])


def test_subject_profile_is_shown_without_a_user_id(
    monkeypatch: pytest.MonkeyPatch, ann: Subject
) -> None:
    out, printed = _run_subject(monkeypatch, "show")
    assert str(ann.id) in out
    assert "slot.appended" in out
    assert "1 open" in out
    for hidden in ("ann-1", "hello", "customer"):
        assert hidden not in out + printed
    (entry,) = AuditEntry.objects.filter(action="subject.looked_up")
    assert (entry.actor_kind, entry.target_id) == ("command", str(ann.id))
    by_id, _ = run("subject", "show", "--project", "acme", "--subject", str(ann.id))
    assert by_id == out


def test_subject_is_restricted_and_unrestricted(
    monkeypatch: pytest.MonkeyPatch, ann: Subject
) -> None:
    out, _ = _run_subject(monkeypatch, "restrict", "--basis", "claims")
    assert out.strip() == f"{ann.id}  restricted (claims), generation 1"
    out, _ = _run_subject(monkeypatch, "unrestrict")
    assert out.strip() == f"{ann.id}  active, generation 1"


@pytest.mark.no_replay
def test_erased_subject_is_readmitted(
    monkeypatch: pytest.MonkeyPatch, ann: Subject
) -> None:
    graves.bury_subject(ann)
    for action in ("show", "unrestrict"):
        answer(monkeypatch, "ann\n")
        printed = require_refusal("subject", action, "--project", "acme")
        assert printed.startswith("subject_erased: ")
    out, _ = _run_subject(monkeypatch, "readmit")
    made = Subject.objects.get(generation=2)
    assert out.strip() == f"{made.id}  active, generation 2"
    answer(monkeypatch, "ann\n")
    assert require_refusal("subject", "readmit", "--project", "acme").startswith(
        "not_erased"
    )


@pytest.mark.parametrize("user_id", ["", " ", "*", "%", "**", "x" * 257])
def test_subject_command_refuses_an_impossible_user_id(
    monkeypatch: pytest.MonkeyPatch, ann: Subject, user_id: str
) -> None:
    for words in (["show"], ["restrict", "--basis", "claims"], ["readmit"]):
        answer(monkeypatch, f"{user_id}\n")
        printed = require_refusal(
            "subject", words[0], "--project", "acme", *words[1:], code=2
        )
        assert "a person's id" in printed


def test_subject_command_never_makes_a_subject(
    monkeypatch: pytest.MonkeyPatch, ann: Subject, zeta: Project
) -> None:
    count = Subject.objects.count()
    answer(monkeypatch, "nobody\n")
    assert "no such person" in require_refusal(
        "subject", "show", "--project", "acme", code=2
    )
    foreign = ["--project", "zeta", "--subject", str(ann.id)]
    assert "no such person" in require_refusal("subject", "show", *foreign, code=2)
    assert "no project" in require_refusal(
        "subject", "show", "--project", "nope", code=2
    )
    assert Subject.objects.count() == count


def test_hold_is_opened_listed_renewed_and_lifted(
    monkeypatch: pytest.MonkeyPatch, ann: Subject, vera: str
) -> None:
    answer(monkeypatch, "ann\n")
    words = ["--basis", "legal_claims", "--reviewer", vera, "--days", "30"]
    out, _ = run("hold", "open", "--project", "acme", *words)
    hold = Hold.objects.get()
    assert out.startswith(f"{hold.id}  legal_claims, in force until ")
    assert hold.expires_at - hold.opened_at == pytest.approx(
        timedelta(days=30), abs=timedelta(seconds=5)
    )
    listed, _ = run("hold", "list", "--project", "acme")
    assert f"{hold.id}  in force" in listed
    assert f"subject {ann.id}" in listed
    assert "reviewer vera" in listed
    run("hold", "renew", str(hold.id), "--days", "300")
    hold.refresh_from_db()
    assert hold.expires_at > clock.now() + timedelta(days=299)
    out, _ = run("hold", "lift", str(hold.id))
    assert str(hold.id) in out
    assert run("hold", "list", "--project", "acme")[0] == ""
    assert "ended" in run("hold", "list", "--project", "acme", "--all")[0]
    assert require_refusal("hold", "lift", str(hold.id)).startswith("not_found")


@pytest.mark.parametrize("days", ["0", "-1", "366"])
def test_hold_requires_an_end_within_a_year(ann: Subject, vera: str, days: str) -> None:
    words = ["--basis", "archiving", "--reviewer", vera, f"--days={days}"]
    printed = require_refusal("hold", "open", "--project", "acme", *words, code=2)
    assert "1 to 365" in printed
    assert not Hold.objects.exists()


def test_hold_reviewer_is_an_officer_of_the_project(
    monkeypatch: pytest.MonkeyPatch, ann: Subject, acme: Project
) -> None:
    editor = operators.add("eddy")
    operators.set_role(acme, editor, Membership.Role.EDITOR)
    for name in ("eddy", "nobody"):
        answer(monkeypatch, "ann\n")
        words = ["--basis", "archiving", "--reviewer", name, "--days", "3"]
        printed = require_refusal("hold", "open", "--project", "acme", *words, code=2)
        assert "officer" in printed
    assert not Hold.objects.exists()


@pytest.mark.parametrize(
    ("command", "action", "taught"),
    [
        ("subject", "show", "No\ncontent is opened"),
        ("subject", "restrict", "accuracy_contested"),
        ("subject", "readmit", "nothing of before attaches"),
        ("hold", "open", "officer or owner"),
        ("hold", "lift", "plan it anew"),
    ],
)
def test_subject_and_hold_help_explains_each_action(
    capsys: pytest.CaptureFixture[str], command: str, action: str, taught: str
) -> None:
    assert require_refusal(command, action, "--help", code=0) == ""
    assert taught in capsys.readouterr().out
