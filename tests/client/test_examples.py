"""Examples of frameworks, as they stand, against a real server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.instances import Server

ROOT = Path(__file__).resolve().parent.parent.parent
#: By example: the lines that it prints.
PRINTED = {
    "guarded": [
        (
            "[failed] Blocked: A number in the arguments is neither the user's nor a "
            "result. Get the missing value from a tool first."
        ),
        "318.5",
        "Paid 318.5.",
        "['318.5', 'Paid 318.5.']",
    ],
    "langgraph_graph": [
        "Shall it be sent?",
        "['A letter is drafted.', 'Yes.', 'Done: Yes.']",
        "['A letter is drafted.', 'No.', 'Done: No.']",
    ],
    "mcp_client": ["['Prefers a seat by the window, on the left.']"],
    "pydantic_ai_agent": [
        "It is at the depot.",
        "You asked: Where is my parcel?",
        "user Where is my parcel?",
        "assistant It is at the depot.",
        "user What did I ask?",
        "assistant You asked: Where is my parcel?",
    ],
}


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_what_the_hub_remembered(
    served: Server, key: str, name: str
) -> None:
    where = {"MEMORYHUB_URL": served.url, "MEMORYHUB_KEY": key, "PYTHONPATH": "."}
    printed = subprocess.check_output(
        [sys.executable, f"examples/{name}.py"],
        env={**os.environ, **where},
        cwd=ROOT,
        text=True,
        timeout=90,
    )
    assert printed.splitlines() == PRINTED[name]
    assert len((ROOT / f"examples/{name}.py").read_text().splitlines()) <= 60
