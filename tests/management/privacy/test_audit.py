"""The command `audit`, and what other commands leave in the log."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.projects import Project
from memoryhub.queries.access.audit import FIELDS
from memoryhub.services.access import audit, operators
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, get_thread
from tests.cast.recordings import array
from tests.cast.recordings import run as recorded_run
from tests.oracles.kept import unguarded

pytestmark = pytest.mark.django_db


def run(*words: str) -> tuple[str, str, int]:
    """Run the command; return standard output, standard error and exit code."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*words, stdout=out, stderr=err, no_color=True)
    except SystemExit as end:
        return out.getvalue(), err.getvalue(), int(str(end.code))
    return out.getvalue(), err.getvalue(), 0


def note(project: Project | None = None, action: str = "scanned", **more: Any) -> None:
    place = project.id if project else None
    audit.record(actor="command", action=action, project=place, **more)


def get_last_entry() -> AuditEntry:
    return AuditEntry.objects.latest("seq")


def test_audit_verify_says_how_far_the_log_is_whole() -> None:
    for _ in range(3):
        note()
    out, err, code = run("audit", "verify")
    assert (out, code) == ("", 0)
    assert "Verified to 3" in err


@pytest.mark.no_replay
def test_audit_verify_names_the_first_broken_entry() -> None:
    for _ in range(3):
        note()
    with unguarded(AuditEntry):
        AuditEntry.objects.filter(seq=2).update(count=7)
    _, err, code = run("audit", "verify")
    assert code == 1
    assert err.strip() == (
        "Entry 2 is not as it was written; the audit log is whole up to entry 1."
    )


def test_audit_list_shows_the_newest_last(acme: Project) -> None:
    for count in range(3):
        note(acme, count=count)
    lines = run("audit", "list", "--limit", "2")[0].splitlines()
    assert lines[0].split()[0] == "entry"
    seqs = [int(line.split()[0]) for line in lines[1:]]
    assert seqs == [get_last_entry().seq - 1, get_last_entry().seq]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 3),
        (("--action", "scanned"), 2),
        (("--action", "hold.*"), 1),
        (("--project", "zeta"), 1),
        (("--actor", "olga"), 1),
        (("--outcome", "failed"), 1),
        (("--until", "2001-01-01"), 0),
        (("--since", "2001-01-01T12:00"), 3),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_audit_export_writes_a_line_for_each_match(
    words: tuple[str, ...], count: int, acme: Project, zeta: Project
) -> None:
    olga = operators.add("olga")
    before = get_last_entry().seq
    note(acme)
    note(zeta, outcome="failed")
    actor = f"operator:{olga.id}"
    audit.record(actor=actor, action="hold.opened", project=acme.id)
    out, _, code = run("audit", "export", *words)
    entries = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len([each for each in entries if each["seq"] > before]) == count
    assert all(tuple(each) == FIELDS for each in entries)


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--limit", "0"),
        ("list", "--project", "nothing-of-this-name"),
        ("export", "--since", "yesterday"),
    ],
    ids=" ".join,
)
def test_wrong_audit_usage_is_refused_in_one_line(words: tuple[str, ...]) -> None:
    out, err, code = run("audit", *words)
    assert (out, code) == ("", 2)
    assert len(err.strip().splitlines()) == 1


def test_reading_the_audit_log_adds_no_entry(acme: Project) -> None:
    before = get_last_entry().seq
    for action in ("verify", "list", "export"):
        run("audit", action)
    assert get_last_entry().seq == before


# Other commands


def test_verify_is_audited_with_its_outcome(agent: Agent) -> None:
    append(agent, "t-1", "hello")
    run("verify", "--thread", "acme/t-1")
    assert (
        get_last_entry().action,
        get_last_entry().outcome,
        get_last_entry().count,
    ) == ("verified", "done", 1)
    assert get_last_entry().project == get_thread(agent).project_id


@pytest.mark.no_replay
def test_changed_audit_log_fails_the_whole_verification(agent: Agent) -> None:
    note()
    with unguarded(AuditEntry):
        AuditEntry.objects.filter(seq=get_last_entry().seq).update(count=7)
    with pytest.raises(CommandError, match="of the audit log"):
        run("verify", "--all")
    assert (get_last_entry().action, get_last_entry().outcome) == ("verified", "failed")


def test_rebuild_is_audited(agent: Agent) -> None:
    append(agent, "t-1", "hello")
    run("rebuild")
    assert (get_last_entry().action, get_last_entry().count) == ("journal.rebuilt", 1)


def test_import_is_audited_when_it_has_written(acme: Project, tmp_path: Path) -> None:
    file = array(tmp_path, recorded_run())
    run("import", str(file), "--project", "acme", "--quiet", "--dry-run")
    assert get_last_entry().action != "import.done"
    run("import", str(file), "--project", "acme", "--quiet")
    assert (
        get_last_entry().action,
        get_last_entry().project,
        get_last_entry().count,
    ) == ("import.done", acme.id, 1)


def test_kek_maintenance_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse battery staple\n" * 2))
    run("keys", "backup", str(tmp_path / "ring.backup"))
    assert (get_last_entry().action, get_last_entry().target_kind) == (
        "kek.backed_up",
        "kek",
    )
