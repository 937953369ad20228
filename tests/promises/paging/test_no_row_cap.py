"""Export and erasure without a cap: all records of somebody, however many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.instances import Instance
from tests.promises.paging import many_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200)]

NIGHT_SECONDS = 7_000


@pytest.mark.promise("P13", load="{events:,} events of one person, scope {scope}")
@pytest.mark.parametrize(
    ("events", "scope"),
    [
        # More than any batch, page or list takes at once.
        pytest.param(6_000, "subject", id="some"),
        pytest.param(250_000, "subject", id="many", marks=pytest.mark.nightly),
        pytest.param(250_000, "before", id="many-before", marks=pytest.mark.nightly),
    ],
)
def test_export_and_erasure_have_no_row_cap(
    instance: Instance, tmp_path: Path, events: int, scope: str
) -> None:
    path = tmp_path / "ann.zip"
    with instance.start(
        "tests.promises.paging.many_rows:live_and_go", events, scope, str(path)
    ) as process:
        out, errors = process.communicate(timeout=NIGHT_SECONDS)
    assert process.returncode == 0, errors
    told = json.loads(out.splitlines()[-1])
    assert told["events"] >= told["sealed"] >= events
    assert many_rows.exported(path) == told["events"]
    assert (told["erased"], told["left"]) == (told["sealed"], 0)
    assert told["twin"]
