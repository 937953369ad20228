"""Readiness: names what is degraded, and refuses only when nothing can be served."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from memoryhub.journal import writer
from memoryhub.journal.log.announce import doorbell
from memoryhub.models.erasures import Erasure
from memoryhub.models.keys import KekCheck
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import SECOND_NS, clock
from memoryhub.models.server.leases import Lease
from memoryhub.queries.verify import health
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keyring
from memoryhub.workers import expiry, leases
from tests.oracles.memory_acts import set_key

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def served(transactional_db: None) -> Iterator[None]:
    """Run a server's parts: an instance with its ring, the writer, a beating worker."""
    keyring.prepare(empty=True)
    leases.hold("reconcile", holder=uuid4(), now=timezone.now())
    writer.start()
    yield
    writer.stop()
    doorbell.broken = False


def test_readiness_is_ok_when_all_parts_are() -> None:
    readiness = health.get_readiness()
    assert readiness.serving
    assert readiness.degraded == []
    plain = readiness.to_json()
    assert plain["status"] == "ok"
    assert set(plain["parts"]) == {
        *("clock", "journal", "keys", "writer", "live", "worker", "expiry"),
        "erasures",
    }
    assert plain["parts"]["erasures"] == {"state": "ok", "late": 0, "broken": 0}
    assert plain["parts"]["expiry"] == {"state": "ok", "lag_seconds": 0}


def test_readiness_reports_a_lost_doorbell_and_keeps_serving() -> None:
    doorbell.broken = True
    readiness = health.get_readiness()
    assert (readiness.serving, readiness.degraded) == (True, ["live"])
    assert readiness.to_json()["status"] == "degraded"


@pytest.mark.parametrize(("seconds", "degraded"), [(50, []), (70, ["worker"])])
def test_readiness_reports_a_silent_worker(seconds: int, degraded: list[str]) -> None:
    Lease.objects.update(beaten_at=timezone.now() - timedelta(seconds=seconds))
    readiness = health.get_readiness()
    assert (readiness.serving, readiness.degraded) == (True, degraded)


def test_readiness_is_unavailable_while_the_clock_is_off() -> None:
    clock.compare(90 * SECOND_NS)
    readiness = health.get_readiness()
    assert (readiness.serving, readiness.degraded) == (False, ["clock"])
    assert readiness.parts["clock"].figures == {"behind_seconds": 90.0}


def test_readiness_reports_a_worker_with_another_clock() -> None:
    Lease.objects.update(beaten_at=timezone.now() + timedelta(days=90))
    assert health.get_readiness().degraded == ["worker"]


def test_readiness_reports_a_worker_that_never_ran() -> None:
    Lease.objects.all().delete()
    readiness = health.get_readiness()
    assert readiness.degraded == ["worker"]
    assert readiness.parts["worker"].figures == {"age_seconds": None}


def test_readiness_reports_a_crowded_queue(settings: Settings) -> None:
    settings.QUEUE_COMMANDS = -1
    readiness = health.get_readiness()
    assert (readiness.serving, readiness.degraded) == (True, ["writer"])


def test_readiness_is_unavailable_without_the_writer() -> None:
    writer.stop()
    readiness = health.get_readiness()
    assert (readiness.serving, readiness.degraded) == (False, ["writer"])
    assert readiness.to_json()["status"] == "unavailable"


def test_readiness_is_unavailable_without_the_key_ring(
    settings: Settings, tmp_path: Path
) -> None:
    settings.KEK_FILE = tmp_path / "gone.json"
    keyring.reset()
    readiness = health.get_readiness()
    assert (readiness.serving, readiness.degraded) == (False, ["keys"])
    keyring.reset()


def test_readiness_reports_a_foreign_keys_database() -> None:
    KekCheck.objects.using("keys").all().delete()
    assert health.get_readiness().parts["keys"].state == "away"


def test_readiness_reports_a_memory_database_without_an_instance() -> None:
    Instance.objects.all().delete()
    readiness = health.get_readiness()
    assert readiness.degraded == ["journal"]
    assert not readiness.serving


def test_health_route_answers_200_or_503(client: Client) -> None:
    assert client.get("/health/live").json() == {"status": "ok"}
    assert client.get("/health/ready").status_code == 200
    writer.stop()
    answer = client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json()["degraded"] == ["writer"]
    assert client.get("/health/live").status_code == 200


@pytest.mark.parametrize(("seconds", "degraded"), [(60, []), (61, ["expiry"])])
def test_readiness_reports_stalled_expiry(
    agent: Agent, seconds: int, degraded: list[str]
) -> None:
    """Expiry counts as stalled after a minute: reads and writes do not wait for it."""
    now = timezone.now().replace(microsecond=0)
    with time_machine.travel(now - timedelta(seconds=100), tick=False):
        set_key(agent, "a", ttl=timedelta(seconds=100 - seconds))
    with time_machine.travel(now, tick=False):
        readiness = health.get_readiness()
    assert (readiness.serving, readiness.degraded) == (True, degraded)
    assert readiness.parts["expiry"].figures == {"lag_seconds": seconds}
    expiry.expire(now)
    with time_machine.travel(now, tick=False):
        assert health.get_readiness().degraded == []


def test_readiness_keeps_serving_when_the_expiry_lag_is_unknown() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE memoryhub_key RENAME TO elsewhere")
        try:
            readiness = health.get_readiness()
        finally:
            cursor.execute("ALTER TABLE elsewhere RENAME TO memoryhub_key")
    assert (readiness.serving, readiness.degraded) == (True, ["expiry"])
    assert readiness.parts["expiry"].figures["lag_seconds"] is None


def test_expiry_lateness_follows_the_configured_interval(
    agent: Agent, settings: Settings
) -> None:
    settings.EXPIRY_INTERVAL_SECONDS = 3600
    now = timezone.now()
    with time_machine.travel(now - timedelta(seconds=3700), tick=False):
        set_key(agent, "a", ttl=timedelta(seconds=70))
    with time_machine.travel(now, tick=False):
        assert health.get_readiness().degraded == []
    with time_machine.travel(now + timedelta(seconds=1), tick=False):
        assert health.get_readiness().parts["expiry"].state == "degraded"


def test_readiness_costs_five_queries_of_the_memory_database(
    django_assert_num_queries: Any,
) -> None:
    with django_assert_num_queries(5):
        health.get_readiness()


def test_readiness_reports_a_long_running_erasure(agent: Agent) -> None:
    """A plan that nobody confirmed is no running erasure, nor is a complete one."""
    subject = subjects.get_anonymous(agent.project)
    row = erasures.plan(subject, scope="subject", reason="test", actor="command")
    then = timezone.now() + timedelta(minutes=5, seconds=1)
    with time_machine.travel(then, tick=False):
        assert health.get_readiness().parts["erasures"].state == "ok"
    Erasure.objects.filter(id=row.id).update(confirmed_at=timezone.now())
    assert health.get_readiness().parts["erasures"].state == "ok"
    with time_machine.travel(then, tick=False):
        found = health.get_readiness().parts["erasures"]
        assert (found.state, found.figures) == ("degraded", {"late": 1, "broken": 0})
        Erasure.objects.filter(id=row.id).update(state="complete")
        assert health.get_readiness().parts["erasures"].state == "ok"
