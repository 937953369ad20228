"""Deletion of a project: complete whatever happens meanwhile, and permanent."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock
from typing import Any

import pytest

from tests.harness.backups import Backups, backups
from tests.harness.instances import UNLIMITED, Instance
from tests.promises.journal.clients import Answer, Client
from tests.promises.journal.late_writers import LATE, Gate, beside

pytestmark = pytest.mark.slow

HERE = "tests.promises.forget.deleting"
NIGHT_SECONDS = 1_800
#: Acknowledged writes before somebody deletes the project.
ENOUGH = 40
#: Seconds of each writer between two people: all of them have to be erased.
PAUSE = 0.2
#: Remains of a deleted project, and its proof.
DELETED: dict[str, Any] = {
    "state": "deleted",
    "subjects": {"erased": 2},
    "threads": {"erased": 2},
    "named": 0,
    "left": 0,
    "erasures": {"complete": 2},
    "receipts": 2,
    "keys": 0,
    "proofs": 1,
    "ledger": ["intent", "done"],
    "audit": ["project.deletion_begun", "project.deleted"],
}


@pytest.mark.promise("P14", load="a project deleted, a kill at 1 of {every} commits")
@pytest.mark.parametrize(
    "every",
    [pytest.param(31, id="some"), pytest.param(1, marks=pytest.mark.nightly)],
)
@pytest.mark.timeout(NIGHT_SECONDS)
def test_project_deletion_killed_at_any_commit_completes(
    instance: Instance, every: int
) -> None:
    with instance.start(f"{HERE}:kill_everywhere", every) as process:
        out, errors = process.communicate(timeout=NIGHT_SECONDS)
    assert process.returncode == 0, errors
    found = json.loads(out.splitlines()[-1])
    told, ends = found["told"], found["ends"]
    killed = [slug for slug in told if ends.get(slug) == -signal.SIGKILL]
    # The first one of an instance makes its signing key, so it commits more often.
    assert len(killed) >= len(told) - 3 >= 2
    for slug, one in told.items():
        assert ends.get(f"{slug}-again", 0) == 0, (slug, errors)
        assert one == DELETED, slug
    assert "every chain is whole" in instance.managed("verify", "--all")


@dataclass(slots=True, kw_only=True)
class Deletion:
    """Project that another process deletes while its writers write."""

    instance: Instance
    port: int
    slug: str
    #: A key that writes to it.
    key: str
    #: Acknowledged before, and what was though it was sent once the other had begun.
    written: int = 0
    late: list[Answer] = field(default_factory=list)
    #: Statuses of requests sent afterwards.
    answers: set[int] = field(default_factory=set)
    _begun: Event = field(default_factory=Event)
    _enough: Event = field(default_factory=Event)
    _noted: Lock = field(default_factory=Lock)

    def run(self, writers: int) -> None:
        beside(self._write, writers, self._delete, gate=Gate(), fenced=self._begun)

    def _write(self, number: int) -> None:
        with Client(self.port, self.key) as client:
            n = 0
            while not self._begun.wait(PAUSE):
                self._take_turn(client, f"{number}-{n}")
                n += 1
            for n in range(LATE):
                self._take_turn(client, f"late-{number}-{n}")

    def _take_turn(self, client: Client, mark: str) -> None:
        """Write to somebody new, and to the records about nobody."""
        thread = {"user_id": f"{self.slug}-{mark}"}
        self._note(partial(client.put, f"/threads/{self.slug}-{mark}", thread))
        for name in (f"{self.slug}-{mark}", f"{self.slug}-nobody"):
            self._note(partial(client.append, name, "Seat 12A, please."))

    def _note(self, send: Callable[[], Answer]) -> None:
        begun = self._begun.is_set()
        answer = send()
        with self._noted:
            self.written += answer.status in (200, 201)
            if begun:
                self.answers.add(answer.status)
                self.late += [answer] if answer.status in (200, 201) else []
            if self.written >= ENOUGH:
                self._enough.set()

    def _delete(self) -> str:
        assert self._enough.wait(timeout=60)
        words = ("--confirm", self.slug, "--reason", "not_needed")
        return self.instance.managed("delete_project", self.slug, *words)


@pytest.mark.promise("P14", load="{rounds} projects deleted × {writers} writers")
@pytest.mark.parametrize(
    ("rounds", "writers"),
    [
        pytest.param(1, 6, id="one"),
        pytest.param(30, 8, id="many", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(NIGHT_SECONDS)
def test_deleted_project_accepts_no_write(
    instance: Instance, rounds: int, writers: int
) -> None:
    """Another process deletes the project than the one that is written to."""
    races = []
    with instance.serve(**UNLIMITED) as server:
        for n in range(rounds):
            slug = f"acme-{n}"
            told = instance.call("tests.promises.forget.erasing:make_keys", slug)
            race = Deletion(
                instance=instance, port=server.port, slug=slug, key=json.loads(told)[0]
            )
            race.run(writers)
            assert race.late == []
            # Its keys have ended with it, which a process may learn a second later:
            # until then the fence refuses. Who tries on with one has to wait.
            assert race.answers <= {401, 410, 429}
            races.append(race)
        for race in races:
            again = ("--confirm", race.slug, "--reason", "not_needed", "--wait")
            instance.managed("delete_project", race.slug, *again)
            left = json.loads(instance.call(f"{HERE}:tell", race.slug).splitlines()[-1])
            assert left["subjects"].keys() == {"erased"}
            people = left["subjects"]["erased"]
            assert left == DELETED | {
                "subjects": {"erased": people},
                "threads": left["threads"],
                "erasures": {"complete": people},
                "receipts": people,
            }
            assert left["threads"].keys() == {"erased"}
    verified = instance.awaited("verify", "--all", seconds=NIGHT_SECONDS)
    assert "every chain is whole" in verified


@pytest.fixture
def kept(instance: Instance) -> Iterator[Backups]:
    with backups(instance) as made:
        yield made


def left(instance: Instance) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        instance.call(f"{HERE}:tell", "acme").splitlines()[-1]
    )
    return found


@pytest.mark.promise("P14", load="a project deleted, then an older backup restored")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("restored", [["memory", "keys"], ["memory"], ["keys"]])
def test_deleted_project_stays_deleted_after_a_restored_backup(
    instance: Instance, kept: Backups, restored: list[str]
) -> None:
    """With a backup of one or both, the project is held back and deleted again."""
    instance.call(f"{HERE}:remember", "acme")
    instance.call(f"{HERE}:remember", "twin")
    kept.take(*restored)
    asked = ("--confirm=acme", "--reason=test", "--wait")
    instance.managed("delete_project", "acme", *asked)
    assert left(instance) == DELETED
    kept.restore(*restored)
    assert left(instance) != DELETED

    refused = instance.manage("worker", "--once")
    assert refused.returncode == 1
    assert "erasures_to_replay" in refused.stderr
    said = instance.managed("forget", "--replay")
    assert "The project acme was deleted" in said
    again = left(instance)
    if restored == ["keys"]:
        # The memory still tells of the first time, too.
        assert again["audit"][-1] == "project.deleted"
        again["audit"] = DELETED["audit"]
    assert again == DELETED
    # Said twice it finds nothing more to do.
    instance.managed("forget", "--replay")
    instance.managed("anchor", "--anew")
    assert "every chain is whole" in instance.managed("verify", "--all")
    instance.call("tests.promises.forget.deleting:remember", "later")


@pytest.mark.timeout(240)
def test_backup_of_both_databases_opens_with_no_key_of_now(
    instance: Instance, kept: Backups
) -> None:
    """The memory is that of before, and the keys those of after: nobody can read it."""
    instance.call(f"{HERE}:remember", "acme")
    kept.take("memory", "keys")
    instance.managed(
        "delete_project", "acme", "--confirm=acme", "--reason=test", "--wait"
    )
    kept.restore("memory")
    told = json.loads(instance.call(f"{HERE}:try_to_read", "acme").splitlines()[-1])
    assert told == {"opened": 0, "closed": 2, "found": "project_deleted"}
    kept.restore("keys")
    told = json.loads(instance.call(f"{HERE}:try_to_read", "acme").splitlines()[-1])
    assert told == {"opened": 2, "closed": 0, "found": "ann"}
