from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.db import models
from django.test.utils import isolate_apps

from memoryhub.journal.forget import purging
from memoryhub.models import privacy
from memoryhub.models.events import Event
from memoryhub.models.keys import SubjectKey
from memoryhub.models.privacy import (
    Fate,
    Holds,
    Privacy,
    iter_undeclared,
    list_declared_models,
    parse_fields,
)
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.services.forget import erasure_steps
from memoryhub.vault.keys import keys
from memoryhub.vault.registry.other_places import BACKENDS, LOG_HANDLERS, PATHS, PROCESS
from tests.vault import unlisted

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def planted(**members: object) -> type[models.Model]:
    """Make a model for one test, where apps are isolated."""
    meta = type("Meta", (), {"app_label": "memoryhub"})
    named = {**members, "Meta": meta, "__module__": __name__}
    return type("Planted", (models.Model,), named)


# Tables


def test_every_field_is_declared_and_holds_what_it_may() -> None:
    assert privacy.check_declarations() == []
    assert unlisted.misfits(list_declared_models()) == []


def test_model_with_a_subject_reference_declares_how_it_is_found() -> None:
    assert unlisted.unfindable(list_declared_models()) == []


def test_model_found_by_subject_is_erased_and_counted() -> None:
    for model, declared in list_declared_models().items():
        # Permanent rows may hold a pseudonym, by which nobody finds a row.
        unfound = (Fate.NOT_ITS, Fate.STAYS)
        assert declared.subject or declared.forget in unfound, model
        assert not (declared.subject and declared.forget is Fate.NOT_ITS), model
        content = Holds.SEALED | Holds.NAME
        about_it = any(holds & content for holds in declared.holds.values())
        if declared.subject and about_it:
            assert declared.forget is not Fate.STAYS, model


#: Who takes its part where it is not by deleting rows; each has tests of its own, and
#: `forget_is_complete` has rows of every place that must be gone.
ERASERS: dict[type[models.Model], Callable[..., object]] = {
    Event: purging.iter_thread_batches,
    Thread: purging.iter_thread_batches,
    Subject: erasure_steps.purge,
    SubjectKey: keys.destroy,
}


def test_erasable_model_has_an_eraser() -> None:
    assert unlisted.unerased(list_declared_models(), ERASERS) == []
    assert {*unlisted.unerased(list_declared_models(), ())} == {*ERASERS}


@pytest.mark.parametrize(
    ("forget", "subject"),
    [
        (Fate.DELETED, "thread__parent__subject"),
        (Fate.DELETED, "erasure__subject"),
        (Fate.NULLED, "thread__subject"),
        (Fate.BLANKED, "thread__subject"),
        (Fate.DESTROYED, "subject"),
    ],
)
def test_model_without_an_eraser_is_reported(forget: Fate, subject: str) -> None:
    declared = replace(ThreadLabel.privacy, forget=forget, subject=subject)
    found = unlisted.unerased(
        {**list_declared_models(), ThreadLabel: declared}, ERASERS
    )
    assert found == [ThreadLabel]


@pytest.mark.django_db(databases=["default", "keys"])
def test_privacy_lookup_reaches_a_subject() -> None:
    for model, declared in list_declared_models().items():
        if declared.subject:
            rows = model._default_manager.filter(**{declared.subject: uuid4()})
            assert rows.count() == 0, model


@isolate_apps("memoryhub")
@pytest.mark.parametrize(
    ("field", "holds"),
    [
        (models.TextField(), Holds.SEALED),
        (models.CharField(max_length=9), Holds.NUMBER),
        (models.CharField(max_length=9), Holds.NAME),
        (models.BinaryField(), Holds.NAME),
        (models.BinaryField(), Holds(0)),
        (models.FileField(), Holds.STAFF),
        (models.ImageField(), Holds.SEALED),
        (models.DurationField(), Holds.NUMBER),
        (models.DateTimeField(), Holds.NAME),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, models.Field) else None,
)
def test_field_with_a_forbidden_declaration_fails(
    field: models.Field[Any, Any], holds: Holds
) -> None:
    model = planted(note=field.clone())
    declared = Privacy(holds={"id": Holds.ID, "note": holds})
    (found,) = unlisted.misfits({model: declared})
    assert found.startswith("memoryhub.Planted.note must not hold")


@isolate_apps("memoryhub")
@pytest.mark.parametrize(
    "field", [models.TextField(), models.JSONField(), models.IntegerField()], ids=type
)
def test_field_that_is_not_declared_fails(field: models.Field[Any, Any]) -> None:
    model = planted(note=field.clone(), privacy=Privacy(holds=parse_fields(id="id")))
    assert [*iter_undeclared([model])] == ["memoryhub.Planted.note"]


@isolate_apps("memoryhub")
def test_privacy_declaration_is_not_inherited() -> None:
    declared = planted(privacy=Privacy(holds=parse_fields(id="id")))
    meta = type("Meta", (), {"app_label": "memoryhub"})
    heir = type("Heir", (declared,), {"Meta": meta, "__module__": __name__})
    assert [*iter_undeclared([declared, heir])] == ["memoryhub.Heir"]


def test_model_that_declares_nothing_fails_the_system_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(Thread, "privacy")
    (found,) = privacy.check_declarations()
    assert (found.id, found.is_serious()) == ("memoryhub.E002", True)
    assert "memoryhub.Thread" in found.msg
    assert found in run_checks()


@isolate_apps("memoryhub")
def test_declaration_of_a_removed_field_fails() -> None:
    model = planted(privacy=Privacy(holds=parse_fields(id="id", name="note")))
    assert [*iter_undeclared([model])] == ["memoryhub.Planted.note"]


@isolate_apps("memoryhub")
def test_reference_without_a_way_to_find_it_fails() -> None:
    model = planted(thread=models.ForeignKey(Thread, models.CASCADE, related_name="+"))
    assert unlisted.unfindable({model: Privacy(holds={})}) == ["memoryhub.Planted"]


# State of a process


def test_every_process_lifetime_cache_is_listed() -> None:
    found = unlisted.process_state(
        unlisted.parse_sources(ROOT, "memoryhub", "inspector")
    )
    assert found == set(PROCESS)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("@lru_cache(maxsize=9)\ndef stem(word): ...", "stem"),
        ("@functools.cache\ndef stem(word): ...", "stem"),
        ("class A:\n  @lru_cache\n  def stem(self): ...", "stem"),
        ("class PageLru: ...", "PageLru"),
        ("class RenderCache: ...", "RenderCache"),
        ("class Kept:\n  def __init__(self): self.rows = OrderedDict()", "Kept"),
        ("class Kept:\n  def __init__(self): self.rows = Lru(9)", "Kept"),
        ("class Kept(Lru[str, str]): ...", "Kept"),
        ("_seen = {}", "_seen"),
        ("_seen: dict[str, str] = {}", "_seen"),
        ("_seen: list[str] = []", "_seen"),
        ("_seen = dict()", "_seen"),
        ("_seen = collections.defaultdict(list)", "_seen"),
        ("_seen: WeakValueDictionary[int, str] = WeakValueDictionary()", "_seen"),
        ("_seen = threading.local()", "_seen"),
        ("_seen = {'a': 1}\ndef note(k): _seen[k] = 1", "_seen"),
        ("_seen = {'a': 1}\ndef note(k): _seen.setdefault(k, 1)", "_seen"),
        ("_seen = ['a']\ndef note(k): _seen.append(k)", "_seen"),
        ("_seen = None\ndef note(k):\n  global _seen\n  _seen = k", "_seen"),
        ("class Hub: ...\nhub = Hub()", "hub"),
        ("@dataclass\nclass Hub: ...\nhub: Hub = Hub()", "hub"),
        ("from memoryhub.hubs import Watch\nwatch = Watch()", "watch"),
        ("from memoryhub import hubs as h\nwatch = h.Watch()", "watch"),
    ],
)
def test_cache_that_is_unlisted_is_found(source: str, name: str) -> None:
    modules = {"memoryhub.planted": source, "memoryhub.hubs": "class Watch: ..."}
    found = unlisted.process_state({n: ast.parse(s) for n, s in modules.items()})
    assert found == {f"memoryhub.planted.{name}"}


@pytest.mark.parametrize(
    "source",
    [
        "DECIDE = {Append: append}",
        "STATUS = {Full: 409}\nSTATUS[Away] = 503",
        "WORDS = ('a', 'b')",
        "SHAPE = re.compile('a')",
        "@dataclass(frozen=True)\nclass Limits: ...\nDEFAULT = Limits()",
        "class Limits(NamedTuple): ...\nDEFAULT = Limits()",
        "def note():\n  seen = {}\n  seen['a'] = 1",
        "class A:\n  @property\n  def cached(self): ...",
    ],
)
def test_stateless_module_is_not_reported_as_process_state(source: str) -> None:
    assert unlisted.process_state({"memoryhub.planted": ast.parse(source)}) == set()


# Settings


def test_every_backend_is_listed() -> None:
    kinds = (settings.CACHES, settings.CHANNEL_LAYERS, settings.STORAGES)
    found = unlisted.backends(*kinds)
    assert found <= set(BACKENDS)


def test_backend_that_is_unlisted_is_found() -> None:
    files = "django.core.cache.backends.filebased.FileBasedCache"
    found = unlisted.backends(settings.CACHES, {"pages": {"BACKEND": files}})
    assert found - set(BACKENDS) == {files}


def test_content_lives_in_two_databases_and_no_third() -> None:
    assert set(settings.DATABASES) == {"default", "keys"}
    assert settings.SESSION_ENGINE == "django.contrib.sessions.backends.db"


HANDLERS_OF_A_FRESH_PROCESS = """
import json
import os
import django
django.setup()
{planting}
from tests.vault import unlisted
print(json.dumps(sorted(unlisted.log_handlers())))
"""


def handlers(*, planting: str = "") -> set[str]:
    """Return the log handlers of a process without those of pytest."""
    code = HANDLERS_OF_A_FRESH_PROCESS.format(planting=planting)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "memoryhub.settings"},
        check=True,
        capture_output=True,
    )
    return set(json.loads(done.stdout))


def test_every_log_handler_is_listed() -> None:
    assert handlers() <= set(LOG_HANDLERS)


def test_log_handler_that_is_unlisted_is_found(tmp_path: Path) -> None:
    handler = f"logging.FileHandler({str(tmp_path / 'debug.log')!r})"
    planting = f"import logging; logging.getLogger('a.b').addHandler({handler})"
    assert handlers(planting=planting) - set(LOG_HANDLERS) == {"logging.FileHandler"}


def test_every_folder_is_listed() -> None:
    assert unlisted.paths(settings) == set(PATHS)


def test_folder_that_is_unlisted_is_found() -> None:
    folders = SimpleNamespace(
        DATA_DIR=Path("var"), MEDIA_ROOT="/media", SPOOL=Path("spool")
    )
    assert unlisted.paths(folders) - set(PATHS) == {"MEDIA_ROOT", "SPOOL"}
