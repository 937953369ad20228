from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, recordings

pytestmark = pytest.mark.django_db
IMPORTS = "/p/acme/imports"


@pytest.fixture
def imported(acme: Project, tmp_path: Path) -> None:
    """Import three runs with rewards 0, 1 and 1, and a chat."""
    runs = [recordings.run(n, reward=float(n > 0)) for n in range(3)]
    recordings.take(acme, recordings.array(tmp_path, *runs))
    chat = recordings.write_lines(
        tmp_path, recordings.build_message("hello"), name="talk.jsonl"
    )
    recordings.take(acme, chat)


def fetch_export(client: Client, kind: str) -> str:
    answer: Any = client.get(f"{IMPORTS}.{kind}")
    assert answer.status_code == 200
    return b"".join(answer.streaming_content).decode()


def test_empty_imports_page_shows_the_command(viewer: Client, agent: Agent) -> None:
    factories.make_thread(agent, labels={"team": "red"})
    page = viewer.get(IMPORTS).content.decode()
    assert "No import yet" in page
    assert "manage.py import runs.json --project acme --source runs" in page


def test_each_import_source_has_a_row_linked_to_its_threads(
    viewer: Client, imported: None
) -> None:
    answer = viewer.get(IMPORTS)
    found = [(each.name, each.runs, each.slots) for each in answer.context["listed"]]
    assert found == [("desk", 3, 6), ("talk", 1, 1)]
    page = answer.content.decode()
    assert "<b>0.6667</b>" in page
    assert "0 to 1" in page
    path = "/p/acme/threads?q=label.source%3Adesk"
    assert f'href="{path}"' in page
    assert len(viewer.get(path).context["listed"]) == 3
    assert f'href="{IMPORTS}"' in viewer.get("/p/acme/threads").content.decode()


def test_import_exports_hold_the_whole_list(viewer: Client, imported: None) -> None:
    records = [json.loads(line) for line in fetch_export(viewer, "ndjson").splitlines()]
    assert [each["source"] for each in records] == ["desk", "talk"]
    desk = records[0]
    assert (desk["runs"], desk["slots"], desk["turns"]) == (3, 6, 3)
    assert (desk["rewards"], desk["reward_min"], desk["reward_max"]) == (3, 0.0, 1.0)
    assert records[1]["reward_mean"] is None
    rows = list(csv.DictReader(io.StringIO(fetch_export(viewer, "csv"))))
    assert [row["source"] for row in rows] == ["desk", "talk"]
    assert rows[1]["reward_mean"] == ""
    batch = viewer.get(f"{IMPORTS}.json?limit=1").json()
    assert batch["items"] == records[:1]
    rest = viewer.get(f"{IMPORTS}.json", {"after": batch["next"]}).json()
    assert (rest["items"], rest["next"]) == (records[1:], None)


def test_import_pages_walk_the_list_once(viewer: Client, imported: None) -> None:
    first = viewer.get(f"{IMPORTS}?limit=1")
    second = viewer.get(f"{IMPORTS}?{first.context['more']}")
    assert [each.name for each in second.context["listed"]] == ["talk"]
    assert second.context["more"] == ""


@pytest.mark.parametrize("size", [1, 40])
def test_import_list_costs_the_same_at_any_size(
    viewer: Client, agent: Agent, size: int, django_assert_max_num_queries: Any
) -> None:
    for n in range(size):
        factories.make_thread(agent, f"t-{n}", labels={"source": f"s-{n}", "reward": n})
    # The rail caches its count of server checks for a minute.
    viewer.get(IMPORTS)
    with django_assert_max_num_queries(6):
        viewer.get(IMPORTS)
