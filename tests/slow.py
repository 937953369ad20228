"""Tests that take long, as measured: `make test` leaves them to `make test-all`.

`python -m tests.slow FILE…` makes slow.txt anew from records that pytest has written of
a whole run (`--junitxml`): each function of which a typical case took SECONDS or more,
or all cases together TOGETHER, but for those that show first whether anything works.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import median
from xml.etree import ElementTree as ET

import pytest

HERE = Path(__file__).parent
LIST = HERE / "slow.txt"
SECONDS = 0.4
TOGETHER = 9.0
#: Quick, whatever they take: files, and single functions.
QUICK = (
    "e2e/screens/test_screens.py",
    "e2e/test_live.py::test_append_appears_without_a_reload",
    "e2e/test_visit.py::test_key_is_made_and_never_shown_again",
    "e2e/test_visit.py::test_link_works_once",
    "e2e/test_visit.py::test_pages_make_no_external_request",
    "e2e/test_visit.py::test_signing_out_leads_to_the_sign_in_page",
    "kernel/forget/test_erasing.py::test_what_is_erased_is_gone_",
    "management/server/test_serve.py::test_first_start_of_the_server_serves",
    "management/server/test_serve.py::test_killed_server_starts_again_without_repair",
    "matrix/test_api_matrix.py",
    "matrix/test_contract.py",
    "promises/journal/test_anchored.py",
    "promises/paging/test_coherence.py",
    "promises/journal/test_crash.py::test_acknowledged_write_is_durable",
    "promises/tampering/test_manipulated.py::test_a_cut_",
    "promises/tampering/test_manipulated.py::test_two_",
    "promises/paging/test_paging.py",
    "promises/tampering/test_races.py",
    "promises/tampering/test_requests.py",
    "queries/verify/test_page_verification.py::test_each_column_of_",
    "services/erasing/test_erasure_steps.py",
    "services/erasing/test_erasures.py::test_every_erasure_step_may_be_taken_twice",
    "services/observing/test_journal_fuzz.py::test_observing_fuzz_over_the_journal",
)


@cache
def list_names() -> frozenset[str]:
    """Return the functions of the list, as `folder/file.py::function`."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def measured(records: list[Path]) -> dict[str, list[float]]:
    """Return seconds of each case, by function; of several records the quickest."""
    best: dict[str, float] = {}
    for record in records:
        for case in ET.parse(record).iter("testcase"):  # our own
            name = f"{_place(case.attrib['classname'])}::{case.attrib['name']}"
            seconds = float(case.attrib["time"])
            best[name] = min(seconds, best.get(name, seconds))
    found = defaultdict(list)
    for name, seconds in best.items():
        found[name.partition("[")[0]].append(seconds)
    return found


def _place(classname: str) -> str:
    """Convert `tests.folder.test_file.Class` to `folder/test_file.py::Class`."""
    before, file, after = re.split(r"(\btest_\w+)", classname.removeprefix("tests."))
    return before.replace(".", "/") + file + ".py" + after.replace(".", "::")


def name_of(item: pytest.Item) -> str:
    """Return the name of a case's function, as the list has it."""
    return item.nodeid.partition("[")[0].removeprefix("tests/")


def main(records: list[str]) -> None:
    found = measured([Path(each) for each in records])
    lines = sorted(
        name
        for name, seconds in found.items()
        if (median(seconds) >= SECONDS or sum(seconds) >= TOGETHER)
        and not name.startswith(QUICK)
    )
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
