from __future__ import annotations

import io
import stat
import sys
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.utils import timezone
from pytest_django import Settings

from memoryhub.management.commands.keys import Command
from memoryhub.models.keys import KekCheck, KeyMeta
from memoryhub.vault.keys import keyring, keys, ring_file, rotation
from memoryhub.vault.keys.ring_file import Ring

pytestmark = pytest.mark.django_db(databases=["default", "keys"])

PASSPHRASE = "correct horse battery staple"


@pytest.fixture
def subjects(ring: Ring, project: UUID) -> list[UUID]:
    made = [uuid4() for _ in range(5)]
    for subject in made:
        keys.create_subject_key(subject, project_id=project)
    return made


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send the passphrase through a pipe."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{PASSPHRASE}\n" * 2))


def run(*words: object) -> str:
    out = io.StringIO()
    call_command("keys", *(str(word) for word in words), stdout=out, stderr=out)
    return out.getvalue()


def require_refusal(*words: object, returncode: int = 1) -> str:
    with pytest.raises(CommandError) as refused:
        run(*words)
    assert refused.value.returncode == returncode
    return str(refused.value)


def test_status_asks_for_a_backup_until_there_is_one(
    subjects: list[UUID], typed: None, tmp_path: Path
) -> None:
    assert "keys backup FILE" in require_refusal("status")
    run("backup", tmp_path / "ring.backup")
    assert "All is well." in run("status")


def test_status_counts_rows_and_prints_no_key(
    subjects: list[UUID], ring: Ring, typed: None, tmp_path: Path
) -> None:
    run("backup", tmp_path / "ring.backup")
    shown = run("status")
    line = next(line for line in shown.splitlines() if ring.current_id in line)
    assert line.split()[:3] == [ring.current_id, "current", "5"]
    assert ring.current.key.hex() not in shown


def test_status_of_a_stopped_rotation_says_how_to_go_on(
    subjects: list[UUID], typed: None, tmp_path: Path
) -> None:
    rotation.begin(at=timezone.now())
    rotation.step(limit=2)
    run("backup", tmp_path / "ring.backup")
    assert require_refusal("status").startswith("3 wrapped keys")


def test_status_names_the_key_that_a_rotation_replaces(
    subjects: list[UUID], ring: Ring, capsys: pytest.CaptureFixture[str]
) -> None:
    new, _ = rotation.begin(at=timezone.now())
    with pytest.raises(CommandError):
        call_command("keys", "status")
    lines = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert [ring.current_id, "leaving", "5"] in lines
    assert [new, "current", "0"] in lines


def test_backup_and_restore_bring_the_ring_back(
    subjects: list[UUID], ring: Ring, kek_file: Path, typed: None, tmp_path: Path
) -> None:
    saved = tmp_path / "ring.backup"
    run("backup", saved)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert keyring.is_kek_backed_up()
    kek_file.unlink()
    assert ring.current_id in run("restore", saved)
    assert stat.S_IMODE(kek_file.stat().st_mode) == 0o600
    keyring.reset()
    keys.reset()
    assert keyring.prepare(empty=False) == ring
    keys.get_subject_keys(subjects[0], epoch=1)


def test_backup_never_overwrites_a_file(
    ring: Ring, typed: None, tmp_path: Path
) -> None:
    saved = tmp_path / "ring.backup"
    saved.write_bytes(b"precious")
    assert "exists" in require_refusal("backup", saved)
    assert saved.read_bytes() == b"precious"
    assert "can not be written" in require_refusal(
        "backup", tmp_path / "absent" / "ring"
    )
    assert not keyring.is_kek_backed_up()


def test_short_passphrase_makes_no_backup(
    ring: Ring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("short\n"))
    assert require_refusal("backup", tmp_path / "ring.backup").startswith("passphrase:")
    assert not (tmp_path / "ring.backup").exists()
    assert not keyring.is_kek_backed_up()


def test_restore_never_replaces_a_ring(
    ring: Ring, kek_file: Path, typed: None, tmp_path: Path
) -> None:
    saved = tmp_path / "ring.backup"
    run("backup", saved)
    before = kek_file.read_bytes()
    assert "Move it away" in require_refusal("restore", saved)
    assert kek_file.read_bytes() == before


def test_restore_refuses_what_can_not_open_these_keys(
    subjects: list[UUID], ring: Ring, kek_file: Path, typed: None, tmp_path: Path
) -> None:
    saved = tmp_path / "ring.backup"
    run("backup", saved)
    KekCheck.objects.update(sealed=b"s" * 60)
    kek_file.unlink()
    assert require_refusal("restore", saved, returncode=2).startswith("kek_wrong:")
    assert not kek_file.exists()


def test_backup_from_before_a_rotation_is_refused(
    subjects: list[UUID], kek_file: Path, typed: None, tmp_path: Path
) -> None:
    saved = tmp_path / "ring.backup"
    run("backup", saved)
    run("rotate")
    kek_file.unlink()
    assert require_refusal("restore", saved, returncode=2).startswith("kek_unknown:")
    assert not kek_file.exists()


@pytest.mark.parametrize("content", [None, b"something else"])
def test_restore_refuses_what_is_no_backup(
    ring: Ring, kek_file: Path, typed: None, tmp_path: Path, content: bytes | None
) -> None:
    kek_file.unlink()
    if content is not None:
        (tmp_path / "other").write_bytes(content)
    require_refusal("restore", tmp_path / "other")
    assert not kek_file.exists()


def test_keys_can_be_rotated_and_retired(
    subjects: list[UUID], ring: Ring, kek_file: Path, typed: None, tmp_path: Path
) -> None:
    shown = run("rotate")
    assert "Re-wrapped 5 keys." in shown
    assert f"keys retire {ring.current_id}" in shown
    assert require_refusal("retire", ring.current_id).startswith("kek_window:")
    long_ago = timezone.now() - timedelta(days=8)
    KekCheck.objects.filter(kek_id=ring.current_id).update(retired_at=long_ago)
    run("retire", ring.current_id)
    assert ring.current_id not in ring_file.read(kek_file).ids
    run("backup", tmp_path / "ring.backup")
    assert "All is well." in run("status")


def test_rotate_goes_on_where_it_was_stopped(subjects: list[UUID]) -> None:
    kek_id, _ = rotation.begin(at=timezone.now())
    rotation.step(limit=2)
    shown = run("rotate")
    assert f"Going on to key {kek_id}." in shown
    assert "Re-wrapped 3 keys." in shown


@pytest.mark.parametrize("action", ["status", "rotate"])
def test_unusable_ring_is_exit_code_2(action: str, ring: Ring, kek_file: Path) -> None:
    kek_file.chmod(0o644)
    assert require_refusal(action, returncode=2).startswith("kek_mode:")


def test_instance_that_was_never_started_has_no_keys(
    first_start: Path, settings: Settings
) -> None:
    keyring.make_ring(first_start)
    assert not KeyMeta.objects.exists()
    assert "never started" in require_refusal("rotate")


def test_ring_can_be_restored_before_the_databases_are(
    ring: Ring, kek_file: Path, typed: None, tmp_path: Path
) -> None:
    saved = tmp_path / "ring.backup"
    run("backup", saved)
    kek_file.unlink()
    with connections["keys"].cursor() as cursor:
        cursor.execute(f"DROP TABLE {KeyMeta._meta.db_table}")
    run("restore", saved)
    assert ring_file.read(kek_file) == ring


@pytest.mark.parametrize(
    ("action", "taught"),
    [
        (None, "MEMORYHUB_KEK_FILE"),
        ("status", "Exit code 1"),
        ("backup", "worth nothing"),
        ("restore", "move that"),
        ("rotate", "goes on"),
        ("retire", "MEMORYHUB_KEYS_BACKUP_DAYS"),
    ],
)
def test_every_action_explains_itself(
    action: str | None, taught: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = Command().create_parser("manage.py", "keys")
    with pytest.raises(SystemExit) as left:
        parser.parse_args([action, "--help"] if action else ["--help"])
    assert left.value.code == 0
    assert taught in capsys.readouterr().out
