"""Adapters without their framework name the extra to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

_IMPORT = """
import sys
sys.modules[{package!r}] = None
try:
    import memoryhub_client.{adapter}
except ImportError as failure:
    print(failure)
"""


@pytest.mark.parametrize(
    ("adapter", "package", "extra"),
    [
        ("adk", "google.adk", "adk"),
        ("anthropic_memory", "anthropic", "anthropic"),
        ("langgraph", "langgraph", "langgraph"),
        ("langgraph_store", "langgraph", "langgraph"),
        ("langgraph_import", "langgraph", "langgraph"),
        ("pydantic_history", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_adapter_without_its_framework_names_the_extra(
    adapter: str, package: str, extra: str
) -> None:
    code = _IMPORT.format(package=package, adapter=adapter)
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert printed.startswith(package.partition(".")[0])
    assert f"pip install 'agent-memoryhub-client[{extra}]'" in printed
    assert printed.count("\n") == 1
