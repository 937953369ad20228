"""Imports that play paging under a budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from tests.cast.recordings import array, run
from tests.management.export.test_import import Told

pytestmark = pytest.mark.django_db


def test_paging_is_simulated_on_demand(acme: Project, tmp_path: Path) -> None:
    told = Told(array(tmp_path, run(messages=4)), project="acme", budget=6000)
    assert (told.code, told.rows["paging"]) == (0, "contexts 2")
    assert Thread.objects.get(project=acme).turn_count == 2


def test_another_budget_is_said_and_what_to_do(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(0, messages=4), run(1, messages=4))
    first = Told(path, project="acme", budget=6000)
    head = Thread.objects.order_by("id")[0].head_seq
    told = Told(path, project="acme", budget=8000, skip_bad=True)
    assert (first.code, told.code, told.rows["present"]) == (0, 1, "0")
    (line,) = told.bad
    assert "budget_differs: " in line
    assert "(was: 6000, asked: 8000)" in line
    assert "--source" in line
    assert Thread.objects.order_by("id")[0].head_seq == head
    for budget in (6000, None):
        again = Told(path, project="acme", budget=budget)
        assert (again.code, again.rows["present"]) == (0, "2")


def test_a_budget_after_none_is_said(acme: Project, tmp_path: Path) -> None:
    path = array(tmp_path, run(messages=4))
    Told(path, project="acme")
    for options in ({}, {"dry_run": True}):
        told = Told(path, project="acme", budget=6000, **options)
        assert told.code == 1
        assert "(was: none, asked: 6000)" in told.err


@pytest.mark.parametrize("budget", ["1999", "2000001", "-1", "6e3", "", "1_999"])
def test_a_budget_is_a_number_in_its_range(
    acme: Project, tmp_path: Path, budget: str
) -> None:
    told = Told(array(tmp_path, run()), f"--budget={budget}", "--project=acme")
    assert (told.code, Thread.objects.count()) == (2, 0)
