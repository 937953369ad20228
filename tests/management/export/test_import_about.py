"""User id of an import, kept out of process lists."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from memoryhub.models.projects import Project
from memoryhub.services.people import subjects
from tests.cast.recordings import array, run
from tests.management.export.test_import import Imported

pytestmark = pytest.mark.django_db


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(text))


def test_import_reads_the_user_id_from_standard_input(
    acme: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = array(tmp_path, run(0, user_id="ann"), run(1))
    typed(monkeypatch, "zoe\n")
    assert Imported(path, "--user-id", project="acme").code == 0
    assert subjects.find(acme.id, "zoe") is not None
    assert subjects.find(acme.id, "ann") is None


@pytest.mark.parametrize("text", ["", "\n", "*\n", " zoe\n", "zoe\nnobody\n"])
def test_import_refuses_an_impossible_user_id(
    acme: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    typed(monkeypatch, text)
    done = Imported(array(tmp_path, run()), "--user-id", project="acme")
    assert (done.code, "a person's id" in done.err) == (2, True)


def test_standard_input_cannot_be_both_file_and_user_id(acme: Project) -> None:
    done = Imported("-", "--user-id", project="acme")
    assert (done.code, "the file already" in done.err) == (2, True)
