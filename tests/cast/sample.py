"""Recorded runs of a real agent: their place, and known figures.

The runs are not part of the product. MEMORYHUB_SAMPLE names the file; else it is looked
for beside the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NAME = "airline-agent-runs"
THREADS, SUBJECTS, SLOTS, TURNS, EVENTS = 100, 34, 2_658, 1_229, 4_187
ROLES = {"system": 100, "user": 757, "assistant": 1_229, "tool": 572}

_ROOT = Path(__file__).resolve().parent.parent.parent
_BESIDE = _ROOT.parent / "shared" / "data" / f"{NAME}.json"


def find() -> Path | None:
    """Return the file, if it is there."""
    found = Path(os.environ.get("MEMORYHUB_SAMPLE") or _BESIDE)
    return found if found.is_file() else None


def require_path() -> Path:
    """Return the file; without it the test is skipped, or failed where all must run."""
    found = find()
    if found is not None:
        return found
    reason = f"{NAME}.json is not there; set MEMORYHUB_SAMPLE to its path"
    if os.environ.get("MEMORYHUB_TEST_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
