"""Imports that play paging under a budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from tests.cast.recordings import array, run
from tests.management.export.test_import import Imported

pytestmark = pytest.mark.django_db


def test_import_simulates_paging_on_demand(acme: Project, tmp_path: Path) -> None:
    done = Imported(array(tmp_path, run(messages=4)), project="acme", budget=6000)
    assert (done.code, done.rows["paging"]) == (0, "contexts 2")
    assert Thread.objects.get(project=acme).turn_count == 2


def test_import_with_another_budget_is_refused_with_advice(
    acme: Project, tmp_path: Path
) -> None:
    path = array(tmp_path, run(0, messages=4), run(1, messages=4))
    first = Imported(path, project="acme", budget=6000)
    head = Thread.objects.order_by("id")[0].head_seq
    done = Imported(path, project="acme", budget=8000, skip_bad=True)
    assert (first.code, done.code, done.rows["present"]) == (0, 1, "0")
    (line,) = done.bad
    assert "budget_differs: " in line
    assert "(was: 6000, asked: 8000)" in line
    assert "--source" in line
    assert Thread.objects.order_by("id")[0].head_seq == head
    for budget in (6000, None):
        again = Imported(path, project="acme", budget=budget)
        assert (again.code, again.rows["present"]) == (0, "2")


def test_budget_for_a_thread_imported_without_one_is_refused(
    acme: Project, tmp_path: Path
) -> None:
    path = array(tmp_path, run(messages=4))
    Imported(path, project="acme")
    for options in ({}, {"dry_run": True}):
        done = Imported(path, project="acme", budget=6000, **options)
        assert done.code == 1
        assert "(was: none, asked: 6000)" in done.err


@pytest.mark.parametrize("budget", ["1999", "2000001", "-1", "6e3", "", "1_999"])
def test_import_budget_is_a_number_in_range(
    acme: Project, tmp_path: Path, budget: str
) -> None:
    done = Imported(array(tmp_path, run()), f"--budget={budget}", "--project=acme")
    assert (done.code, Thread.objects.count()) == (2, 0)
