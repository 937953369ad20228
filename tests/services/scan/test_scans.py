from __future__ import annotations

import errno
import json
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings as configured
from django.contrib.sessions.backends.db import SessionStore
from django.db import connections, transaction
from pytest_django import Settings

from memoryhub.journal import audit
from memoryhub.journal.forget import scrub
from memoryhub.models.access.operators import Operator
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.scan.residue import list_residue
from memoryhub.queries.scan.surface_kinds import LARGE, SurfaceKind
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.scan import scan_probes, scans
from memoryhub.services.scan.scan_targets import ScanTargets
from memoryhub.services.scan.scans import HitStanding, ScanResult
from memoryhub.vault.scan import containers, targets
from memoryhub.vault.scan.sources import TargetSearch
from memoryhub.vault.scan.targets import ScanTarget, TargetKind
from tests.cast.factories import append, make_thread

POSTGRES = "postgresql" in configured.DATABASES["default"]["ENGINE"]


@pytest.fixture
def text() -> str:
    """Return a text with spaces that stands nowhere else."""
    return f"{secrets.token_hex(8)} of {secrets.token_hex(8)}"


def group_standings(verdict: ScanResult) -> dict[str, set[HitStanding]]:
    found: dict[str, set[HitStanding]] = {}
    for hit in verdict.hits:
        found.setdefault(hit.surface, set()).add(hit.standing)
    return found


def nonce(thread: Thread) -> ScanTarget:
    event = thread.events.exclude(payload=None).latest("seq")
    assert event.payload is not None
    return targets.build_nonce_target(bytes(event.payload))


def scan(
    wanted: Sequence[ScanTarget],
    *,
    subjects: Sequence[UUID] = (),
    threads: Sequence[UUID] = (),
    budget_bytes: int | None = scans.BUDGET_BYTES,
) -> ScanResult:
    sought = ScanTargets(
        by_erasure={UUID(int=0): wanted},
        subjects=frozenset(subjects),
        threads=frozenset(threads),
    )
    return scans.scan_surfaces(sought, budget_bytes=budget_bytes)[0]


def postgres_log() -> list[bytes]:
    """Return what PostgreSQL's write-ahead log holds, a segment each."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT current_setting('data_directory')")
        (folder,) = cursor.fetchone()
    while True:
        # A checkpoint may rename segments meanwhile; then the loop lists segments anew.
        with suppress(FileNotFoundError):
            return [path.read_bytes() for path in Path(folder, "pg_wal").glob("0*")]


def delete_rows(thread: Thread) -> None:
    """Delete the thread's rows, by the lawful way to be rid of events."""
    Thread.objects.filter(id=thread.id).update(status=Thread.Status.IMPORTING)
    with connections["default"].cursor() as cursor:
        for table in ("event", "snapshot", "slot", "turn", "threadlabel"):
            cursor.execute(
                f"DELETE FROM memoryhub_{table} WHERE thread_id = %s",
                [thread.id if POSTGRES else thread.id.hex],
            )


# Scans are valid if they find their probes


@pytest.mark.django_db(transaction=True)
def test_scan_finds_its_probes_and_lists_its_surfaces() -> None:
    seen = 0

    def progress(amount: int) -> None:
        nonlocal seen
        seen += amount

    verdict, _ = scans.scan_surfaces(ScanTargets(), progress=progress)
    assert verdict.self_test == dict.fromkeys(scan_probes.build_probes(), True)
    assert verdict.is_clean
    assert not verdict.is_void
    assert seen == verdict.scanned_bytes > 0
    wanted = {
        SurfaceKind.NAMES,
        SurfaceKind.FILE,
        SurfaceKind.SCHEMA,
        SurfaceKind.ROWS,
        SurfaceKind.UNLISTED,
    }
    wanted |= set() if POSTGRES else {SurfaceKind.DATABASE}
    assert wanted <= set(verdict.surfaces)
    assert scans.measure_extent() > 0


@pytest.mark.django_db(transaction=True)
def test_scan_without_a_decoder_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_HEADS", re.compile(rb"(?!)"))
    verdict = scan([])
    assert {each for each, found in verdict.self_test.items() if not found} == {
        *("zlib", "gzip", "zip")
    }
    assert verdict.is_void
    assert not verdict.is_clean
    assert verdict.undeclared == 0


@pytest.mark.parametrize(
    ("failure", "trouble"),
    [(OSError(errno.ENOSPC, "full"), "disk"), (OSError(errno.EACCES, "no"), "store")],
)
@pytest.mark.django_db(transaction=True)
def test_scan_without_planted_probes_is_void(
    monkeypatch: pytest.MonkeyPatch, failure: OSError, trouble: str
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise failure

    monkeypatch.setattr(Path, "write_bytes", fail)
    verdict = scan([])
    assert verdict.is_void
    assert not verdict.is_clean
    assert verdict.trouble == trouble


@pytest.mark.django_db(transaction=True)
def test_unreachable_store_is_named(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path
) -> None:
    monkeypatch.setattr(scan_probes, "_plant_in_redis", lambda probes, key: None)
    settings.REDIS_URL = f"unix://{tmp_path / 'none.sock'}"
    verdict = scan([])
    assert verdict.unreachable == ("redis redis",)
    assert verdict.trouble == "store"
    assert not verdict.is_clean


# Findings, and whether they are lawful


@pytest.mark.no_replay
@pytest.mark.django_db(transaction=True)
def test_sealed_bytes_are_found_until_they_are_gone(agent: Agent) -> None:
    thread, twin = make_thread(agent, "gone"), make_thread(agent, "stays")
    append(agent, thread.name, "some content of hers")
    append(agent, twin.name, "some content of hers")
    ours, theirs = nonce(thread), nonce(twin)
    found = group_standings(scan([ours], threads=[thread.id]))
    assert (
        found[SurfaceKind.ROWS]
        == found[SurfaceKind.OWN_ROWS]
        == {HitStanding.UNDECLARED}
    )
    assert POSTGRES or SurfaceKind.WAL in found
    delete_rows(thread)
    assert scrub.scrub(seconds=30) == ""

    after = scan([ours], threads=[thread.id])
    assert after.is_clean
    assert after.hits == ()
    if POSTGRES:
        # The write-ahead log still has the bytes, as declared.
        assert "wal" in list_residue()
        assert TargetSearch([ours]).search_stream(postgres_log())
    # The same scan finds the twin's bytes, which are there.
    assert scan([theirs]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_content_and_user_ids_are_undeclared_in_a_log(
    settings: Settings, tmp_path: Path, text: str
) -> None:
    settings.LOGS = tmp_path
    window = targets.cut_windows(text.encode(), most=1)[0]
    (tmp_path / "server.log").write_text(json.dumps({"event": f"oh {text}"}))
    verdict = scan([window, targets.build_user_id_target(f"mia-{text}")])
    assert group_standings(verdict) == {SurfaceKind.LOG: {HitStanding.UNDECLARED}}
    assert verdict.targets == {"plaintext": 1, "user_id": 1}
    (hit,) = verdict.hits
    assert (hit.place, hit.kind, hit.decoder) == ("server.log", "plaintext", "raw")


@pytest.mark.no_replay
@pytest.mark.django_db(transaction=True)
def test_name_of_another_subject_is_lawful(agent: Agent, text: str) -> None:
    hers = make_thread(agent, "hers", user_id="mia", labels={"l": text})
    theirs = make_thread(agent, "theirs", user_id="bob", labels={"l": text})
    name = targets.build_name_target(text)

    def list_standings() -> set[HitStanding]:
        verdict = scan([name], subjects=[hers.subject_id])
        return {hit.standing for hit in verdict.hits}

    # While a row of the erased subject has the name, the name is undeclared.
    assert list_standings() == {HitStanding.UNDECLARED}
    delete_rows(hers)
    ThreadLabel.objects.filter(thread=hers).delete()
    Thread.objects.filter(id=hers.id).update(labels="{}")
    assert scrub.scrub(seconds=30) == ""
    assert list_standings() == {HitStanding.OTHERS}
    delete_rows(theirs)
    Thread.objects.filter(id=theirs.id).update(labels="{}")
    assert scrub.scrub(seconds=30) == ""
    assert list_standings() == set()


@pytest.mark.django_db(transaction=True)
def test_name_in_an_unlisted_table_is_undeclared(agent: Agent, text: str) -> None:
    make_thread(agent, labels={"l": text})
    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE TABLE unlisted (name varchar(64))")
        try:
            cursor.execute("INSERT INTO unlisted VALUES (%s)", [text])
            found = group_standings(scan([targets.build_name_target(text)]))
        finally:
            cursor.execute("DROP TABLE unlisted")
    assert found.pop(SurfaceKind.UNLISTED) == {HitStanding.UNDECLARED}
    assert set.union(*found.values()) == {HitStanding.OTHERS}


def in_a_session(text: str) -> None:
    session = SessionStore()
    session["seen"] = text
    session.save()


def in_the_audit_log(text: str) -> None:
    # The text stands where an id is expected.

    audit.append(
        actor="command",
        action="scanned",
        project=None,
        target_kind="thread",
        target_id=text,
    )


def as_an_operator(text: str) -> None:
    Operator.objects.create(username=text, created_at=datetime.now(UTC))


@pytest.mark.parametrize("write", [in_a_session, in_the_audit_log])
@pytest.mark.django_db(transaction=True)
def test_user_id_is_lawful_only_where_others_use_it_as_a_name(
    agent: Agent, write: Callable[[str], None]
) -> None:
    """Find a user id undeclared although our own rows hold it as well."""
    user = f"ann-{secrets.token_hex(8)}"
    with transaction.atomic():
        write(user)
    verdict = scan([targets.build_user_id_target(user)])
    assert verdict.undeclared > 0
    assert {hit.standing for hit in verdict.hits} == {HitStanding.UNDECLARED}
    # A label of another subject makes the id lawful.
    make_thread(agent, user_id="bob", labels={"like": user})
    assert scan([targets.build_user_id_target(user)]).undeclared == 0


@pytest.mark.django_db(transaction=True)
def test_user_id_in_an_operator_account_is_lawful(agent: Agent) -> None:
    """Excuse the name of an operator, but not in a row of the erased subject."""
    user = f"ann-{secrets.token_hex(8)}"
    with transaction.atomic():
        as_an_operator(f"{user}@example.org")
    verdict = scan([targets.build_user_id_target(user)])
    assert {hit.standing for hit in verdict.hits} == {HitStanding.OTHERS}
    assert SurfaceKind.STAFF in {hit.surface for hit in verdict.hits}
    hers = make_thread(agent, "hers", user_id="ann", labels={"like": user})
    wanted = [targets.build_user_id_target(user)]
    assert scan(wanted, subjects=[hers.subject_id]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_content_used_as_a_name_by_others_is_lawful(agent: Agent, text: str) -> None:
    window = ScanTarget(kind=TargetKind.PLAINTEXT, data=text.encode()[:24])
    hers = make_thread(agent, "hers", user_id="ann")
    make_thread(agent, "theirs", user_id="bob", labels={"l": text})
    verdict = scan([window], subjects=[hers.subject_id])
    assert {hit.standing for hit in verdict.hits} == {HitStanding.OTHERS}
    # A row of the erased subject makes the content undeclared.
    make_thread(agent, "more", user_id="ann", labels={"l": text})
    assert scan([window], subjects=[hers.subject_id]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_names_chosen_by_staff_are_lawful_but_user_ids_are_not(acme: Project) -> None:
    slug = f"air-{secrets.token_hex(8)}"
    Project.objects.filter(id=acme.id).update(slug=slug)
    window = ScanTarget(kind=TargetKind.PLAINTEXT, data=slug.encode())
    assert scan([targets.build_name_target(slug), window]).undeclared == 0
    assert scan([targets.build_user_id_target(slug)]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_name_equal_to_a_code_word_is_lawful_in_a_log(
    settings: Settings, tmp_path: Path
) -> None:
    settings.LOGS = tmp_path
    (tmp_path / "server.log").write_text("receipt_sha256 of-ann-smith")
    verdict = scan(
        [
            targets.build_name_target("receipt_sha256"),
            targets.build_name_target("of-ann-smith"),
        ]
    )
    (hers,) = [hit for hit in verdict.hits if hit.standing is HitStanding.UNDECLARED]
    assert (hers.surface, hers.at) == (SurfaceKind.LOG, 15)
    assert {hit.at for hit in verdict.hits if hit.surface is SurfaceKind.LOG} == {0, 15}
    ours = ScanTarget(kind=TargetKind.USER_ID, data=b"receipt_sha256")
    assert scan([ours]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_name_equal_to_a_schema_word_is_lawful() -> None:
    verdict = scan(
        [
            targets.build_name_target("memoryhub"),
            targets.build_user_id_target("0001_tables"),
        ]
    )
    assert {hit.standing for hit in verdict.hits} == {HitStanding.OTHERS}


@pytest.mark.django_db(transaction=True)
def test_large_surfaces_over_the_budget_are_deferred(
    agent: Agent, settings: Settings, tmp_path: Path, text: str
) -> None:
    settings.LOGS = tmp_path
    (tmp_path / "server.log").write_text(text)
    thread = make_thread(agent, labels={"l": text})
    verdict = scan(
        [targets.build_name_target(text)], threads=[thread.id], budget_bytes=1
    )
    assert verdict.deferred
    assert verdict.to_json()["deferred"] is True
    assert not set(verdict.surfaces) & LARGE
    # The scan is valid, since its probes stand on the surfaces scanned by day.
    assert not verdict.is_void
    assert group_standings(verdict).keys() == {SurfaceKind.LOG, SurfaceKind.OWN_ROWS}
    assert not scan([], budget_bytes=None).deferred


@pytest.mark.django_db(transaction=True)
def test_scan_verdict_does_not_reveal_needles(
    settings: Settings, tmp_path: Path, text: str
) -> None:
    settings.LOGS = tmp_path
    (tmp_path / "server.log").write_text(text)
    short = ScanTarget(kind=TargetKind.USER_ID, data=b"bob")
    verdict = scan([targets.build_name_target(text), short])
    assert verdict.too_short == 1
    facts: dict[str, Any] = verdict.to_json()
    assert facts["hits"] == [
        {
            "surface": "log",
            "needle": "name",
            "standing": "undeclared",
            "residue": "",
            "count": 1,
        }
    ]
    assert facts["undeclared"] == 1
    assert facts["self_test"] == "passed"
    for said in (json.dumps(facts), repr(verdict)):
        assert text not in said
        assert text.encode().hex() not in said


@pytest.mark.django_db
def test_residue_is_declared_by_engine() -> None:
    declared = list_residue()
    assert {"backups", "key_backups", "downloads"} <= {*declared}
    assert ("wal" in declared) is POSTGRES
    assert len(declared) == len({*declared})
