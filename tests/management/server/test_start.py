"""Start-up refusals, in one line and without a secret."""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from ctypes import CDLL
from pathlib import Path

import pytest
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import AddField, AddIndex, CreateModel
from django.db.models import NOT_PROVIDED

from memoryhub.errors import StartRefusedError
from memoryhub.management import start
from tests.harness import forks
from tests.harness.instances import COMMAND_SECONDS, Instance

PUBLIC = ("--host", "0.0.0.0")
SECRET = "p4ssword-" * 12
PASSWORD = "geheim-und-lang"


def require_refusal(instance: Instance, *words: object, **env: str) -> str:
    """Run `serve`, which must exit with 2; return its one line of output."""
    done = instance.manage("serve", "--port", "0", *words, **env)
    return one_line(done.returncode, done.stdout, done.stderr, secrets=env.values())


def one_line(code: int, out: str, errors: str, *, secrets: Iterable[str] = ()) -> str:
    assert code == 2, errors
    lines = errors.strip().splitlines()
    assert len(lines) == 1, errors
    assert out == ""
    for secret in (SECRET, PASSWORD, *secrets):
        assert secret not in lines[0] or len(secret) < 8
    assert not re.search(r"[0-9a-f]{64}", lines[0])
    return lines[0]


def key_ring(instance: Instance) -> Path:
    return instance.data / "kek.json"


def lose_keys(instance: Instance) -> None:
    key_ring(instance).unlink()


def shorten_keys(instance: Instance) -> None:
    key_ring(instance).write_text("{}")


def make_keys_a_folder(instance: Instance) -> None:
    key_ring(instance).unlink()
    key_ring(instance).mkdir()


def show_keys(instance: Instance) -> None:
    key_ring(instance).chmod(0o644)


def change_keys(instance: Instance) -> None:
    """Keep the ids, change the keys."""
    shape = json.loads(key_ring(instance).read_text())
    keys = next(value for value in shape.values() if isinstance(value, dict))
    for name in keys:
        keys[name] = "ab" * 32
    key_ring(instance).write_text(json.dumps(shape))


def take_other_keys(instance: Instance) -> None:
    instance.call("tests.management.damage:take_other_keys")


def block_ledger(instance: Instance) -> None:
    ledger = instance.data / "ledger"
    ledger.rename(instance.data / "elsewhere")
    ledger.write_text("a file where the folder would be")


def show_ledger(instance: Instance) -> None:
    path = instance.data / "ledger" / "erasures.jsonl"
    path.touch()
    path.chmod(0o640)


def drop_trigger(instance: Instance) -> None:
    instance.call("tests.management.damage:drop_trigger", "update", "event")


#: Damages of an instance, by the code of the refusal.
SPOILED: list[tuple[str, Callable[[Instance], None]]] = [
    ("kek_missing", lose_keys),
    ("kek_short", shorten_keys),
    ("kek_not_a_file", make_keys_a_folder),
    ("mode", show_keys),
    ("kek_wrong", change_keys),
    ("keys_mismatch", take_other_keys),
    ("ledger_unwritable", block_ledger),
    ("data_mode", show_ledger),
    ("triggers_missing", drop_trigger),
]
#: Settings that are refused once others can reach the server.
EXPOSED = [
    ("secret_default", {}),
    ("secret_short", {"MEMORYHUB_SECRET_KEY": "short-but-mine"}),
    ("secret_short", {"MEMORYHUB_SECRET_KEY": "abab" * 20}),
    ("debug_public", {"MEMORYHUB_SECRET_KEY": SECRET, "MEMORYHUB_DEBUG": "1"}),
    ("testing_public", {"MEMORYHUB_SECRET_KEY": SECRET, "MEMORYHUB_TESTING": "1"}),
    ("hosts_any", {"MEMORYHUB_SECRET_KEY": SECRET, "MEMORYHUB_HOSTS": "a.b,*"}),
]


def test_create_key_begins_no_hub_in_an_empty_folder(empty: Instance) -> None:
    done = empty.manage("create_key", "acme")
    told = one_line(done.returncode, done.stdout, done.stderr)
    assert "hub_missing" in told
    assert "create_project" in told
    if connections["default"].vendor == "sqlite":
        assert str(empty.data) in told
    assert not list(empty.data.iterdir())
    begun = empty.manage("create_project", "acme")
    assert f"Began a new hub, with its files in {empty.data}." in begun.stderr
    assert empty.managed("create_key", "acme").startswith("mh_")
    assert "Began" not in empty.manage("create_project", "beta").stderr


def test_commands_that_begin_a_hub_at_once_wait_for_each_other(empty: Instance) -> None:
    names = ["acme", "beta", "gamma"]
    begun = [empty.begin("create_project", name) for name in names]
    for process in begun:
        with process:
            out, _ = process.communicate(timeout=COMMAND_SECONDS)
        assert process.returncode == 0, out
    assert empty.managed("create_key", names[-1]).startswith("mh_")


@pytest.mark.parametrize(("code", "spoil"), SPOILED)
def test_each_damaged_instance_is_refused_at_start(
    instance: Instance, code: str, spoil: Callable[[Instance], None]
) -> None:
    spoil(instance)
    assert code in require_refusal(instance)


@pytest.mark.parametrize(("code", "env"), EXPOSED)
def test_each_file_that_others_can_reach_is_refused_at_start(
    empty: Instance, code: str, env: dict[str, str]
) -> None:
    assert code in require_refusal(empty, *PUBLIC, **env)
    assert not list(empty.data.iterdir())


def test_data_folder_that_can_not_be_made_is_one_line(empty: Instance) -> None:
    (file := empty.data / "a-file").touch()
    done = empty.manage("serve", MEMORYHUB_DATA=str(file / "hub"))
    line = one_line(done.returncode, done.stdout, done.stderr)
    assert f"MEMORYHUB_DATA can not be the folder {file / 'hub'} (" in line


@pytest.mark.usefixtures("sqlite")
@pytest.mark.parametrize("pragma", ["journal_mode=DELETE", "synchronous=OFF"])
def test_each_wrong_sqlite_pragma_is_refused_at_start(
    instance: Instance, pragma: str
) -> None:
    with instance.start("tests.management.damage:serve_with", pragma) as serving:
        out, errors = serving.communicate(timeout=COMMAND_SECONDS)
    line = one_line(serving.returncode, out, errors)
    assert "sqlite_pragma" in line
    assert pragma.partition("=")[0] in line


def test_port_in_use_is_named(empty: Instance) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = require_refusal(empty, "--port", port)
    assert "port_taken" in line
    assert str(port) in line


@pytest.mark.usefixtures("sqlite")
def test_unreadable_sqlite_file_is_one_line_with_its_folder(empty: Instance) -> None:
    (empty.data / "memoryhub.sqlite3").mkdir()
    line = require_refusal(empty)
    assert f"may you write to {empty.data}" in line


@pytest.mark.parametrize("name", ["DATABASE_URL", "KEYS_DATABASE_URL"])
def test_unreachable_database_is_one_line_without_its_password(
    empty: Instance, name: str
) -> None:
    url = f"postgresql://ann:{PASSWORD}@127.0.0.1:1/nothing"
    assert "database_away" in require_refusal(empty, **{name: url})


@pytest.mark.parametrize(
    "name",
    [
        "DATABASE_URL",
        "MEMORYHUB_READERS",
        "MEMORYHUB_SQLITE_SYNCHRONOUS",
        "MEMORYHUB_PRICES",
    ],
)
def test_bad_setting_is_refused_by_name(empty: Instance, name: str) -> None:
    line = require_refusal(empty, **{name: "seven-hundred"})
    assert name in line
    assert "seven-hundred" not in line


def test_misspelt_setting_is_named_beside_the_one_it_may_mean(empty: Instance) -> None:
    told = empty.manage("check", MEMORYHUB_RAEDERS="4", MEMORYHUB_KEY="x").stderr
    assert "Nothing reads MEMORYHUB_RAEDERS; is it MEMORYHUB_READERS?" in told
    assert "MEMORYHUB_KEY" not in told


@pytest.mark.parametrize("alias", ["default", "keys"])
def test_newer_schema_is_refused(instance: Instance, alias: str) -> None:
    for name in ("9998_add_later", "9999_later"):
        instance.call("tests.management.damage:migrate_beyond", alias, name)
    line = require_refusal(instance)
    assert "schema_newer" in line
    assert "9999_later" in line


def test_newer_schema_that_only_adds_is_served(instance: Instance) -> None:
    for alias in ("default", "keys"):
        instance.call("tests.management.damage:migrate_beyond", alias, "9999_add_later")
    with instance.serve():
        pass


def test_migration_is_named_add_only_if_it_only_adds() -> None:
    migrations = MigrationLoader(None).disk_migrations
    assert migrations
    for (app, name), migration in migrations.items():
        if app == "memoryhub" and start.ADDING.match(name):
            assert all(map(is_adding, migration.operations)), name


def is_adding(operation: object) -> bool:
    """Tell whether a server that doesn't know the operation can read and write."""
    if isinstance(operation, AddField):
        field = operation.field
        return bool(field.null) or field.db_default is not NOT_PROVIDED
    return isinstance(operation, (AddIndex, CreateModel))


@pytest.mark.parametrize("alias", ["default", "keys"])
def test_data_of_an_older_format_is_refused(instance: Instance, alias: str) -> None:
    instance.call("tests.management.damage:migrate_before", alias)
    line = require_refusal(instance)
    assert f"format_old: the database {alias} is older" in line
    for words in (("verify", "--all"), ("rebuild",), ("audit", "verify")):
        done = instance.manage(*words)
        assert line.endswith(
            one_line(done.returncode, done.stdout, done.stderr).partition(": ")[2]
        )
    assert "begin with a new folder" in line
    done = instance.manage("migrate", "--database", alias)
    assert done.returncode == 1
    assert line.partition(": ")[2] in done.stderr


@pytest.mark.parametrize("alias", ["default", "keys"])
def test_ledger_behind_the_databases_is_refused(instance: Instance, alias: str) -> None:
    instance.call("tests.management.damage:apply_a_line", alias)
    kept = instance.data / "ledger" / "erasures.jsonl"
    whole = kept.read_bytes()
    kept.unlink()
    assert "ledger_behind" in require_refusal(instance)
    kept.write_bytes(b"")
    kept.chmod(0o600)
    assert "ledger_behind" in require_refusal(instance)
    kept.write_bytes(whole.replace(b'"n":1', b'"n":2'))
    assert "ledger_broken" in require_refusal(instance)


def test_ledger_is_looked_for_in_its_configured_folder(
    instance: Instance, tmp_path: Path
) -> None:
    instance.call("tests.management.damage:apply_a_line", "keys")
    elsewhere = {"MEMORYHUB_LEDGER": str(tmp_path / "elsewhere")}
    done = instance.manage("serve", "--port", "0", **elsewhere)
    assert done.returncode == 2
    assert "ledger_behind" in done.stderr


@pytest.mark.parametrize(
    "name", ["memoryhub.sqlite3", "keys.sqlite3", "ledger/erasures.jsonl"]
)
def test_data_that_others_may_read_is_refused(instance: Instance, name: str) -> None:
    path = instance.data / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    path.chmod(0o640)
    line = require_refusal(instance)
    assert "data_mode" in line
    assert name in line
    assert "0640" in line


@pytest.mark.parametrize("mode", [0o777, 0o730, 0o722])
@pytest.mark.parametrize("name", [".", "ledger"])
def test_folder_that_others_may_write_to_is_refused(
    instance: Instance, name: str, mode: int
) -> None:
    folder = instance.data / name
    folder.mkdir(exist_ok=True)
    folder.chmod(mode)
    line = require_refusal(instance)
    assert "data_mode" in line
    assert f"{mode:04o}" in line


def test_worker_refuses_to_start_as_the_server_does(instance: Instance) -> None:
    (instance.data / "kek.json").unlink()
    done = instance.manage("worker")
    assert done.returncode == 2
    assert "kek_missing" in done.stderr


def test_files_of_a_first_start_are_private_to_the_user(instance: Instance) -> None:
    made = [instance.data, *instance.data.rglob("*")]
    assert {"kek.json", "public-keys.json"} < {path.name for path in made}
    for path in made:
        right = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == right, path


@pytest.fixture
def hung_up(transactional_db: None) -> Iterator[None]:
    """Close the connections afterwards, so that the next test opens fresh ones."""
    assert connections["default"].vendor == "sqlite"
    yield
    connections.close_all()


@pytest.mark.usefixtures("sqlite", "hung_up")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("alias", ["default", "keys"])
@pytest.mark.parametrize(
    "pragma",
    ["synchronous=OFF", "secure_delete=OFF", "secure_delete=FAST", "foreign_keys=OFF"],
)
def test_sqlite_pragma_that_does_not_hold_is_refused(alias: str, pragma: str) -> None:
    start.refuse_sqlite(alias)
    with connections[alias].cursor() as cursor:
        cursor.execute(f"PRAGMA {pragma}")
    with pytest.raises(StartRefusedError) as refusal:
        start.refuse_sqlite(alias)
    assert "sqlite_pragma" in refusal.value.reason
    assert pragma.partition("=")[0] in refusal.value.reason


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.7", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_loopback_hosts_are_recognised(host: str, private: bool) -> None:
    assert start.is_loopback(host) is private


# Words of commands beside what they print


@pytest.mark.usefixtures("sqlite")
def test_command_says_that_it_waits_for_another_to_start(instance: Instance) -> None:
    folder = os.open(instance.data, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with instance.begin("create_project", "p") as process:
        assert process.stdout is not None
        assert "Another MemoryHub command starts" in process.stdout.readline()
        os.close(folder)
        assert process.wait(COMMAND_SECONDS) == 0


def test_help_makes_no_data_folder(tmp_path: Path, instance: Instance) -> None:
    folder = tmp_path / "none"
    for words in (["--help"], ["help"], [], ["serve", "--help"]):
        # A fork has read its settings before it has words.
        env = {"MEMORYHUB_DATA": str(folder), forks.COLD: "1"}
        assert instance.managed(*words, **env)
        assert not folder.exists()


def test_command_ends_quietly_when_its_reader_has_gone(instance: Instance) -> None:
    with instance.begin("verify", "--all") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(COMMAND_SECONDS) == 1


_THREADS_THAT_ALLOCATE = """
import ctypes, sys, threading
from memoryhub.management import command_line
sys.argv[1:] = ["version"]
command_line.main()
libc = ctypes.CDLL(None)
both = threading.Barrier(8)
def take():
    both.wait()
    libc.malloc(100_000)
    both.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(not hasattr(CDLL(None), "malloc_info"), reason="not glibc")
def test_threads_of_a_command_share_two_pools_of_memory() -> None:
    code = [sys.executable, "-c", _THREADS_THAT_ALLOCATE]
    printed = subprocess.run(code, check=True, capture_output=True, text=True).stdout
    assert 1 <= printed.count("<heap nr=") <= 2
