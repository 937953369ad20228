"""Summaries of imports from other memory stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryhub.models.projects import Project
from tests.management.export.test_import import Imported

pytestmark = pytest.mark.django_db


def test_import_names_what_was_left_out(acme: Project, tmp_path: Path) -> None:
    path = tmp_path / "iris.af"
    block = {"label": "human", "value": "Rows.", "limit": 9}
    agent = {"id": "agent-0", "secrets": [{"key": "x"}]}
    path.write_text(json.dumps({"agents": [agent], "blocks": [block], "tools": [{}]}))
    done = Imported(path, project="acme")
    assert (done.code, done.rows["imported"], done.rows["blocks"]) == (0, "0", "1")
    assert done.rows["left"] == "out  agent.secrets 1, block.limit 1, tools 1"
    again = json.loads(Imported(path, project="acme", json=True).out)
    assert (again["blocks"], again["present"], again["exit_code"]) == (0, 1, 0)
    assert Imported(path, project="acme").rows["present"] == "0, blocks 1"
    assert again["omitted"] == {"agent.secrets": 1, "block.limit": 1, "tools": 1}
