"""P13: after the receipt no store holds a byte of the subject's.

The memory is written by every way in, forgotten over the API, and searched from
outside: by a scanner of the tests' own, in files that a killed server left. The twin
is still there.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.harness import parts
from tests.harness.instances import UNLIMITED, Instance
from tests.promises.clear.planting import Canaries, Planter
from tests.promises.clear.scanner import Scanner
from tests.promises.clear.test_nothing_in_the_clear import stores, wal_file
from tests.promises.journal.clients import Client

PLACE = "tests.promises.forget.forgetters"
#: Of one subject, each with all that a thread can have.
THREADS = 8
#: Of one thread more, in batches.
SLOTS = 1_200
COMPLETE_SECONDS = 90
#: Rows that these threads have not: tests/workers/test_cold.py tries their erasure.
ELSEWHERE = {"cold_objects"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Person whose memory was written, with all answers about it before the erasure."""

    id: str
    canaries: Canaries
    rows: dict[str, int]
    #: Random bytes of sealed content and of wrapped keys, in hex.
    nonces: frozenset[str]
    keys: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """Server with a key for memory and one to forget by."""

    instance: Instance
    client: Client
    forgetting: Client

    def person(self, *, threads: int) -> Person:
        canaries = Canaries()
        user_id = canaries.plant_text("user_id")
        planter = Planter(self.client, canaries, user_id)
        for _ in range(threads):
            assert planter.everything()
        assert list(planter.known(canaries.get_name("thread")))
        # So much that its state is kept beside it, and its terms.
        assert list(planter.more(canaries.get_name("thread"), count=SLOTS))
        asked = self.client.post("/subjects:resolve", {"user_id": user_id})
        assert asked.status == 200, asked
        told = self.show_subject(asked.body["id"])
        deadline = time.monotonic() + COMPLETE_SECONDS
        # The server notes these once in a few seconds.
        late = ("daily_uses", "refusal_counts", "thread_terms")
        while not all(told["rows"][each] for each in late):
            assert time.monotonic() < deadline
            told = self.show_subject(asked.body["id"])
        return Person(
            id=asked.body["id"],
            canaries=canaries,
            rows=told["rows"],
            nonces=frozenset(told["nonces"]),
            keys=frozenset(told["keys"]),
        )

    def show_subject(self, subject: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.instance.call(f"{PLACE}:show", subject))
        return told

    def forget(self, subject: str, **asked: object) -> dict[str, Any]:
        """Plan, confirm, and wait for the receipt; return the receipt."""
        plan = self.forgetting.post(
            f"/subjects/{subject}/erasures", {"reason": "test", **asked}
        )
        assert plan.status == 201, plan
        at = f"/erasures/{plan.body['id']}"
        confirming = {
            "plan_token": plan.body["plan_token"],
            "count": plan.body["count"],
        }
        done = self.forgetting.post(f"{at}:confirm", confirming)
        assert done.status == 202, done
        deadline = time.monotonic() + COMPLETE_SECONDS
        while (state := self.forgetting.get(at)).body["state"] != "complete":
            assert time.monotonic() < deadline, state.body
        receipt = self.forgetting.get(f"{at}/receipt")
        assert receipt.status == 200, receipt
        return dict(receipt.body)


@contextmanager
def hub(instance: Instance) -> Iterator[Hub]:
    """Run a server that is killed at the end, so that all of its files remain."""
    keys = instance.call(f"{PLACE}:get_keys").split()
    with instance.serve(**UNLIMITED) as server:
        with Client(server.port, keys[0]) as client, Client(server.port, keys[1]) as f:
            yield Hub(instance=instance, client=client, forgetting=f)
        server.kill()


# What is read and looked for


def told_of(it: Hub, canaries: Canaries) -> list[Any]:
    """Return what agents are told of a person's first thread, except changing times."""
    at = f"/threads/{canaries.get_name('thread')}"
    paths = ("/slots", "/task", "/notes", "/checkpoints", "/turns")
    answers = [it.client.get(f"{at}{path}") for path in paths]
    assert {answer.status for answer in answers} == {200}
    return [answer.body for answer in answers]


def files_of(instance: Instance, folder: Path, *, since: str) -> list[Path]:
    """Return every store's files: data, dumps, logs, PostgreSQL's own, Redis."""
    folder.mkdir()
    folders = stores(instance, folder, since=since)
    if url := instance.env.get("REDIS_URL"):
        with Redis.from_url(url) as redis:
            dumped = [redis.dump(key) or b"" for key in redis.scan_iter()]
            keys = list(redis.scan_iter())
        (folder / "dumps" / "redis").write_bytes(b"\0".join([*keys, *dumped]))
    return sorted(
        path for each in folders for path in each.rglob("*") if path.is_file()
    )


def declared(path: Path) -> bool:
    """Return PostgreSQL's free space and log, which lawfully hold sealed bytes."""
    return bool(re.fullmatch(r"[0-9A-F]{24}|\d+(\.\d+|_\w+)?", path.name))


def bytes_of(path: Path) -> bytes:
    """Read a file; return b"" once PostgreSQL has dropped its list of relations."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        if path.name != "pg_internal.init":
            raise
        return b""


def in_clear(texts: set[str], files: list[Path]) -> set[tuple[str, str]]:
    scanner = Scanner(texts)
    return {
        (hit.needle, hit.place)
        for path in files
        for hit in scanner.iter_hits(bytes_of(path), place=path.name)
    }


def random_in(needles: frozenset[str], files: list[Path]) -> set[str]:
    """Return the random needles that occur in the files, as bytes or in hex digits."""
    found: set[str] = set()
    for path in files:
        data = bytes_of(path)
        digits = data.lower()
        found |= {
            each
            for each in needles
            if bytes.fromhex(each) in data or each.encode() in digits
        }
    return found


# The whole of a subject


@contextmanager
def copied_memory(instance: Instance, folder: Path) -> Iterator[Instance]:
    """Copy the instance with its present memory and its future keys."""
    data = folder / "data"
    copy = dict(instance.env) | {"MEMORYHUB_DATA": str(data)}
    url = f"{instance.urls[0]}_before" if instance.urls else ""
    data.mkdir(parents=True)
    if url:
        parts.copy(instance.urls[0], url)
        copy["DATABASE_URL"] = url
    else:
        source = instance.data / "memoryhub.sqlite3"
        target = sqlite3.connect(data / source.name)
        with closing(sqlite3.connect(source)) as old, closing(target) as new:
            old.backup(new)
    try:
        yield replace(instance, env=copy)
    finally:
        if url:
            parts.drop(url)


def give_keys(instance: Instance, copy: Instance) -> None:
    """Give the copy the present keys, ring and ledger."""
    shutil.copy(instance.data / "kek.json", copy.data)
    if not instance.urls:
        shutil.copy(instance.data / "keys.sqlite3", copy.data)


@pytest.mark.promise("P13", load="every byte of all stores")
@pytest.mark.timeout(590)
def test_forget_is_complete(instance: Instance, tmp_path: Path) -> None:
    began = wal_file(instance)
    with hub(instance) as it:
        ann, bob = it.person(threads=THREADS), it.person(threads=1)
        theirs = told_of(it, bob.canaries)
    assert len(ann.canaries.planted) >= 500
    # Else nobody would know whether what stands there goes.
    empty = {place for place, count in ann.rows.items() if not count}
    assert empty == ELSEWHERE
    with copied_memory(instance, tmp_path / "before") as before:
        with hub(instance) as it:
            receipt = it.forget(ann.id, scope="subject")
            assert told_of(it, bob.canaries) == theirs
            left = it.show_subject(ann.id)
        give_keys(instance, before)
        opened = json.loads(before.call(f"{PLACE}:open_all", ann.id))
        twin = json.loads(before.call(f"{PLACE}:open_all", bob.id))
    assert left == {"rows": dict.fromkeys(ann.rows, 0), "nonces": [], "keys": []}
    # A copy from before still has every sealed byte, and none of them opens.
    assert sum(opened.values()) == len(ann.nonces) - 1
    assert "opened" not in opened
    assert twin == {"opened": len(bob.nonces) - 1}

    files = files_of(instance, tmp_path / "stores", since=began)
    assert in_clear(ann.canaries.texts | bob.canaries.texts, files) == set()
    strict = [path for path in files if not declared(path)]
    assert in_clear(ann.canaries.lawful, strict) == set()
    assert random_in(ann.nonces | ann.keys, strict) == set()
    # The same look finds the twin.
    assert {text for text, _ in in_clear(bob.canaries.lawful, strict)} == (
        bob.canaries.lawful
    )
    assert random_in(bob.nonces | bob.keys, strict) == bob.nonces | bob.keys
    words = {residue["what"] for residue in receipt["residue"]}
    assert ({"database_free_space", "wal"} <= words) is bool(instance.urls)
    # Of keys the log alone may tell.
    beside = [path for path in files if path.name.isdigit() and len(path.name) < 24]
    assert [path for path in beside if random_in(ann.keys, [path])] == []
    assert_proved(instance, receipt, ann)


def assert_proved(instance: Instance, receipt: dict[str, Any], ann: Person) -> None:
    """Assert that the receipt is true and that everything else still verifies."""
    assert receipt["erased"]["events"]["count"] == ann.rows["events"]
    assert receipt["verification"]["undeclared"] == 0
    assert receipt["verification"]["self_test"] == "passed"
    told = json.dumps(receipt)
    texts = ann.canaries.texts | ann.canaries.lawful | ann.nonces | ann.keys
    assert not any(text in told for text in texts)
    instance.managed("verify", "--all")
    instance.managed("scan")


# One thread of a subject who stays


@pytest.mark.promise("P13", load="one thread of two")
@pytest.mark.timeout(400)
def test_erased_thread_leaves_no_trace(instance: Instance, tmp_path: Path) -> None:
    began = wal_file(instance)
    with hub(instance) as it:
        gone, stays = Canaries(), Canaries()
        user_id = gone.plant_text("user_id")
        for canaries in (gone, stays):
            assert Planter(it.client, canaries, user_id).everything()
        asked = it.client.post("/subjects:resolve", {"user_id": user_id})
        # The fork first: what a fork reads through it can't go before it does.
        threads = [gone.get_name("fork"), gone.get_name("thread")]
        nonces = [
            frozenset(json.loads(instance.call(f"{PLACE}:show_thread", name)))
            for name in (*threads, stays.get_name("thread"))
        ]
        before = told_of(it, stays)
        for name in threads:
            it.forget(asked.body["id"], scope="thread", thread=name)
            assert it.client.get(f"/threads/{name}").status == 410
        assert told_of(it, stays) == before
    files = files_of(instance, tmp_path / "stores", since=began)
    strict = [path for path in files if not declared(path)]
    assert in_clear(gone.texts | stays.texts, files) == set()
    assert in_clear(gone.lawful, strict) == set()
    assert random_in(nonces[0] | nonces[1], strict) == set()
    assert {text for text, _ in in_clear(stays.lawful, strict)} == stays.lawful
    assert random_in(nonces[2], strict) == nonces[2]
    instance.managed("verify", "--all")
