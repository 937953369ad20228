"""Warnings of `check --deploy` about the database, Redis and our configuration."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
import redis
from django.core.checks import CheckMessage, Error, run_checks
from django.db import connections
from pytest_django import Settings

from memoryhub.queries.verify import server_checks
from tests.harness.instances import Instance

BOTH = ["default", "keys"]


def list_ids(found: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in found]


# Our own configuration


def test_deploy_check_is_clean(empty: Instance) -> None:
    right = {
        "MEMORYHUB_SECRET_KEY": secrets.token_urlsafe(64),
        "MEMORYHUB_TLS": "1",
        "MEMORYHUB_HOSTS": "m.example",
        "MEMORYHUB_ORIGINS": "https://m.example",
        "MEMORYHUB_TRUSTED_PROXIES": "127.0.0.1",
        "MEMORYHUB_KEK_FILE": str(empty.folder / "elsewhere" / "kek.json"),
    }
    done = empty.manage("check", "--deploy", "--fail-level", "WARNING", **right)
    assert "no issues (0 silenced)" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    wrong = {**right, "MEMORYHUB_ALLOW_PASSWORD_ONLY": "1"}
    done = empty.manage("check", "--deploy", "--fail-level", "WARNING", **wrong)
    assert "memoryhub.W002" in done.stderr
    assert done.returncode == 1


# PostgreSQL


@pytest.mark.django_db
def test_deploy_check_warns_of_a_log_with_values() -> None:
    if connections["default"].vendor != "postgresql":
        assert server_checks.database_logs(databases=BOTH) == []
        return
    found = server_checks.database_logs(databases=BOTH)
    # The default: of the three settings only parameters are kept out.
    assert list_ids(found) == ["memoryhub.W003"] * 4
    for alias in BOTH:
        with connections[alias].cursor() as cursor:
            for name, value in server_checks.QUIET.items():
                cursor.execute(f"SET LOCAL {name} = {value}")
    assert server_checks.database_logs(databases=BOTH) == []
    with connections["keys"].cursor() as cursor:
        cursor.execute("SET LOCAL log_parameter_max_length_on_error = -1")
    (left,) = server_checks.database_logs(databases=BOTH)
    assert "the database keys" in left.msg
    assert "log_parameter_max_length_on_error is -1" in left.msg


@pytest.mark.django_db
def test_deploy_check_warns_of_a_limit_that_a_pooler_drops() -> None:
    if connections["default"].vendor != "postgresql":
        assert server_checks.database_limits(databases=BOTH) == []
        return
    for alias in BOTH:
        with connections[alias].cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '30s'")
    assert server_checks.database_limits(databases=BOTH) == []
    with connections["keys"].cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
    (left,) = server_checks.database_limits(databases=BOTH)
    assert left.id == "memoryhub.W009"
    assert "the database keys have no limit: statement_timeout" in left.msg


@pytest.mark.django_db
def test_deploy_check_warns_of_a_superuser() -> None:
    if connections["default"].vendor != "postgresql":
        assert server_checks.database_roles(databases=BOTH) == []
        return
    assert (
        list_ids(server_checks.database_roles(databases=BOTH)) == ["memoryhub.W004"] * 2
    )
    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE ROLE mh_plain NOSUPERUSER")
        cursor.execute("SET LOCAL ROLE mh_plain")
        (left,) = server_checks.database_roles(databases=BOTH)
        cursor.execute("RESET ROLE")
    assert "keys" in left.msg


@pytest.mark.django_db
def test_deploy_check_opens_only_named_databases() -> None:
    """Without both options `check` opens no connection."""
    lite = connections["default"].vendor == "sqlite"
    ours = {"memoryhub.W003", "memoryhub.W004"}
    named = run_checks(databases=BOTH, include_deployment_checks=True)
    assert ours.intersection(list_ids(named)) == (set() if lite else ours)
    for found in (
        run_checks(include_deployment_checks=True),
        run_checks(databases=BOTH),
    ):
        assert ours.isdisjoint(list_ids(found))


# Redis


def test_deploy_check_refuses_a_redis_that_saves(
    settings: Settings, redis_url: str
) -> None:
    settings.REDIS_URL = redis_url
    assert server_checks.redis_saves() == []
    with redis.Redis.from_url(redis_url) as client:
        for name, wrong in (("save", "60 1000"), ("appendonly", "yes")):
            client.config_set(name, wrong)
            (found,) = server_checks.redis_saves()
            assert isinstance(found, Error)
            assert found.id == "memoryhub.E001"
            assert name in found.msg
            assert found in run_checks(include_deployment_checks=True)
            client.config_set(name, server_checks.UNSAVED[name])
    assert server_checks.redis_saves() == []


def test_deploy_check_warns_of_a_redis_that_does_not_answer(
    settings: Settings, tmp_path: Path
) -> None:
    settings.REDIS_URL = f"unix://{tmp_path / 'none.sock'}"
    assert list_ids(server_checks.redis_saves()) == ["memoryhub.W005"]
    assert server_checks.is_redis_silent()


def test_redis_that_answers_is_not_silent(settings: Settings, redis_url: str) -> None:
    settings.REDIS_URL = redis_url
    assert not server_checks.is_redis_silent()


def test_deploy_check_is_silent_without_redis(settings: Settings) -> None:
    settings.REDIS_URL = ""
    assert server_checks.redis_saves() == []


# Exposed settings


def test_deploy_check_warns_of_a_known_secret(settings: Settings) -> None:
    settings.SECRET_KEY = settings.DEFAULT_SECRET_KEY
    (found,) = server_checks.secret()
    assert found.id == "memoryhub.W007"
    assert found in run_checks(include_deployment_checks=True)
    settings.SECRET_KEY = secrets.token_urlsafe(50)
    assert server_checks.secret() == []


def test_deploy_check_warns_of_hosts_without_a_proxy(settings: Settings) -> None:
    assert server_checks.proxies() == []
    settings.HOSTS = ["m.example"]
    assert list_ids(server_checks.proxies()) == ["memoryhub.W008"]
    settings.TRUSTED_PROXIES = ["127.0.0.1"]
    assert server_checks.proxies() == []
