"""The list of slow tests: it names tests that are there, and is made from records."""

from __future__ import annotations

from pathlib import Path

from tests import slow

RECORD = """<testsuites><testsuite>
<testcase classname="tests.api.test_a" name="test_one[x]" time="0.1"/>
<testcase classname="tests.api.test_a" name="test_one[y]" time="2.0"/>
<testcase classname="tests.kernel.test_b.TestLife" name="runTest" time="3.5"/>
<testcase classname="tests.test_c" name="test_two" time="0.2"/>
</testsuite></testsuites>"""


def test_list_names_tests_that_are_there() -> None:
    for name in slow.list_names():
        file, *_, function = name.split("::")
        text = (slow.HERE / file).read_text(encoding="utf-8")
        # Hypothesis names a machine's test case itself.
        assert function == "runTest" or f"def {function}(" in text, name


def test_record_tells_how_long_each_function_takes(tmp_path: Path) -> None:
    records = [tmp_path / "one.xml", tmp_path / "two.xml"]
    records[0].write_text(RECORD)
    records[1].write_text(RECORD.replace("2.0", "0.3"))
    assert slow.measured(records) == {
        "api/test_a.py::test_one": [0.1, 0.3],
        "kernel/test_b.py::TestLife::runTest": [3.5],
        "test_c.py::test_two": [0.2],
    }
