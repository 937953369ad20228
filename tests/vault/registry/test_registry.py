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
from django.apps import apps
from django.conf import settings
from django.db import models
from django.test.utils import isolate_apps

from memoryhub.journal.forget import purging
from memoryhub.models.threads import Thread
from memoryhub.services.forget import erasure_steps
from memoryhub.vault.keys import keys
from memoryhub.vault.registry.other_places import BACKENDS, LOG_HANDLERS, PATHS, PROCESS
from memoryhub.vault.registry.registry import TABLES, Fate, Holds, Table
from tests.vault import unlisted

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def installed() -> list[type[models.Model]]:
    return apps.get_models(include_auto_created=True)


def planted(**fields: models.Field[Any, Any]) -> type[models.Model]:
    """A model that nobody has listed; to be made where apps are isolated."""
    meta = type("Meta", (), {"app_label": "memoryhub"})
    named = {**fields, "Meta": meta, "__module__": __name__}
    return type("Planted", (models.Model,), named)


# Tables


def test_every_field_is_listed_and_holds_what_it_may() -> None:
    assert unlisted.fields(installed(), TABLES) == []


def test_whoever_refers_to_a_subject_says_how_she_is_found() -> None:
    assert unlisted.unfindable(installed(), TABLES) == []


def test_what_is_found_by_subject_is_erased_and_counts() -> None:
    for label, table in TABLES.items():
        # What stays may tell of her by a pseudonym, by which nobody finds a row.
        unfound = (Fate.NOT_ITS, Fate.STAYS)
        assert table.subject or table.forget in unfound, label
        assert not (table.subject and table.forget is Fate.NOT_ITS), label
        content = Holds.SEALED | Holds.NAME
        about_her = any(holds & content for holds in table.fields.values())
        if table.subject and about_her:
            assert table.forget is not Fate.STAYS, label


#: Who takes her part where it is not by deleting rows; each has tests of its own, and
#: `forget_is_complete` has rows of every place that must be gone.
ERASERS: dict[str, Callable[..., object]] = {
    "memoryhub.Event": purging.thread_batches,
    "memoryhub.Thread": purging.thread_batches,
    "memoryhub.Subject": erasure_steps.purge,
    "memoryhub.SubjectKey": keys.destroy,
}


def test_whatever_goes_has_an_eraser() -> None:
    assert unlisted.unerased(TABLES, ERASERS) == []
    assert unlisted.unerased(TABLES, ()) == sorted(ERASERS)


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
def test_what_no_eraser_reaches_is_found(forget: Fate, subject: str) -> None:
    label = "memoryhub.ThreadLabel"
    table = replace(TABLES[label], forget=forget, subject=subject)
    assert unlisted.unerased({**TABLES, label: table}, ERASERS) == [label]


@pytest.mark.django_db(databases=["default", "keys"])
@pytest.mark.parametrize("label", [name for name, row in TABLES.items() if row.subject])
def test_each_lookup_reaches_a_subject(label: str) -> None:
    lookup = TABLES[label].subject
    assert lookup is not None
    rows = apps.get_model(label)._default_manager.filter(**{lookup: uuid4()})
    assert rows.count() == 0


@isolate_apps("memoryhub")
@pytest.mark.parametrize(
    ("field", "holds", "complaint"),
    [
        (models.TextField(), None, "unlisted"),
        (models.JSONField(), None, "unlisted"),
        (models.IntegerField(), None, "unlisted"),
        (models.TextField(), Holds.SEALED, "must not hold"),
        (models.CharField(max_length=9), Holds.NUMBER, "must not hold"),
        (models.CharField(max_length=9), Holds.NAME, "must not hold"),
        (models.BinaryField(), Holds.NAME, "must not hold"),
        (models.BinaryField(), Holds(0), "must not hold"),
        (models.FileField(), Holds.STAFF, "must not hold"),
        (models.ImageField(), Holds.SEALED, "must not hold"),
        (models.DurationField(), Holds.NUMBER, "must not hold"),
        (models.DateTimeField(), Holds.NAME, "must not hold"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, models.Field) else None,
)
def test_a_field_that_is_unlisted_or_wrong_fails(
    field: models.Field[Any, Any], holds: Holds | None, complaint: str
) -> None:
    listed = {"id": Holds.ID} | ({} if holds is None else {"note": holds})
    registry = {"memoryhub.Planted": Table(fields=listed)}
    found = unlisted.fields([planted(note=field.clone())], registry)
    assert [complaint in line and ".note" in line for line in found] == [True]


@isolate_apps("memoryhub")
def test_a_model_that_is_unlisted_fails() -> None:
    found = unlisted.fields([*installed(), planted()], TABLES)
    assert found == ["memoryhub.Planted is unlisted"]


def test_an_entry_without_its_model_or_field_fails() -> None:
    without = [model for model in installed() if model is not Thread]
    assert unlisted.fields(without, TABLES) == ["memoryhub.Thread is listed but gone"]
    fields = {**TABLES["memoryhub.Turn"].fields, "note": Holds.NAME}
    more = {**TABLES, "memoryhub.Turn": Table(fields=fields)}
    assert unlisted.fields(installed(), more) == ["memoryhub.Turn.note is gone"]


@isolate_apps("memoryhub")
def test_a_reference_without_a_way_to_find_it_fails() -> None:
    model = planted(thread=models.ForeignKey(Thread, models.CASCADE, related_name="+"))
    registry = {"memoryhub.Planted": Table(fields={})}
    assert unlisted.unfindable([model], registry) == ["memoryhub.Planted"]


# What lives in a process


def test_every_process_lifetime_cache_is_listed() -> None:
    found = unlisted.process_state(unlisted.sources(ROOT, "memoryhub", "inspector"))
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
def test_a_cache_that_is_unlisted_is_found(source: str, name: str) -> None:
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
def test_what_holds_nothing_is_let_by(source: str) -> None:
    assert unlisted.process_state({"memoryhub.planted": ast.parse(source)}) == set()


# Settings


def test_every_backend_is_listed() -> None:
    found = unlisted.backends(settings.CACHES, settings.CHANNEL_LAYERS)
    assert found <= set(BACKENDS)


def test_a_backend_that_is_unlisted_is_found() -> None:
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
    """Of a process that pytest has not added its own to."""
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


def test_a_log_handler_that_is_unlisted_is_found(tmp_path: Path) -> None:
    handler = f"logging.FileHandler({str(tmp_path / 'debug.log')!r})"
    planting = f"import logging; logging.getLogger('a.b').addHandler({handler})"
    assert handlers(planting=planting) - set(LOG_HANDLERS) == {"logging.FileHandler"}


def test_every_folder_is_listed() -> None:
    assert unlisted.paths(settings) == set(PATHS)


def test_a_folder_that_is_unlisted_is_found() -> None:
    folders = SimpleNamespace(
        DATA_DIR=Path("var"), MEDIA_ROOT="/media", SPOOL=Path("spool")
    )
    assert unlisted.paths(folders) - set(PATHS) == {"MEDIA_ROOT", "SPOOL"}
