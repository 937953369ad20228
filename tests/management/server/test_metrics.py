"""Metrics of a real server: their format, who may read them, and the board."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.api import metrics
from memoryhub.models.keys import KekCheck
from memoryhub.models.server.clock import clock
from memoryhub.queries.verify import health
from tests.harness.instances import Instance, Server
from tests.management.server.test_serve import append, ask, make_key

BOARD = Path(__file__).parents[3] / "deploy" / "grafana.json"
_META = re.compile(r"# (HELP|TYPE) ([a-z_]+) (.+)")
_SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\]*",?)+)\})? (-?[\d.e+-]+)')
_LABEL = re.compile(r'([a-z]+)="([^"]*)"')
_METRIC = re.compile(r"\b(?:memoryhub|process)_[a-z_]+")
#: The only labels: none may name a project, a thread, a key or a person.
LABELS = {"route", "code", "kind", "version", "le"}


def parse(text: str) -> dict[str, dict[str, float]]:
    """Parse as promtool checks: samples by metric, each below its HELP and TYPE."""
    found: dict[str, dict[str, float]] = {}
    kind = name = ""
    for line in text.removesuffix("\n").split("\n"):
        if meta := _META.fullmatch(line):
            if meta[1] == "HELP":
                name = meta[2]
                assert name not in found
                found[name] = {}
            else:
                assert meta[2] == name
                kind = meta[3]
                assert kind in {"counter", "gauge", "histogram"}
                assert (kind == "counter") == name.endswith("_total")
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample, line
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        assert sample[1] in {name + suffix for suffix in suffixes}
        assert {label for label, _ in _LABEL.findall(sample[2] or "")} <= LABELS
        key = f"{sample[1]}{{{sample[2] or ''}}}"
        assert key not in found[name]
        found[name][key] = float(sample[3])
    return found


def read(server: Server, **headers: str) -> dict[str, dict[str, float]]:
    status, body = ask(server, "GET", "/metrics", **headers)
    assert status == 200, body
    return parse(body.decode())


def test_metrics_count_what_a_server_did(empty: Instance) -> None:
    key = make_key(empty)
    with empty.serve() as server:
        assert append(server, key, "secret-1", "hello") == 201
        assert append(server, key, "secret-1", "again") == 201
        assert ask(server, "GET", "/api/v1/nowhere/secret-1")[0] == 404
        found, text = read(server), ask(server, "GET", "/metrics")[1].decode()
        board = json.loads(BOARD.read_text())
    answers = found["memoryhub_requests_total"]
    route = 'route="POST /threads/{thread}/slots"'
    assert answers == {
        f'memoryhub_requests_total{{{route},code="2xx"}}': 2,
        'memoryhub_requests_total{route="other",code="4xx"}': 1,
    }
    assert found["memoryhub_events_total"]["memoryhub_events_total{}"] >= 3
    assert set(found["memoryhub_part_ok"].values()) == {1}
    assert found["memoryhub_disk_free_bytes"]["memoryhub_disk_free_bytes{}"] > 0
    is_sqlite = connection.vendor == "sqlite"
    assert len(found["memoryhub_database_bytes"]) == (2 if is_sqlite else 0)
    assert all(size > 4_096 for size in found["memoryhub_database_bytes"].values())
    for name in (
        "memoryhub_request_duration_seconds",
        "memoryhub_commit_duration_seconds",
    ):
        buckets = defaultdict(list)
        for sample, value in found[name].items():
            of, _, _ = sample.partition("le=")
            buckets[of.rstrip(",")].append(value)
        counts = [each for sample, each in buckets.items() if "_bucket" in sample]
        ends = [v for s, (v, *_) in buckets.items() if s.startswith(f"{name}_count")]
        assert [each[-1] for each in counts] == ends
        assert all(each == sorted(each) for each in counts)
    assert "secret" not in text
    assert key[:20] not in text
    assert 0 < len(board["panels"]) <= 12
    named = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for panel in board["panels"]
        for target in panel["targets"]
        for name in _METRIC.findall(target["expr"])
    }
    assert named - found.keys() == set()


@pytest.mark.django_db(databases=["default", "keys"])
def test_scrape_queries_what_readiness_queries() -> None:
    with CaptureQueriesContext(connection) as ready:
        health.get_readiness()
    with CaptureQueriesContext(connection) as scrape:
        metrics.render_metrics(page_sockets=0)
    assert len(scrape) == len(ready) > 0


@pytest.mark.django_db(databases=["default", "keys"])
def test_age_of_a_key_ring_without_a_backup_is_no_sample() -> None:
    name = "memoryhub_keyring_backup_age_seconds"
    assert not parse(metrics.render_metrics(page_sockets=0))[name]
    backed_up_at = clock.now() - timedelta(days=2)
    KekCheck.objects.using("keys").update(backed_up_at=backed_up_at)
    (age,) = parse(metrics.render_metrics(page_sockets=0))[name].values()
    assert 172_800 <= age < 172_900


@pytest.mark.parametrize(
    ("scopes", "status"), [(None, 401), ("memory:read", 403), ("admin", 200)]
)
def test_metrics_off_this_machine_need_an_admin_key(
    empty: Instance, scopes: str | None, status: int
) -> None:
    empty.managed("create_project", "acme")
    away = {"X_Forwarded_For": "192.0.2.1"}
    if scopes:
        key = empty.managed("create_key", "acme", f"--scopes={scopes}").strip()
        away["Authorization"] = f"Bearer {key}"
    with empty.serve() as server:
        assert ask(server, "GET", "/metrics", **away)[0] == status
        assert ask(server, "POST", "/metrics")[0] in {403, 405}
