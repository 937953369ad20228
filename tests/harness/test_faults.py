"""Controls: each changes a line that exists; one that fits nothing shows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.promises.clear import test_privacy_controls
from tests.promises.forget.faults import ROOT, Control, Fault
from tests.promises.tampering import test_controls


def faults(value: Any) -> Iterator[Fault]:
    if isinstance(value, Fault):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from faults(each)


FOUND = [
    fault
    for module in (test_controls, test_privacy_controls)
    for value in vars(module).values()
    for fault in faults(value)
]


@pytest.mark.parametrize("fault", FOUND, ids=lambda fault: fault.old.strip()[:40])
def test_fault_text_occurs_once_in_its_file(fault: Fault) -> None:
    assert (ROOT / fault.file).read_text(encoding="utf-8").count(fault.old) == 1


CONTROLS = [
    each.values[0]
    for module in (test_controls, test_privacy_controls)
    for value in vars(module).values()
    for each in (value if isinstance(value, list) else [value])
    if isinstance(each, type(pytest.param()))
]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.test)
def test_control_runs_a_test_that_is_there(control: Control) -> None:
    file, _, name = control.test.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {name.partition('[')[0]}(" in text


def test_controls_have_faults() -> None:
    assert len(FOUND) >= 30
