"""Blocks and claims of files, and their erasure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.imports.imports import Import
from memoryhub.services.knowledge import blocks as writing
from memoryhub.services.people import subjects
from tests.cast.factories import run
from tests.cast.forgetting import forget
from tests.cast.knowing import every, write
from tests.cast.recordings import find, open_contents, take

pytestmark = pytest.mark.django_db(transaction=True)

AT = "2026-05-01T08:00:00+00:00"
HUMAN = {"id": "block-0", "label": "human", "value": "Ann rows.", "description": "Her"}


def put(folder: Path, value: Any, name: str = "iris.af") -> Path:
    path = folder / name
    path.write_text(json.dumps(value))
    return path


def agent_file(folder: Path, *blocks: Any) -> Path:
    sent = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    agent = {"id": "agent-0", "messages": [{**sent, "created_at": AT}]}
    return put(folder, {"agents": [agent], "blocks": [*blocks], "tools": [{}]})


def edge(fact: str, **more: Any) -> dict[str, Any]:
    return {"fact": fact, "name": "SPORT", "source_node_uuid": "n", "valid_at": AT,
            "source_node_name": "Ann", **more}  # fmt: skip


def graph(folder: Path, *edges: Any) -> Path:
    return put(folder, {"edges": [*edges]}, "zep.json")


def list_counts(job: Import) -> tuple[int, int, int, int, int]:
    counts = job.counts
    return counts.runs, counts.blocks, counts.claims, counts.present, counts.erased


def get_subject(acme: Project, user_id: str = "ann") -> Subject:
    found = subjects.find(acme.id, user_id)
    assert found is not None
    return found


def test_blocks_of_a_file_are_written_once(acme: Project, tmp_path: Path) -> None:
    path = agent_file(tmp_path, HUMAN, {**HUMAN, "label": "a/b", "value": ""})
    dry, _ = take(acme, path, user_id="ann", dry_run=True)
    assert (list_counts(dry), subjects.find(acme.id, "ann")) == ((1, 2, 0, 0, 0), None)
    job, bad = take(acme, path, user_id="ann")
    assert (list_counts(job), bad) == ((1, 2, 0, 0, 0), [])
    assert job.counts.omitted == {"tools": 1}
    home = find_home(get_subject(acme))
    assert home is not None
    found = {view.block: view for view in blocks.list_blocks(home)}
    assert (found["a.b"].text, found["human"].text) == ("", "Ann rows.")
    assert found["human"].description == "Her"
    assert [{*row} for row in home.events.values_list("actor")][-1] == {"import"}
    before = Event.objects.count()
    again, _ = take(acme, path, user_id="ann")
    assert (list_counts(again), Event.objects.count()) == ((0, 0, 0, 3, 0), before)


def test_block_that_changed_since_stays(
    acme: Project, agent: Agent, tmp_path: Path
) -> None:
    path = agent_file(tmp_path, HUMAN)
    take(acme, path, user_id="ann")
    ann = get_subject(acme)
    home = write(agent, ann, "human", "Ann sails.")
    write(agent, ann, "persona", "Mine")
    job, bad = take(acme, path, user_id="ann")
    assert (list_counts(job), bad) == ((0, 0, 0, 2, 0), [])
    assert blocks.get_block(home, "human").text == "Ann sails."
    other = agent_file(tmp_path, {**HUMAN, "label": "persona"})
    job, (conflict,) = take(acme, other, user_id="ann", skip_bad=True)
    assert (conflict.code, job.counts.skipped) == ("differs", 1)
    run(writing.delete_block(agent=agent, subject=ann, block="human"))
    job, bad = take(acme, agent_file(tmp_path, HUMAN), user_id="ann")
    assert (list_counts(job), bad) == ((0, 0, 0, 1, 1), [])


def test_block_that_is_refused_is_told(acme: Project, tmp_path: Path) -> None:
    wrong = [{**HUMAN, "value": "x" * 65_537}, {**HUMAN, "label": "!"}]
    job, bad = take(acme, agent_file(tmp_path, *wrong), skip_bad=True)
    assert [each.code for each in bad] == ["value_too_large", "value"]
    assert list_counts(job) == (1, 0, 0, 0, 0)


def test_claims_of_a_file_are_asserted_once(acme: Project, tmp_path: Path) -> None:
    rows, sails = edge("Ann rows", invalid_at="2027-05-01T08:00:00Z"), edge("Ann sails")
    path = graph(tmp_path, rows, sails, rows, edge(" "))
    for dry in (True, False):
        job, (bad,) = take(acme, path, user_id="ann", skip_bad=True, dry_run=dry)
        assert (list_counts(job), bad.code) == ((0, 0, 2, 1, 0), "value")
    first, second = every(get_subject(acme), ended=True)
    assert {first.value, second.value} == {"Ann rows", "Ann sails"}
    assert {first.valid_from.isoformat(), second.valid_from.isoformat()} == {AT}
    assert {first.valid_until is None, second.valid_until is None} == {True, False}
    before = Event.objects.count()
    job, _ = take(acme, path, user_id="ann", skip_bad=True)
    assert (list_counts(job), Event.objects.count()) == ((0, 0, 0, 3, 0), before)


def test_erased_subject_takes_no_import(acme: Project, tmp_path: Path) -> None:
    memory = {"id": "m", "memory": "Drinks tea", "user_id": "ann", "created_at": AT}
    take(acme, put(tmp_path, {"results": [memory]}, "mem0.json"))
    take(acme, agent_file(tmp_path, HUMAN), user_id="ann")
    take(acme, graph(tmp_path, edge("Ann rows")), user_id="ann")
    ann = get_subject(acme)
    (name,) = ann.threads.filter(name__startswith="mem0").values_list("name", flat=True)
    assert open_contents(find(acme, name))[0]["content"] == "Drinks tea"
    forget(ann)
    assert not Event.objects.filter(thread__subject=ann, payload__isnull=False).exists()
    for file in ("mem0.json", "iris.af", "zep.json"):
        user = None if file == "mem0.json" else "ann"
        job, bad = take(acme, tmp_path / file, user_id=user)
        assert (list_counts(job)[:4], bad, job.counts.erased > 0) == (
            (0, 0, 0, 0),
            [],
            True,
        )
