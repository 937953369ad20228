"""The commands `export` and `import --format bundle`: whole files and output."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from memoryhub.errors import SubjectErasedError
from memoryhub.management import bundle_import
from memoryhub.models import Project, Subject, Thread
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.keys import SigningKey
from memoryhub.models.server.leases import Lease
from memoryhub.queries.export import bundles
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.vault.proof import signing
from tests.cast import bundled, factories

pytestmark = pytest.mark.django_db


class Ended(Exception):
    """A command that ended early: its exit code and its output."""


def run(*words: object) -> str:
    """Run the command; return its output."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*map(str, words), stdout=out, stderr=err, no_color=True)
    except SystemExit as end:
        raise Ended(end.code, err.getvalue().strip()) from None
    return out.getvalue()


def require_refusal(*words: object, code: int = 1) -> str:
    with pytest.raises(Ended) as ended:
        run(*words)
    assert ended.value.args[0] == code
    line = str(ended.value.args[1])
    assert "\n" not in line
    return line


@pytest.fixture
def ann(agent: Agent, acme: Project) -> Subject:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", "She is allergic to nuts.")
    return subjects.find_or_create(acme.id, "ann")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    def type_(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return type_


@pytest.fixture
def path(ann: Subject, typed: Any, tmp_path: Path) -> Path:
    """Export ann's bundle; return its path."""
    typed("ann\n")
    path = tmp_path / "ann.zip"
    run("export", "acme", "-o", path)
    return path


# export


def test_bundle_file_is_readable_by_its_owner_only(ann: Subject, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*path.parent.iterdir()] == [path]
    whole = bundled.open_bundle(path.read_bytes())
    assert whole.testzip() is None
    assert b"allergic" in whole.read("events.jsonl")
    assert not Lease.objects.exists()
    (entry,) = AuditEntry.objects.filter(action="subject.exported")
    assert (entry.actor_kind, entry.target_id) == ("command", str(ann.id))


def test_export_prints_sizes_but_no_content(
    ann: Subject, typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    typed("ann\n")
    line = run("export", "acme")
    assert line.startswith("2 events, ")
    assert line.endswith(f": memoryhub-{ann.id}.zip\n")
    assert Path(f"memoryhub-{ann.id}.zip").exists()


def test_anonymous_export_needs_no_user_id(acme: Project, tmp_path: Path) -> None:
    run("export", "acme", "--anonymous", "-o", tmp_path / "a.zip")
    shape = bundled.manifest(bundled.open_bundle((tmp_path / "a.zip").read_bytes()))
    assert shape["subject"]["user_id"] is None


def test_markdown_is_written_as_a_zip_or_a_new_folder(
    ann: Subject, typed: Any, tmp_path: Path
) -> None:
    words = ("export", "acme", "--format", "markdown", "-o")
    typed("ann\n")
    run(*words, tmp_path / "ann.zip")
    whole = bundled.open_bundle((tmp_path / "ann.zip").read_bytes())
    typed("ann\n")
    folder = tmp_path / "ann"
    assert run(*words, f"{folder}/").endswith(f" MB: {folder}\n")
    assert {*tmp_path.iterdir()} == {tmp_path / "ann.zip", folder}
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*.md")}
    assert {*files} == {*whole.namelist()}
    assert "allergic" in files["threads/t-1.md"].read_text()
    assert {stat.S_IMODE(file.stat().st_mode) for file in files.values()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert AuditEntry.objects.filter(action="subject.exported").count() == 2
    assert require_refusal(*words, f"{folder}/") == f"{folder}/ exists."
    line = require_refusal("export", "acme", "-o", f"{folder}/", code=2)
    assert line.startswith("A folder needs --format markdown")


@pytest.mark.parametrize("text", ["", "a\tb\n", "*\n", "x" * 257 + "\n"])
def test_export_refuses_an_invalid_user_id(
    acme: Project, typed: Any, text: str
) -> None:
    typed(text)
    assert "1 to 256 characters" in require_refusal("export", "acme", code=2)


def test_export_of_an_unknown_subject_is_not_found(acme: Project, typed: Any) -> None:
    typed("bob\n")
    assert require_refusal("export", "acme").startswith("not_found: ")
    assert "no project of that name" in require_refusal("export", "nowhere")


def test_export_of_an_erased_subject_is_refused(ann: Subject, typed: Any) -> None:
    Subject.objects.filter(id=ann.id).update(state="erased")
    typed("ann\n")
    assert require_refusal("export", "acme").startswith("subject_erased: ")
    Subject.objects.filter(id=ann.id).update(state="active")


def test_aborted_export_leaves_no_file(
    ann: Subject, typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The subject is erased during the export; the file from before stays."""
    path = tmp_path / "ann.zip"
    path.write_bytes(b"before")
    require, cuts = bundles._require_same, []

    def erased_meanwhile(cut: Any) -> None:
        cuts.append(cut)
        if len(cuts) == 9:
            raise SubjectErasedError
        require(cut)

    monkeypatch.setattr(bundles, "_require_same", erased_meanwhile)
    typed("ann\n")
    assert require_refusal("export", "acme", "-o", path).startswith("subject_erased: ")
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == b"before"
    assert not Lease.objects.exists()


def test_unwritable_export_file_is_reported(
    ann: Subject, typed: Any, tmp_path: Path
) -> None:
    typed("ann\n")
    line = require_refusal("export", "acme", "-o", tmp_path / "none" / "a.zip")
    assert line.startswith("Can't write ")
    assert not Lease.objects.exists()


# import --format bundle


def take(path: Path, *words: object, project: str = "zeta") -> str:
    return run("import", path, "--project", project, "--format", "bundle", *words)


def not_taken(path: Path, *words: object, code: int = 1) -> str:
    line = ("import", path, "--project", "zeta", "--format", "bundle", *words)
    return require_refusal(*line, code=code)


def test_bundle_is_imported(path: Path, zeta: Project) -> None:
    assert take(path) == "1 threads, 2 events: all of it is in.\n"
    assert Thread.objects.get(project=zeta).name == "t-1"


def test_bundle_import_prints_json_on_request(path: Path, zeta: Project) -> None:
    shape = json.loads(take(path, "--json", "--quiet"))
    subject = subjects.find_or_create(zeta.id, "ann")
    assert shape == {
        "file": str(path),
        "format": "bundle",
        "dry_run": False,
        "subject": str(subject.id),
        "threads": 1,
        "events": 2,
        "withheld": 0,
        "already_there": False,
    }


def test_bundle_that_is_there_already_is_done(path: Path, zeta: Project) -> None:
    take(path)
    assert take(path) == "1 threads, 2 events: already there. Nothing was written.\n"
    assert json.loads(take(path, "--json"))["already_there"] is True
    assert Thread.objects.filter(project=zeta).count() == 1


def test_bundle_progress_counts_events_checked_then_written() -> None:
    out = io.StringIO()
    progress = bundle_import._BundleProgress(out, total=4, unit="events checked")
    progress.every = 0
    for amount in (1, 3, 4):
        progress.add(amount)
    shown = [line.partition(" · ")[0].strip() for line in out.getvalue().splitlines()]
    assert shown == [
        "25% 1 of 4 events checked",
        "100% 4 of 4 events checked",
        "100% 4 of 4 events written",
    ]


def test_bundle_dry_run_says_so(path: Path, zeta: Project) -> None:
    line = take(path, "--dry-run")
    assert line == "1 threads, 2 events: all right. Nothing was written.\n"
    assert not Thread.objects.filter(project=zeta).exists()


def test_bundle_of_another_hub_needs_its_public_keys(
    path: Path, zeta: Project, tmp_path: Path, settings: Any
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(signing.encode_keys(signing.list_endorsed_keys()))
    SigningKey.objects.using("keys").all().delete()
    settings.LEDGER = tmp_path / "ledger"
    assert "unknown_signer" in (told := not_taken(path))
    assert "receipt keys" in told
    assert not_taken(path, "--keys", path, code=2).startswith("--keys takes ")
    assert "all of it is in" in take(path, "--keys", keys)


def test_bad_bundle_is_named_by_its_line(
    path: Path, zeta: Project, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.zip"

    def edit(lines: list[bytes]) -> None:
        lines[1] = lines[1].replace(b'"index":0', b'"index":1')

    bad.write_bytes(bundled.rewritten(path.read_bytes(), edit))
    keys = tmp_path / "keys.json"
    keys.write_bytes(signing.encode_keys(signing.list_endorsed_keys()))
    line = not_taken(bad, "--keys", keys)
    assert line.startswith("bad_bundle: ")
    assert line.endswith("(what: fold, line: 2)")
    assert "allergic" not in line


@pytest.mark.parametrize(
    "words",
    [
        ("--thread", "t"),
        ("--source", "desk"),
        ("--user-id",),
        ("--agent-type", "a"),
        ("--budget", "2000"),
        ("--skip-bad",),
        ("--report", "r"),
    ],
)
def test_bundle_import_refuses_options_for_other_formats(
    path: Path, zeta: Project, words: tuple[str, ...]
) -> None:
    assert words[0] in not_taken(path, *words, code=2)


def test_unreadable_bundle_is_reported(zeta: Project, tmp_path: Path) -> None:
    assert not_taken(tmp_path / "none.zip").startswith("Can't read ")
    assert not_taken(tmp_path).startswith("Can't read ")
    assert "stdin" in not_taken(Path("-"), code=2)
    (tmp_path / "a.html").write_text("<!doctype html>")
    assert "unknown_format" in not_taken(tmp_path / "a.html")


def test_taken_thread_name_is_reported_by_bundle_import(
    path: Path, acme: Project
) -> None:
    line = require_refusal("import", path, "--project", "acme", "--format", "bundle")
    assert line.startswith("name_taken: ")


def test_bundle_is_refused_as_a_run_file(path: Path, zeta: Project) -> None:
    """Try row 138 of the bad inputs the other way round."""
    line = require_refusal("import", path, "--project", "zeta", code=2)
    assert "unknown_format" in line
    assert "--format bundle" in line
    words = ("import", path, "--project", "zeta", "--keys", path)
    assert "--format bundle" in require_refusal(*words, code=2)
