"""P20: no bytes from outside raise anything but a refusal in what reads them first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.promises.forget.faults import ROOT
from tests.promises.tampering import fuzzing

pytestmark = pytest.mark.slow

SECONDS = 600
#: Atheris instruments what is imported below it, and ends by `-max_total_time`.
DRIVER = """
import sys

import atheris

with atheris.instrument_imports(include=["memoryhub", "inspector"]):
    import os

    os.environ["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
    import django

    django.setup()
    from tests.promises.tampering import fuzzing

target, *words = sys.argv[1:]
atheris.Setup(["fuzz", *words], lambda data: fuzzing.attempt(target, data))
atheris.Fuzz()
"""


@pytest.mark.promise("P20", load="{count:,} mutated inputs × each reader")
@pytest.mark.parametrize("target", fuzzing.TARGETS)
@pytest.mark.parametrize(
    "count", [3_000, pytest.param(100_000, marks=pytest.mark.nightly)]
)
@pytest.mark.timeout(SECONDS)
def test_no_mutated_input_raises_more_than_a_refusal(target: str, count: int) -> None:
    broken = []
    for data in fuzzing.mutate(target, seed=20, count=count):
        try:
            fuzzing.attempt(target, data)
        except Exception as failure:  # noqa: BLE001  # whatever it is, it is a finding
            broken.append((data, repr(failure)))
    assert broken == []


@pytest.mark.promise("P20", load=f"atheris, {SECONDS} s × each reader")
@pytest.mark.nightly
@pytest.mark.parametrize("target", fuzzing.TARGETS)
@pytest.mark.timeout(3 * SECONDS)
def test_atheris_finds_no_input_that_raises(target: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(fuzzing.list_seeds(target)):
        (corpus / f"{number}").write_bytes(seed)
    words = (f"-max_total_time={SECONDS}", "-max_len=4096", "-timeout=10")
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, target, *words, f"{corpus}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-4_000:]
    # It measured what inputs reach, and so looked for new ones.
    assert "cov: " in ran.stderr
