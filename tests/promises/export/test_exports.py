"""Promises of exports: whole, portable, flat in memory, and no file after a kill."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cast import bundled
from tests.harness.instances import Instance
from tests.harness.instances import instance as fresh_instance

pytestmark = [pytest.mark.slow, pytest.mark.promise("P16")]
MIB = 2**20
NIGHT_SECONDS = 1_800


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Instance]:
    """Yield another instance, with its own databases and keys."""
    with fresh_instance(tmp_path / "second") as made:
        made.call("tests.harness.instances:make_tables")
        yield made


def export(instance: Instance, path: Path) -> bytes:
    done = instance.manage("export", "acme", "-o", path, stdin="ann\n")
    assert done.returncode == 0, done.stderr
    return path.read_bytes()


def test_import_into_an_empty_instance_exports_the_same(
    instance: Instance, second: Instance, tmp_path: Path
) -> None:
    """Key ring, keys and databases are others; every recorded context is compared."""
    instance.call("tests.promises.export.bundling:live_in_project")
    path = tmp_path / "ann.zip"
    whole = bundled.open_bundle(export(instance, path))
    keys = tmp_path / "keys.json"
    keys.write_text(instance.managed("receipt", "keys"))
    second.managed("create_project", "acme")
    words = ("import", path, "--project", "acme", "--format", "bundle")
    alone = second.manage(*words)
    assert (alone.returncode, "unknown_signer" in alone.stderr) == (1, True)
    second.managed(*words, "--keys", keys)
    again = bundled.open_bundle(export(second, tmp_path / "again.zip"))
    assert bundled.comparable(again) == bundled.comparable(whole)
    assert "every chain is whole" in second.managed("verify", "--all")
    said = second.managed("verify", "--contexts", "--all")
    assert said.strip() == "7 of 7 contexts byte-exact."


@pytest.mark.promise("P16", load="killed around one commit in {every}")
@pytest.mark.parametrize(
    "every", [pytest.param(5, id="some"), pytest.param(1, marks=pytest.mark.nightly)]
)
@pytest.mark.timeout(900)
def test_killed_import_leaves_nothing_that_shows(
    instance: Instance, tmp_path: Path, every: int
) -> None:
    """Leftovers of the killed import are swept, and the bundle can be imported."""
    instance.call("tests.promises.export.bundling:live_in_project")
    path = tmp_path / "ann.zip"
    export(instance, path)
    told = json.loads(
        instance.call(
            "tests.promises.export.bundling:kill_everywhere", str(path), every
        )
    )
    assert len(told) > 3
    for each in told:
        assert each["end"] in (-signal.SIGKILL, 0)
        # Nobody saw any of it, unless it was all there.
        assert each["seen"] in (0, 3)
        assert (each["left"], each["again"]) == (0, 0 if each["seen"] == 0 else 1)
    assert "every chain is whole" in instance.managed("verify", "--all")


@pytest.mark.promise("P16", load="subjects of {small:,} and {large:,} events")
@pytest.mark.parametrize(
    ("small", "large"),
    [
        pytest.param(1_000, 8_000, id="some"),
        pytest.param(25_000, 250_000, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(2 * NIGHT_SECONDS)
def test_export_memory_stays_flat(instance: Instance, small: int, large: int) -> None:
    peaks = []
    for events in (small, large):
        with instance.start(
            "tests.promises.export.bundling:measure", events
        ) as process:
            told, errors = process.communicate(timeout=NIGHT_SECONDS)
        assert process.returncode == 0, told + errors
        peak, count = json.loads(told)
        assert count >= events
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 40 * MIB, peaks
    assert peaks[1] < 200 * MIB, peaks


def test_killed_export_leaves_no_file_of_its_name(
    instance: Instance, tmp_path: Path
) -> None:
    """A file under the name is whole; a killed export frees its place by itself."""
    instance.call("tests.promises.export.bundling:live_in_project")
    path = tmp_path / "ann.zip"
    told = instance.call("tests.promises.export.bundling:kill_export", str(path))
    assert json.loads(told) == {"end": -signal.SIGKILL, "places": 1}
    assert not path.exists()
    whole = bundled.open_bundle(export(instance, path))
    assert whole.testzip() is None
