"""Forgetting a passenger of the recorded runs; nobody else's records change.

Her details are read from the runs themselves. Before, her export has each detail, so
that its absence afterwards proves something.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from memoryhub.management.import_summary import COMPLETE_BUT
from tests.cast import bundled, sample
from tests.cast.recordings import array
from tests.harness.instances import Instance
from tests.promises.clear.scanner import Scanner, build_planted_forms
from tests.promises.clear.test_nothing_in_the_clear import wal_file
from tests.promises.forget.test_forget_complete import (
    Hub,
    declared,
    files_of,
    hub,
    random_in,
)

WHO = "mia_li_3668"
BUDGET = 6_000
NIGHT_SECONDS = 1_800
#: Of a reservation, six capital letters and digits: by chance they stand in some
#: hundred megabytes once in a hundred thousand times.
SHORTEST = 6
#: Number of details of each kind that are hers alone.
KINDS = {
    "user id": 1,
    "name": 3,
    "e-mail": 1,
    "birth date": 1,
    "reservation": 3,
    "payment": 4,
}

Run = dict[str, Any]

pytestmark = pytest.mark.slow


# Her details


def user_of(run: Run) -> str:
    found: str = run["info"]["task"]["user_id"]
    return found


def told_by_tools(runs: list[Run]) -> Iterator[Any]:
    """Yield the JSON results of tools."""
    for message in (each for run in runs for each in run["traj"]):
        if message["role"] == "tool" and message["content"].startswith("{"):
            yield json.loads(message["content"])


def iter_texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from iter_texts(each)


def details(runs: list[Run]) -> dict[str, set[str]]:
    """Return by kind the details that tools told of the person in its own runs."""
    told = list(told_by_tools(runs))
    profile = next(each for each in told if "payment_methods" in each and "dob" in each)
    name = profile["name"]
    booked = {each["reservation_id"] for each in told if each.get("user_id") == WHO}
    return {
        "user id": {WHO},
        "name": {
            f"{name['first_name']} {name['last_name']}",
            # As tools write it, and as the model does.
            json.dumps(name)[1:-1],
            json.dumps(name, separators=(",", ":"))[1:-1],
        },
        "e-mail": {profile["email"]},
        "birth date": {profile["dob"]},
        "reservation": {*profile["reservations"], *booked},
        "payment": {*profile["payment_methods"]},
    }


def hers_alone(everybody: list[Run]) -> set[str]:
    """Return the person's details, but for those in other people's runs.

    Her first and last name occur there, each alone, and so does the booking that her
    runs make, which tool calls name alike for every new one. The digests of the others'
    exports prove that those stay with the others.
    """
    hers = [run for run in everybody if user_of(run) == WHO]
    others = "\n".join(iter_texts([run for run in everybody if user_of(run) != WHO]))
    alone = {
        kind: {each for each in found if each not in others}
        for kind, found in details(hers).items()
    }
    assert {kind: len(found) for kind, found in alone.items()} == KINDS
    return {each for found in alone.values() for each in found}


def some_runs(everybody: list[Run], others: int) -> list[Run]:
    """Return the person's runs, runs of others with few, and most common words."""
    by_user: dict[str, list[Run]] = {}
    for run in everybody:
        by_user.setdefault(user_of(run), []).append(run)
    hers = list_words([*set().union(*details(by_user.pop(WHO)).values())])

    def rank(name: str) -> tuple[int, int, str]:
        runs = by_user[name]
        return len(runs), -len(hers & list_words(runs)), name

    chosen = {WHO, *sorted(by_user, key=rank)[:others]}
    return [run for run in everybody if user_of(run) in chosen]


def list_words(value: Any) -> set[str]:
    return {word for text in iter_texts(value) for word in re.findall(r"\w+", text)}


# Views of everybody


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Person in the instance; the anonymous subject is one as well."""

    bundle: ZipFile
    #: By thread: a digest of its states, then one of each of its requests.
    replays: dict[str, list[str]]
    #: Of sealed bytes, in hex.
    random: frozenset[str]

    @property
    def requests(self) -> int:
        return sum(len(digests) - 1 for digests in self.replays.values())

    @property
    def untouched(self) -> tuple[str, dict[str, list[str]], frozenset[str]]:
        """Return the values that erasures of others must leave unchanged."""
        return digest(self.bundle), self.replays, self.random

    def list_found_texts(self, needles: set[str]) -> set[str]:
        """Return the needles that occur in the opened export."""
        scanner = Scanner(needles, shortest=SHORTEST)
        return {
            hit.needle
            for path in self.bundle.namelist()
            for hit in scanner.iter_hits(self.bundle.read(path), place=path)
        }


def digest(bundle: ZipFile) -> str:
    """Return a digest of an export, without its time, signature and README."""
    told = bundled.manifest(bundle)
    del told["exported_at"], told["signature"]
    told["files"] = [file for file in told["files"] if file["path"] != "README.md"]
    whole = hashlib.sha256(json.dumps(told).encode())
    for file in told["files"]:
        whole.update(bundle.read(file["path"]))
    return whole.hexdigest()


def look(instance: Instance, folder: Path) -> dict[str, Person]:
    """Return everybody, by user id."""
    folder.mkdir()
    with instance.start("tests.promises.live.onlookers:look", str(folder)) as process:
        out, errors = process.communicate(timeout=NIGHT_SECONDS)
    assert process.returncode == 0, errors
    people = {}
    for subject, person in json.loads(out).items():
        bundle = bundled.open_bundle((folder / f"{subject}.zip").read_bytes())
        user_id = bundled.manifest(bundle)["subject"]["user_id"]
        people[user_id or ""] = Person(
            bundle=bundle,
            replays=person["replays"],
            random=frozenset(person["random"]),
        )
    return people


def requests(people: dict[str, Person]) -> int:
    return sum(person.requests for person in people.values())


def exact(instance: Instance) -> int:
    """Return the number of recorded contexts, each byte-exact."""
    said = instance.managed("verify", "--contexts", "--all")
    count, _, rest = said.partition(" of ")
    assert rest == f"{count} contexts byte-exact.\n"
    return int(count.replace(",", ""))


# Acts


def import_file(instance: Instance, path: Path) -> dict[str, Any]:
    """Import a file and return the outcome; the command prints nothing else."""
    words = ("--project=acme", "--json", "--quiet", f"--budget={BUDGET}")
    with instance.begin("import", path, *words) as process:
        # On a busy machine all runs take longer than commands may.
        out, _ = process.communicate(timeout=NIGHT_SECONDS)
    told: dict[str, Any] = json.loads(out)
    assert told["exit_code"] == process.returncode
    return told


def settle(instance: Instance) -> None:
    """Let background work end: it writes to journals, too."""
    while "levels: 0" not in instance.managed("worker", "--once").splitlines():
        continue


def forget(it: Hub, her: Person) -> None:
    """Forget the person on a server that holds the person's texts in memory."""
    told = bundled.manifest(her.bundle)
    for part in told["cut"]:
        for path in ("slots", "context", "turns"):
            assert it.client.get(f"/threads/{part['name']}/{path}").status == 200
    subject = told["subject"]["id"]
    receipt = it.forget(subject, scope="subject")
    # One of them are her key's.
    sealed = len(her.random) - 1
    assert receipt["erased"]["events"]["count"] == sealed > 0
    assert set(it.show_subject(subject)["rows"].values()) == {0}
    for part in told["cut"]:
        assert it.client.get(f"/threads/{part['name']}/slots").status == 410


def assert_kept_out(it: Hub, path: Path, runs: list[Run]) -> None:
    """Assert that neither the same file nor renamed runs bring the person back."""
    hers = [run for run in runs if user_of(run) == WHO]
    alone = array(path.parent, *hers, name="hers.json")
    for file, present in ((path, len(runs) - len(hers)), (alone, 0)):
        told = import_file(it.instance, file)
        assert (told["erased"], told["present"]) == (len(hers), present)
        assert (told["runs"], told["slots"], told["skipped"]) == (0, 0, 0)
        assert told["exit_code"] == COMPLETE_BUT
    again = it.client.put("/threads/back", {"user_id": WHO})
    assert (again.status, again.body["code"]) == (410, "subject_erased")


# The test


@pytest.mark.promise("P5", load="recorded runs of {others} others and of one who goes")
@pytest.mark.promise("P13", load="a passenger of recorded runs, beside {others} others")
@pytest.mark.promise("P14", load="her recorded runs and those of {others} others again")
@pytest.mark.promise("P15", load="a passenger of recorded runs, beside {others} others")
@pytest.mark.promise(
    "P24", load="the contexts of {others} others when one is forgotten"
)
@pytest.mark.parametrize(
    "others",
    [3, pytest.param(sample.SUBJECTS - 1, marks=pytest.mark.nightly)],
    ids=str,
)
@pytest.mark.timeout(NIGHT_SECONDS)
def test_passenger_of_the_recorded_runs_is_forgotten(
    instance: Instance, tmp_path: Path, others: int
) -> None:
    everybody = json.loads(sample.require_path().read_text(encoding="utf-8"))
    needles, runs = hers_alone(everybody), some_runs(everybody, others)
    path = array(tmp_path, *runs, name=f"{sample.NAME}.json")
    began = wal_file(instance)
    instance.managed("create_project", "acme")
    told = import_file(instance, path)
    assert (told["runs"], told["skipped"]) == (len(runs), 0)
    settle(instance)
    with hub(instance) as it:
        before = look(instance, tmp_path / "before")
        assert exact(instance) == requests(before) == told["turns"] > 0
        forget(it, before[WHO])
        assert_kept_out(it, path, runs)
        after = look(instance, tmp_path / "after")
        assert exact(instance) == requests(after)
        assert "every chain is whole" in instance.managed("verify", "--all")
    assert len(after) == others + 1
    assert_gone(needles, before, after)
    files = files_of(instance, tmp_path / "stores", since=began)
    assert_nowhere(needles, files, before, after)


def assert_gone(
    needles: set[str], before: dict[str, Person], after: dict[str, Person]
) -> None:
    """Assert that all else is unchanged, and that no one else had a detail."""
    others = {name: each for name, each in before.items() if name != WHO}
    assert {name: each.untouched for name, each in after.items()} == {
        name: each.untouched for name, each in others.items()
    }
    assert before[WHO].list_found_texts(needles) == needles
    for each in after.values():
        assert each.list_found_texts(needles) == set()


def assert_nowhere(
    needles: set[str],
    files: list[Path],
    before: dict[str, Person],
    after: dict[str, Person],
) -> None:
    """Assert that no kept byte holds a detail, a thread's name, or sealed bytes."""
    assert in_files(needles, files) == set()
    for dress in build_planted_forms("any text"):
        forms = (build_planted_forms(needle)[dress][0] for needle in sorted(needles))
        scanner = Scanner(needles, shortest=SHORTEST)
        hits = scanner.iter_hits(b"\xff\0\xfe".join(forms), place="planted")
        assert {hit.needle for hit in hits} == needles, dress
    # Of what stands there lawfully while it is somebody's, all but hers is found.
    strict = [file for file in files if not declared(file)]
    threads = {name for each in before.values() for name in each.replays}
    assert in_files(threads, strict) == threads - before[WHO].replays.keys()
    twin = min((each.random for each in after.values() if each.random), key=len)
    assert random_in(before[WHO].random | twin, strict) == twin


def in_files(needles: set[str], files: list[Path]) -> set[str]:
    scanner = Scanner(needles, shortest=SHORTEST)
    return {
        hit.needle
        for file in files
        for hit in scanner.iter_hits(file.read_bytes(), place=file.name)
    }
