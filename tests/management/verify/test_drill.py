"""The command `drill`: real backups of both engines, restored by real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from memoryhub.journal import cold
from memoryhub.management import backup_copies, drills
from memoryhub.models.keys import SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import threads
from memoryhub.vault.keys import backup, ring_file
from tests.cast import factories
from tests.harness import parts
from tests.harness.instances import UNLIMITED, Instance, build_database_url
from tests.management.privacy.test_replays import SLUG
from tests.promises.journal.writers import Writers

HERE = "tests.management.verify.test_drill"
FORGET = "tests.management.privacy.test_replays:forget"
REMEMBER = "tests.management.privacy.test_replays:remember"
#: Clients, and their appends before a drill begins.
WRITERS, WRITES = 2, 200
PASSPHRASE = "a passphrase of some length\n"

#: What disks and copies do to a file.
HARMS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[: len(whole) * 3 // 4],
    "empty": lambda _: b"",
    "damaged": lambda whole: whole[:8192] + bytes(8192) + whole[16384:],
    "replaced": lambda _: b"no database" * 999,
}

#: A drill starts six processes, one after the other.
DRILL_SECONDS = 280

pytestmark = pytest.mark.timeout(2 * DRILL_SECONDS)


def back_up(folder: str) -> None:
    """Back up both databases, as a drill does. Runs in the instance."""
    backup_copies.make_backup(Path(folder))


def write_more() -> None:
    """Make a project with a subject of its own. Runs in the instance."""
    agent = factories.make_agent(projects.create("later"))
    factories.make_thread(agent, "of-later", user_id="later")
    factories.append(agent, "of-later", "window seat")


def damage_rows() -> None:
    """Change a column that follows from the journals. Runs in the instance."""
    Thread.objects.update(token_count=99)


def move_to_cold() -> None:
    """Close all threads and move their contents. Runs in the instance."""
    agent = factories.make_agent(Project.objects.get(slug=SLUG))
    for thread in Thread.objects.filter(home=False).select_related("subject"):
        name = thread.name
        factories.run(threads.close(agent=agent, thread=name, reason="completed"))
        assert cold.move_thread(factories.get_thread(agent, name))


def describe() -> None:
    """Print all that a drill may not change. Runs in the instance."""
    figures = drills.read_figures("default")
    rows = [*SubjectKey.objects.using("keys").order_by("subject").values_list()]
    folders = (settings.DATA_DIR, settings.LEDGER)
    files = sorted(file for each in folders for file in each.glob("*.json*"))
    ours = [file.read_bytes() for file in files]
    print(figures, rows, ours)  # noqa: T201  # to the process that asked


@dataclass(frozen=True, slots=True)
class DrilledHub:
    """Instance with two people, and what a drill of it needs."""

    instance: Instance
    place: Path
    options: list[str] = field(default_factory=list)

    def drill(
        self, *words: object, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        given = ("drill", f"--place={self.place}", *self.options, *words)
        patient = replace(self.instance, seconds=DRILL_SECONDS)
        return patient.manage(*given, stdin=stdin)

    def report(
        self, *words: object, code: int = 0, stdin: str | None = None
    ) -> dict[str, Any]:
        done = self.drill("--json", *words, stdin=stdin)
        assert done.returncode == code, done.stdout + done.stderr
        assert [*self.place.iterdir()] == []
        found: dict[str, Any] = json.loads(done.stdout)
        assert found["passed"] == (code == 0)
        return found

    def describe(self) -> str:
        return self.instance.call(f"{HERE}:describe")

    def back_up(self, name: str) -> Path:
        folder = self.instance.folder / name
        self.instance.call(f"{HERE}:back_up", str(folder))
        return folder


@pytest.fixture
def hub(instance: Instance, tmp_path: Path) -> Iterator[DrilledHub]:
    instance.call(REMEMBER)
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    # Named after the instance's own: other workers of this run have theirs.
    urls = [
        build_database_url(url, f"{urlsplit(url).path[1:]}_scratch")
        for url in instance.urls
    ]
    made = [url for url in urls if parts.create(url)]
    if installed := parts.find_installation() if urls else None:
        path = f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}"
        instance.env["PATH"] = path  # type: ignore[index]  # a dict of ours
    names = ("--scratch", "--scratch-keys")
    options = [f"{name}={url}" for name, url in zip(names, urls, strict=bool(urls))]
    try:
        yield DrilledHub(instance, place, options)
    finally:
        for url in made:
            parts.drop(url)


def name_steps(report: dict[str, Any]) -> list[str]:
    return [step["name"] for step in report["steps"]]


@pytest.mark.promise("P27", load="a running hub")
def test_drill_of_a_running_hub_restores_what_it_has(hub: DrilledHub) -> None:
    with hub.instance.serve():
        report = hub.report()
    assert name_steps(report) == ["backup", "restore", *drills.STEPS, "compare"]
    assert report["live"] == report["backup"] == report["restored"]
    assert (report["restored"]["threads"], report["missing_events"]) == (2, 0)
    assert (report["restored"]["subjects"], report["replayed_erasures"]) == (2, 0)
    assert report["restored_bytes"] > 0
    assert all(step["seconds"] > 0 for step in report["steps"])
    assert '"drilled"' in hub.instance.managed("audit", "export")
    # A second drill finds the scratch databases empty.
    done = hub.drill()
    assert done.returncode == 0, done.stderr
    assert "2 threads" in done.stdout
    assert "byte-exact" in done.stdout
    assert "The backup restores whole" in done.stdout


@pytest.mark.slow
@pytest.mark.promise("P27", load=f"a running hub, {WRITERS} writers")
def test_drill_beside_writers_restores_what_was_acknowledged(hub: DrilledHub) -> None:
    key = hub.instance.managed("create_key", SLUG).strip()
    writers = Writers(key=key, threads=["t-1", "t-2"], count=WRITERS)
    with hub.instance.serve(**UNLIMITED) as server:
        writers.start(server.port)
        writers.await_more(WRITES)
        before = writers.total
        report = hub.report()
        assert writers.total > before
        server.kill()
    writers.join()
    assert report["restored"]["events"] >= before
    assert report["backup"] == report["restored"]


@pytest.mark.promise("P27", load="a backup from before an erasure")
def test_drill_erases_again_what_was_erased_since_the_backup(hub: DrilledHub) -> None:
    folder = hub.back_up("before")
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    hub.instance.call(FORGET, "subject")
    hub.instance.call(f"{HERE}:write_more")
    report = hub.report(folder)
    (replay,) = [step for step in report["steps"] if step["name"] == "replay"]
    assert "complete" in " ".join(replay["lines"])
    assert report["missing_events"] > 0
    assert report["replayed_erasures"] == 1
    assert (report["backup"]["subjects"], report["restored"]["subjects"]) == (2, 1)
    assert report["restored"]["threads"] == report["backup"]["threads"] == 2
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == kept


@pytest.mark.promise("P27", load="keys that are older than the memory", control=True)
def test_drill_fails_on_keys_that_are_older_than_the_memory(hub: DrilledHub) -> None:
    older = hub.back_up("older")
    hub.instance.call(f"{HERE}:write_more")
    newer, before = hub.back_up("newer"), hub.describe()
    report = hub.report(newer, "--keys", older, code=1)
    assert name_steps(report)[-1] == "verify"
    assert "does not open" in report["steps"][-1]["lines"][-1]
    assert report["advice"] == drills.ADVICE["verify"]
    assert hub.describe() == before


def test_drill_fails_at_the_step_that_finds_damage(hub: DrilledHub) -> None:
    hub.instance.call(f"{HERE}:damage_rows")
    report = hub.report(code=1)
    assert name_steps(report)[-1] == "verify"
    assert "token_count" in report["steps"][-1]["lines"][-1]
    assert report["restored"] is None


def test_drill_restores_a_backup_of_the_key_ring(hub: DrilledHub) -> None:
    ring = hub.instance.folder / "ring.json"
    done = hub.instance.manage("keys", "backup", ring, stdin=PASSPHRASE)
    assert done.returncode == 0, done.stderr
    assert "keys" in name_steps(hub.report("--ring", ring, stdin=PASSPHRASE))
    report = hub.report("--ring", ring, code=1, stdin="another passphrase\n")
    assert "passphrase" in report["steps"][-1]["lines"][-1]


def test_drill_refuses_what_it_can_not_restore(hub: DrilledHub, tmp_path: Path) -> None:
    done = hub.drill(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not there" in done.stderr
    done = hub.instance.manage(
        "drill", *[] if hub.options else ["--scratch=postgres://"]
    )
    assert done.returncode == 2
    assert "--scratch-keys" in done.stderr
    if hub.instance.urls:
        own = zip(("--scratch", "--scratch-keys"), hub.instance.urls, strict=True)
        done = hub.instance.manage("drill", *(f"{name}={url}" for name, url in own))
        assert done.returncode == 2
        assert "is not empty" in done.stderr
        assert "2 threads" in hub.instance.managed("verify", "--all")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("stem", [*backup_copies.STEMS.values()])
def test_drill_says_which_file_is_broken(hub: DrilledHub, harm: str, stem: str) -> None:
    (file,) = hub.back_up("broken").glob(f"{stem}.*")
    file.write_bytes(HARMS[harm](file.read_bytes()))
    before = hub.describe()
    report = hub.report(file.parent, code=1)
    assert name_steps(report) == ["restore"]
    assert str(file) in report["steps"][-1]["lines"][-1]
    assert report["advice"] == drills.ADVICE["restore"]
    assert str(file) in [each["path"] for each in report["files"]]
    assert hub.describe() == before


@pytest.mark.parametrize("given", ["folder", "option"])
def test_drill_fails_on_the_key_ring_of_another_hub(
    hub: DrilledHub, given: str
) -> None:
    folder, ring = hub.back_up("whole"), ring_file.make_ring()
    words, step = [], "replay"
    if given == "folder":
        ring_file.create(folder / "kek.json", ring)
    else:
        file, step = hub.instance.folder / "ring.json", "keys"
        file.write_bytes(backup.seal_ring(ring, passphrase=PASSPHRASE.strip()))
        words = ["--ring", file]
    before = hub.describe()
    report = hub.report(folder, *words, code=1, stdin=PASSPHRASE)
    assert name_steps(report)[-1] == step
    assert "kek_" in report["steps"][-1]["lines"][-1]
    assert report["advice"] == drills.ADVICE[step]
    assert hub.describe() == before


@pytest.mark.promise("P27", load="contents in cold storage")
def test_drill_uses_the_cold_storage_beside_the_backup(hub: DrilledHub) -> None:
    hub.instance.call(f"{HERE}:move_to_cold")
    folder, live = hub.back_up("cold"), hub.instance.data / "cold"
    copy = folder / "cold"
    shutil.copytree(live, copy)
    hub.instance.call(FORGET, "subject")
    assert len([*live.glob("*.sealed")]) == 1
    # What this hub has now is not asked: its storage may be lost as well.
    shutil.rmtree(live)
    kept = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert hub.report(folder)["replayed_erasures"] == 1
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == kept
    for file in copy.glob("*.sealed"):
        file.unlink()
    report = hub.report(folder, code=1)
    assert name_steps(report)[-1] == "verify"


def test_drill_that_is_stopped_leaves_nothing_behind(hub: DrilledHub) -> None:
    words = ("drill", f"--place={hub.place}", *hub.options)
    with hub.instance.begin(*words) as process:
        until = time.monotonic() + 60
        while not [*hub.place.glob("*/data/kek.json")]:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert [*hub.place.iterdir()] == []
    hub.report()


def test_drill_needs_a_hub_or_a_backup(empty: Instance) -> None:
    done = empty.manage("drill")
    assert done.returncode == 2
    assert "hub_missing" in done.stderr


@pytest.mark.django_db
def test_differences_name_threads_that_end_too_early(agent: Agent) -> None:
    factories.append(agent, "t-1", "a", "b")
    factories.append(agent, "t-2", "a")
    before = drills.read_figures("default")
    factories.append(agent, "t-1", "c")
    after = drills.read_figures("default")
    assert drills.list_differences(before, after, "default") == []
    first, second = Thread.objects.order_by("name")
    found = drills.list_differences(after, before, "default")
    assert found == ["1 events are missing"]
    heads = {first.id: (1, b"another")}
    shorter = replace(before, newest=None, heads=heads)
    found = drills.list_differences(shorter, after, "default")
    assert found == [f"thread {first.id} does not reach event 1"]
    found = drills.list_differences(before, shorter, "default")
    assert found[0] == "1 threads are missing"
    assert Slot.objects.filter(thread=second).count() == 1
