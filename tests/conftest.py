"""Fixtures for all tests: databases with a key ring, and replay after every write."""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack
from itertools import filterfalse
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.auth.hashers import ScryptPasswordHasher
from django.contrib.contenttypes.management import create_contenttypes
from django.core.management.color import Style
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate
from django.template import engines as engines_of_templates
from django.test import RequestFactory
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from servestatic.middleware import ServeStaticMiddleware

from memoryhub.journal import texts
from memoryhub.journal.rows import statements
from memoryhub.journal.writing.activity import activity
from memoryhub.journal.writing.uses import uses
from memoryhub.journal.writing.writer import BatchCommitter, writer
from memoryhub.models.events import Event
from memoryhub.models.keys import KeyMeta, SigningKey
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.keys import keyring
from tests import crossing, engines, replay, slow
from tests.cast import factories
from tests.cast.missing import Missing
from tests.harness import cluster, parts
from tests.harness.instances import (
    UNLIMITED,
    Instance,
    Server,
    build_database_url,
    drop_model,
    model,
    prepare_instance,
)
from tests.harness.instances import instance as fresh_instance
from tests.oracles import kept

DATABASES = ["default", "keys"]
#: Dispatch uid of Django's receiver that makes them.
PERMISSIONS = "django.contrib.auth.management.create_permissions"


def stay(connection: BaseDatabaseWrapper, **signal: Any) -> None:
    """Let one of a test's databases idle for long within its one transaction."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET idle_in_transaction_session_timeout = 0")
            if cluster.COORDINATOR:
                # Tests put triggers aside, as somebody may who can alter tables.
                cursor.execute("SET citus.enable_unsafe_triggers = on")


connection_created.connect(stay)
connection_created.connect(replay.watch)
connection_created.connect(crossing.watch.connect)
hypothesis_settings.register_profile(
    "memoryhub", deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
hypothesis_settings.load_profile("memoryhub")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    on_postgresql = bool(os.environ.get("DATABASE_URL"))
    if on_postgresql:
        config.hook.pytest_deselected(items=[*filter(engines.sqlite_only, items)])
        items[:] = filterfalse(engines.sqlite_only, items)
    listed = slow.list_names()
    for item in items:
        if slow.name_of(item) in listed:
            item.add_marker("slow")
        if engines.differ(item):
            item.add_marker("engines")
        if on_postgresql and engines.by_night(item):
            item.add_marker("nightly")
        mark = item.get_closest_marker("django_db")
        if mark is None:
            continue
        options = {**mark.kwargs, "databases": mark.kwargs.get("databases", DATABASES)}
        item.add_marker(pytest.mark.django_db(*mark.args, **options), append=False)
    # Long tests begin first, so that no worker is left with one at the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    # Objects loaded by now stay: the collector need not walk them again.
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    # By the process whose run it is, after its workers.
    if os.environ.get("DATABASE_URL") and not hasattr(config, "workerinput"):
        drop_model()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    replay.written.clear()
    outcome = yield
    refused = crossing.watch.take_refused()
    assert not refused, f"a cluster would refuse, see tests/crossing.py: {refused}"
    return outcome


#: Of a test that has failed: what it left is no finding of its own.
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture
def sqlite() -> None:
    """Mark a test of the pass on SQLite alone."""


@pytest.fixture(scope="session", autouse=True)
def static_files_found_once() -> Iterator[None]:
    """Cache the search of static files: each test client loads the middleware anew."""
    find = ServeStaticMiddleware.add_files_from_finders
    found: dict[str, object] = {}

    def add(middleware: ServeStaticMiddleware) -> None:
        if not found:
            find(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServeStaticMiddleware, "add_files_from_finders", add)
        yield


@pytest.fixture(scope="session", autouse=True)
def browsers_on_the_machine() -> Iterator[None]:
    """Let Django's clients send what a browser beside the server would send."""
    # The stubs leave it out.
    environ: Any = vars(RequestFactory)["_base_environ"]

    def near(factory: RequestFactory, **headers: Any) -> Any:
        host = {"SERVER_NAME": "localhost"}
        return environ(factory, **{**host, **factory.defaults, **headers})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RequestFactory, "_base_environ", near)
        yield


@pytest.fixture(scope="session", autouse=True)
def whole_contexts() -> Iterator[None]:
    """Fail a test whose template uses a name that its context lacks."""
    with pytest.MonkeyPatch.context() as patch:
        engine = engines_of_templates["django"].engine  # type: ignore[attr-defined]
        patch.setattr(engine, "string_if_invalid", Missing("missing"))
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash passwords as sign-in does, with a work factor that costs no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScryptPasswordHasher, "work_factor", 2**4)
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> Iterator[None]:
    """Make the flush cheap by which each test with its own transactions ends.

    Django would write rows about models anew, which nothing reads; PostgreSQL, told to
    truncate, a new file for every table and every index.
    """
    assert post_migrate.disconnect(create_contenttypes)
    assert post_migrate.disconnect(dispatch_uid=PERMISSIONS)
    with pytest.MonkeyPatch.context() as patch:
        for alias in DATABASES:
            if connections[alias].vendor == "postgresql":
                patch.setattr(type(connections[alias].ops), "sql_flush", deletes)
        yield


def deletes(
    operations: object, style: Style, tables: Iterable[str], **options: bool
) -> list[str]:
    # Foreign keys are looked at when the transaction ends.
    return [f'DELETE FROM "{table}"' for table in tables]


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_modify_db_settings: None) -> Iterator[bool]:
    """Begin tests with copies of migrated databases."""
    given = model()
    shutil.copy(given.data / settings.KEK_FILE.name, settings.KEK_FILE)
    tests = [connections.databases[alias] for alias in DATABASES]
    if not given.urls:
        for each in tests:
            file = given.data / Path(each["NAME"]).name
            shutil.copy(file, each["TEST"]["NAME"])
        yield True
        return
    urls = [build_database_url(given.urls[0], each["TEST"]["NAME"]) for each in tests]
    for source, url in zip(given.urls, urls, strict=True):
        parts.copy(source, url)
    yield True
    for url in urls:
        parts.drop(url)


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    with django_db_blocker.unblock():
        if cluster.COORDINATOR:
            cluster.distribute(connections["default"].settings_dict["NAME"])
        prepare_keys()
        # The model's list of keys lies in its own folder, and each test has another.
        SigningKey.objects.all().delete()
    yield
    with django_db_blocker.unblock():
        hang_up()


def hang_up() -> None:
    """End the connections that coroutines and threads of tests left behind.

    PostgreSQL drops no database that is in use.
    """
    for alias in DATABASES:
        if connections[alias].vendor == "postgresql":
            with connections[alias].cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )


@pytest.fixture(scope="module")
def standing(
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Keep what fixtures of a module write for all of its tests, then roll it back.

    Each test is rolled back to that. Not beside tests with transactions of their own.
    """
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(settings, "LEDGER", tmp_path_factory.mktemp("ledger") / "it")
        stack.enter_context(django_db_blocker.unblock())
        for alias in DATABASES:
            stack.enter_context(transaction.atomic(using=alias))
            stack.callback(transaction.set_rollback, True, using=alias)
        prepare_keys()
        writer.journal = BatchCommitter()
        yield


def prepare_keys() -> None:
    """Make the key ring again, if the flush after a transactional test took it."""
    if not KeyMeta.objects.exists():
        keyring.prepare(empty=True)


@pytest.fixture(autouse=True)
def every_journal_replays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that whatever a test wrote folds to the stored rows."""
    mark = request.node.get_closest_marker("django_db")
    if mark is None:
        yield
        return
    committed = bool(mark.kwargs.get("transaction"))
    request.getfixturevalue("_django_db_helper")
    prepare_keys()
    yield
    try:
        wanted = request.node.get_closest_marker("no_replay") is None
        if wanted and not request.node.stash[FAILED]:
            replay.check(request.node, committed=committed)
    finally:
        # Also after one that does not, or each test behind it would fail with it.
        if committed:
            # The lawful way to remove events, so that the flush finds none.
            Thread.objects.update(status=Thread.Status.IMPORTING)
            with transaction.atomic():
                ids = Event.objects.values_list("thread_id", flat=True).distinct()
                statements.announce_removal([*ids])
                Event.objects.all().delete()
            kept.sweep()


@pytest.fixture(autouse=True)
def fresh_ledger(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Give each test a ledger of its own: databases roll back, and files do not."""
    folder = tmp_path_factory.getbasetemp() / f"ledger-{uuid4()}"
    if "standing" in request.fixturenames and settings.LEDGER.is_dir():
        # Module-wide records continue the ledger that they began.
        shutil.copytree(settings.LEDGER, folder)
    # One of its own: a test may undo what it has patched, and goes on here.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "LEDGER", folder)
        yield


@pytest.fixture(autouse=True)
def fresh_writer() -> Iterator[None]:
    """Drop the state of another test's threads, and any running writer."""
    writer.journal = BatchCommitter()
    uses.clear()
    activity.clear()
    # Where another test's event stood and was rolled back, there may be one of this.
    texts.texts.clear()
    texts.newest.clear()
    yield
    if writer.is_running:
        writer.stop()


@pytest.fixture(autouse=True)
def travelling_clock() -> Iterator[None]:
    """Let the process's clock follow a test that travels in time."""
    clock.use_source(time.time_ns)
    yield
    # What a module sets up comes before the next test's turn.
    clock.use_source(time.time_ns)


@pytest.fixture
def acme(db: None) -> Project:
    return factories.make_project("acme")


@pytest.fixture
def zeta(db: None) -> Project:
    return factories.make_project("zeta")


@pytest.fixture
def agent(acme: Project) -> Agent:
    """Return a key of acme that reads and writes."""
    return factories.make_agent(acme)


@pytest.fixture
def stranger(zeta: Project) -> Agent:
    """Return a key of another project."""
    return factories.make_agent(zeta)


@pytest.fixture
def not_run_here(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a tokenizer whose extra is not installed: agents count for themselves."""
    monkeypatch.setattr(tokenizers, "_held", {"o200k_base": None})
    return "o200k_base"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Instance]:
    """Yield an instance that nothing has touched."""
    with fresh_instance(tmp_path / "instance") as made:
        yield made


@pytest.fixture
def instance(empty: Instance) -> Instance:
    """Return an instance with its tables and its key ring, and nothing in it."""
    empty.prepare()
    return empty


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """Yield an instance for all tests of a module, each with its own project."""
    with prepare_instance(tmp_path_factory.mktemp("shared") / "instance") as made:
        yield made
        made.managed("verify", "--all")


@pytest.fixture(scope="module")
def served(shared: Instance) -> Iterator[Server]:
    """Yield the server of `shared`, which none of its tests ends."""
    with shared.serve(**UNLIMITED) as server:
        yield server
        server.stop()


@pytest.fixture
def redis_url() -> Iterator[str]:
    try:
        with parts.redis() as urls:
            yield urls["REDIS_URL"]
    except parts.MissingPartError as missing:
        pytest.skip(str(missing))
