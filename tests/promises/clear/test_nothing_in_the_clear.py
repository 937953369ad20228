"""Bytes at rest: no content and nobody's id stands there in the clear.

Nothing is erased yet, so this holds for a stolen disk or backup as well. Names, which
are lawful, are searched too: a scan that misses them proves nothing.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import orjson
import psycopg
import pytest
from psycopg import sql

from memoryhub.kernel.memory.keys import Expiry
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.services.memory import operator_memory
from tests.cast import sample
from tests.harness.instances import UNLIMITED, Instance
from tests.promises.clear.planting import Canaries, Planter, told
from tests.promises.clear.scanner import Hit, Scanner, build_planted_forms
from tests.promises.journal.clients import Client, build_slot

PLACE = "tests.promises.clear.test_nothing_in_the_clear"
KNOWN = "mia.li3818@example.com"
#: Each with a subject and canaries of its own.
THREADS = 8


# Writing


def write_everything(instance: Instance, canaries: Canaries, key: str) -> list[str]:
    """Use every way in, and every way to be refused; return the refusals' texts."""
    with instance.serve(**UNLIMITED) as server:
        with Client(server.port, key) as client:
            for _ in range(THREADS):
                planter = Planter(client, canaries, canaries.plant_text("user_id"))
                assert planter.everything()
            answers = [*send_refused(client, canaries)]
            thread, typed = canaries.get_name("thread"), canaries.plant_text("operator")
            instance.call(f"{PLACE}:operate", thread, typed)
        # Killed, so that the write-ahead log is still there to be looked at.
        server.kill()
    return answers


def operate(name: str, text: str) -> None:
    """Type a value and keep a checkpoint as an operator. Runs in the instance."""
    thread = Thread.objects.select_related("subject", "project").get(name=name)
    key = Key.objects.filter(thread=thread).latest("value_seq")
    actor, value = f"operator:{uuid4()}", orjson.dumps({"typed": text})
    version = key.version
    operator_memory.set_key(
        thread, key.key, value, Expiry(), version=version, actor=actor
    )
    operator_memory.take_checkpoint(thread, name="operators-point", actor=actor)


def send_refused(client: Client, canaries: Canaries) -> Iterator[str]:
    new, thread = canaries.plant_text, canaries.get_name("thread")
    yield from told(
        client.append(canaries.get_name("fork"), canaries.plant_value("closed thread")),
        client.post(f"/threads/{thread}/slots", build_slot(1, type=new("a bad type"))),
        client.post(f"/threads/{thread}/slots", new("no object")),
        client.append(thread, new("bad precondition"), If_Match=new("match")),
        client.put(f"/threads/{thread}", {"user_id": new("another subject")}),
        client.put(f"/threads/{thread}/keys/a", {"value": 1, new("a field"): 2}),
        client.post("/subjects:resolve", {"user_id": new("resolved")}),
        client.get(f"/threads?user_id={new('in a query')}"),
        client.get(f"/threads?after={new('a cursor')}"),
        client.get(f"/{new('an unknown path')}"),
        wanted={400, 404, 409, 412, 422},
    )


def import_everything(instance: Instance, canaries: Canaries, folder: Path) -> str:
    """Import the sample and a partly bad file of our own; return the output."""
    lines = [
        {"role": "user", "content": canaries.plant_value("import")},
        {"role": "user", "content": canaries.plant_text("import", beyond_ascii=True)},
        {
            "role": canaries.plant_text("a bad role"),
            "content": canaries.plant_text("bad line"),
        },
    ]
    chat = folder / "chat.jsonl"
    chat.write_text("\n".join(map(json.dumps, lines)))
    mine = ["--source", "mine", "--user-id", "--skip-bad"]
    outcomes = [
        instance.manage("import", sample.require_path(), "--project", "acme"),
        instance.manage(
            *("import", chat, "--format", "chat", "--project", "acme", *mine),
            stdin=canaries.plant_text("user_id of an import") + "\n",
        ),
    ]
    assert outcomes[0].returncode == 0, outcomes[0].stderr
    assert outcomes[1].returncode == 3, outcomes[1].stderr
    return "".join(done.stdout + done.stderr for done in outcomes)


def user_ids() -> set[str]:
    runs = json.loads(sample.require_path().read_text(encoding="utf-8"))
    return {run["info"]["task"]["user_id"] for run in runs}


# Places


def wal_file(instance: Instance) -> str:
    """Return the current file of PostgreSQL's write-ahead log; none on SQLite."""
    if not instance.urls:
        return ""
    with psycopg.connect(instance.urls[0]) as database:
        asked = "SELECT pg_walfile_name(pg_current_wal_lsn())"
        (name,) = database.execute(asked).fetchone() or ("",)
    return str(name)


def stores(instance: Instance, folder: Path, *, since: str) -> list[Path]:
    """Return folders with every byte that the instance has written, its log included.

    `since` is the `wal_file` of the test's begin: many tests share the server.
    """
    logs = folder / "logs"
    logs.mkdir()
    shutil.copy(instance.log, logs)
    dumps = folder / "dumps"
    dumps.mkdir()
    if instance.urls:
        files = list(postgres_files(instance, dumps))
        copy_wal(instance, dumps, since=since)
        return [instance.data, logs, dumps, *files]
    for path in instance.data.glob("*.sqlite3"):
        # A page's end may cut a text in two; a dump has it whole.
        copied = folder / path.name
        shutil.copy(path, copied)
        with closing(sqlite3.connect(copied)) as database:
            dump = "\n".join(database.iterdump())
        (dumps / path.name).write_text(dump, encoding="utf-8")
    return [instance.data, logs, dumps]


def postgres_files(instance: Instance, dumps: Path) -> Iterator[Path]:
    """Copy dumps of all tables, and the databases' own files where readable."""
    for url in instance.urls:
        with psycopg.connect(url, autocommit=True) as database:
            for (table,) in database.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall():
                copy = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))
                with database.cursor().copy(copy) as rows:
                    text = b"".join(bytes(row) for row in rows)
                (dumps / f"{table}.{len(list(dumps.iterdir()))}").write_bytes(text)
            database.execute("CHECKPOINT")
            folder, oid = database.execute(
                "SELECT current_setting('data_directory'), oid::text "
                "FROM pg_database WHERE datname = current_database()"
            ).fetchone() or ("", "")
        if Path(folder, "base", oid).is_dir():
            yield Path(folder, "base", oid)


def copy_wal(instance: Instance, dumps: Path, *, since: str) -> None:
    """Copy the write-ahead log from that file on, where readable."""
    with psycopg.connect(instance.urls[0]) as database:
        asked = "SELECT current_setting('data_directory')"
        (folder,) = database.execute(asked).fetchone() or ("",)
    names = [path.name for path in Path(folder, "pg_wal").glob("[0-9A-F]" * 24)]
    assert since in names or not names, "it was thrown away: set wal_keep_size"
    last = wal_file(instance)
    for name in names:
        # Those beyond the last are old ones that wait for their turn.
        if since <= name <= last:
            shutil.copy(Path(folder, "pg_wal", name), dumps)


def scan(needles: set[str], folders: list[Path]) -> set[Hit]:
    return set(Scanner(needles).files(*folders))


# The tests


@pytest.mark.promise("sealed", load="texts planted in every dress", control=True)
def test_scan_finds_a_planted_text_in_every_encoding(tmp_path: Path) -> None:
    """The file is as large and as random as sealed bytes are."""
    chance = random.Random(7)  # a seed repeats it
    for text in ("mia.li3818@example.com", "user_12345", 'cnryж漢\U0001f600\n\\"x'):
        for dress, forms in build_planted_forms(text).items():
            for number, form in enumerate(forms):
                place = chance.randrange(50_000)
                noise = chance.randbytes(60_000)
                data = noise[:place] + form + noise[place:]
                hits = {hit.needle for hit in Scanner([text]).iter_hits(data, place="")}
                assert hits == {text}, (dress, number)
                clean = {
                    hit.needle for hit in Scanner([text]).iter_hits(noise, place="")
                }
                assert clean == set()


@pytest.mark.promise("sealed", load="every file, log and answer")
@pytest.mark.timeout(400)  # every file, in every dress, for every person
def test_stores_hold_nothing_in_the_clear(
    instance: Instance, key: str, tmp_path: Path
) -> None:
    canaries, ids, began = Canaries(), user_ids(), wal_file(instance)
    assert len(ids) == sample.SUBJECTS
    bound = instance.manage(
        "create_key",
        "acme",
        "--user-id",
        stdin=canaries.plant_text("user_id of a key") + "\n",
    )
    assert bound.returncode == 0
    printed = import_everything(instance, canaries, tmp_path)
    printed += "".join(write_everything(instance, canaries, key))
    folders = stores(instance, tmp_path, since=began)

    secret = {KNOWN, *ids, *canaries.texts}
    secret |= {key.rsplit("_", maxsplit=1)[-1], bound.stdout.strip().split("_")[-1]}
    assert len(canaries.planted) >= 500
    assert scan(secret, folders) == set()
    # What we answer to a refusal, or print, quotes nothing either.
    assert set(Scanner(secret).iter_hits(printed.encode(), place="output")) == set()

    # The same scan of the same bytes finds what is there: names, each of them.
    lawful = {*canaries.lawful, "operators-point", "chat.assistant"}
    assert {hit.needle for hit in scan(lawful, folders)} == lawful
    assert_found_once_planted(secret, folders[0], tmp_path / "copy")


def assert_found_once_planted(secret: set[str], data: Path, copy: Path) -> None:
    """Assert that each text, put into a copy in each encoding, is found there."""
    chance = random.Random(11)  # a seed repeats it
    files = sorted(path for path in data.rglob("*") if path.is_file())
    largest = max(files, key=lambda path: path.stat().st_size).read_bytes()[:300_000]
    for dress in build_planted_forms("any text"):
        forms = [build_planted_forms(text)[dress][0] for text in sorted(secret)]
        places = sorted(chance.choices(range(len(largest)), k=len(forms)))
        parts = [
            largest[start:end] + form
            for form, start, end in zip(forms, [0, *places], places, strict=False)
        ]
        copy.mkdir(exist_ok=True)
        (copy / "planted").write_bytes(b"".join(parts))
        assert {hit.needle for hit in scan(secret, [copy])} == secret, dress
