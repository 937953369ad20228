from __future__ import annotations

import errno
import json
import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
from memoryhub.queries.scan import residue, surfaces
from memoryhub.queries.scan.residue import Standing
from memoryhub.queries.scan.surfaces import Kind as Place
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.scan import scan_probes, scans
from memoryhub.services.scan.scans import Verdict
from memoryhub.vault.scan import containers, needles
from memoryhub.vault.scan.needles import Kind, Needle
from tests.cast.factories import append, make_thread

POSTGRES = "postgresql" in configured.DATABASES["default"]["ENGINE"]


@pytest.fixture
def text() -> str:
    """What stands nowhere else, spaces and all."""
    return f"{secrets.token_hex(8)} of {secrets.token_hex(8)}"


def standing(verdict: Verdict) -> dict[str, set[Standing]]:
    found: dict[str, set[Standing]] = {}
    for hit in verdict.hits:
        found.setdefault(hit.surface, set()).add(hit.standing)
    return found


def nonce(thread: Thread) -> Needle:
    event = thread.events.exclude(payload=None).latest("seq")
    assert event.payload is not None
    return needles.nonce_of(bytes(event.payload))


def data_directory() -> Path | None:
    if not POSTGRES:
        return None
    with connections["default"].cursor() as cursor:
        cursor.execute("CHECKPOINT")
        cursor.execute("SELECT current_setting('data_directory')")
        return Path(cursor.fetchone()[0])


def gone(thread: Thread) -> None:
    """The thread's rows, by the lawful way to be rid of events."""
    Thread.objects.filter(id=thread.id).update(status=Thread.Status.IMPORTING)
    with connections["default"].cursor() as cursor:
        for table in ("event", "snapshot", "slot", "turn", "threadlabel"):
            cursor.execute(
                f"DELETE FROM memoryhub_{table} WHERE thread_id = %s",
                [thread.id if POSTGRES else thread.id.hex],
            )


# A run is believed if it finds its probes


@pytest.mark.django_db(transaction=True)
def test_a_scan_proves_itself_and_says_where_it_looked() -> None:
    seen = 0

    def progress(amount: int) -> None:
        nonlocal seen
        seen += amount

    verdict = scans.scan([], progress=progress)
    assert verdict.self_test == dict.fromkeys(scan_probes.make(), True)
    assert verdict.clean
    assert not verdict.void
    assert seen == verdict.scanned_bytes > 0
    wanted = {Place.NAMES, Place.FILE, Place.SCHEMA, Place.ROWS, Place.UNLISTED}
    wanted |= set() if POSTGRES else {Place.DATABASE}
    assert wanted <= set(verdict.surfaces)
    assert scans.extent() > 0


@pytest.mark.parametrize(
    ("name", "missed"),
    [
        ("_HEADS", {"zlib", "gzip", "zip", "containers"}),
        ("_ANY_RUN", {"containers"}),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_without_a_decoder_a_run_is_void(
    monkeypatch: pytest.MonkeyPatch, name: str, missed: set[str]
) -> None:
    nothing = re.compile(rb"(?!)") if name == "_HEADS" else secrets.token_bytes(64)
    monkeypatch.setattr(containers, name, nothing)
    verdict = scans.scan([])
    assert {each for each, found in verdict.self_test.items() if not found} == missed
    assert verdict.void
    assert not verdict.clean
    assert verdict.undeclared == 0


@pytest.mark.parametrize(
    ("failure", "trouble"),
    [(OSError(errno.ENOSPC, "full"), "disk"), (OSError(errno.EACCES, "no"), "store")],
)
@pytest.mark.django_db(transaction=True)
def test_where_no_probe_can_be_planted_a_run_is_void(
    monkeypatch: pytest.MonkeyPatch, failure: OSError, trouble: str
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise failure

    monkeypatch.setattr(Path, "write_bytes", fail)
    verdict = scans.scan([])
    assert verdict.void
    assert not verdict.clean
    assert verdict.trouble == trouble


@pytest.mark.django_db(transaction=True)
def test_a_place_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path
) -> None:
    monkeypatch.setattr(scan_probes, "_plant_in_redis", lambda probes, key: None)
    settings.REDIS_URL = f"unix://{tmp_path / 'none.sock'}"
    verdict = scans.scan([])
    assert verdict.unreachable == ("redis redis",)
    assert verdict.trouble == "store"
    assert not verdict.clean


# What is found, and by what right it is there


@pytest.mark.no_replay
@pytest.mark.django_db(transaction=True)
def test_sealed_bytes_are_found_until_they_are_gone(agent: Agent) -> None:
    thread, twin = make_thread(agent, "gone"), make_thread(agent, "stays")
    append(agent, thread.name, "some content of hers")
    append(agent, twin.name, "some content of hers")
    ours, theirs = nonce(thread), nonce(twin)
    found = standing(scans.scan([ours], threads=[thread.id]))
    assert found[Place.ROWS] == found[Place.HERS] == {Standing.UNDECLARED}
    assert POSTGRES or Place.WAL in found
    gone(thread)
    assert scrub.scrub(seconds=30) == ""

    after = scans.scan([ours], threads=[thread.id], data_directory=data_directory())
    assert after.undeclared == 0
    assert after.clean
    if POSTGRES:
        # Declared: the log at least has the bytes still.
        assert {hit.standing for hit in after.hits} == {Standing.CONTROLLED}
        assert {hit.what for hit in after.hits} <= {"wal", "database_free_space"}
    else:
        assert after.hits == ()
    # The same scan finds what is there.
    assert scans.scan([theirs]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_content_and_ids_are_lawful_nowhere(
    settings: Settings, tmp_path: Path, text: str
) -> None:
    settings.LOGS = tmp_path
    window = needles.windows(text.encode(), most=1)[0]
    (tmp_path / "server.log").write_text(json.dumps({"event": f"oh {text}"}))
    verdict = scans.scan([window, needles.user_id(f"mia-{text}")])
    assert standing(verdict) == {Place.LOG: {Standing.UNDECLARED}}
    assert verdict.needles == {"plaintext": 1, "user_id": 1}
    (hit,) = verdict.hits
    assert (hit.place, hit.kind, hit.decoder) == ("server.log", "plaintext", "raw")


@pytest.mark.no_replay
@pytest.mark.django_db(transaction=True)
def test_a_name_that_others_have_is_theirs(agent: Agent, text: str) -> None:
    hers = make_thread(agent, "hers", user_id="mia", labels={"l": text})
    theirs = make_thread(agent, "theirs", user_id="bob", labels={"l": text})
    name = needles.name(text)

    def found() -> set[Standing]:
        verdict = scans.scan([name], subjects=[hers.subject_id])
        return {hit.standing for hit in verdict.hits}

    # As long as a row of hers has it, it is not theirs alone.
    assert found() == {Standing.UNDECLARED}
    gone(hers)
    ThreadLabel.objects.filter(thread=hers).delete()
    Thread.objects.filter(id=hers.id).update(labels="{}")
    assert scrub.scrub(seconds=30) == ""
    assert found() == {Standing.OTHERS}
    gone(theirs)
    Thread.objects.filter(id=theirs.id).update(labels="{}")
    assert scrub.scrub(seconds=30) == ""
    assert found() == set()


@pytest.mark.django_db(transaction=True)
def test_a_name_in_a_table_that_nobody_listed_is_undeclared(
    agent: Agent, text: str
) -> None:
    make_thread(agent, labels={"l": text})
    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE TABLE unlisted (name varchar(64))")
        try:
            cursor.execute("INSERT INTO unlisted VALUES (%s)", [text])
            found = standing(scans.scan([needles.name(text)]))
        finally:
            cursor.execute("DROP TABLE unlisted")
    assert found.pop(Place.UNLISTED) == {Standing.UNDECLARED}
    assert set.union(*found.values()) == {Standing.OTHERS}


def in_a_session(text: str) -> None:
    session = SessionStore()
    session["seen"] = text
    session.save()


def in_the_audit_log(text: str) -> None:
    # As it would be taken for an id.

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
def test_an_id_is_nobody_elses_but_where_it_is_a_name(
    agent: Agent, write: Callable[[str], None]
) -> None:
    """What we ourselves wrote down somewhere does not make it lawful everywhere."""
    user = f"ann-{secrets.token_hex(8)}"
    with transaction.atomic():
        write(user)
    verdict = scans.scan([needles.user_id(user)])
    assert verdict.undeclared > 0
    assert {hit.standing for hit in verdict.hits} == {Standing.UNDECLARED}
    # The same, once somebody else calls something so.
    make_thread(agent, user_id="bob", labels={"like": user})
    assert scans.scan([needles.user_id(user)]).undeclared == 0


@pytest.mark.django_db(transaction=True)
def test_an_account_that_is_called_so_is_the_operators_own(agent: Agent) -> None:
    """Who works here may be a customer as well. In a row of hers it is not theirs."""
    user = f"ann-{secrets.token_hex(8)}"
    with transaction.atomic():
        as_an_operator(f"{user}@example.org")
    verdict = scans.scan([needles.user_id(user)])
    assert {hit.standing for hit in verdict.hits} == {Standing.OTHERS}
    assert Place.STAFF in {hit.surface for hit in verdict.hits}
    hers = make_thread(agent, "hers", user_id="ann", labels={"like": user})
    wanted = [needles.user_id(user)]
    assert scans.scan(wanted, subjects=[hers.subject_id]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_content_that_others_call_something_is_theirs(agent: Agent, text: str) -> None:
    window = Needle(kind=Kind.PLAINTEXT, data=text.encode()[:24])
    hers = make_thread(agent, "hers", user_id="ann")
    make_thread(agent, "theirs", user_id="bob", labels={"l": text})
    verdict = scans.scan([window], subjects=[hers.subject_id])
    assert {hit.standing for hit in verdict.hits} == {Standing.OTHERS}
    # In a row of hers it is not.
    make_thread(agent, "more", user_id="ann", labels={"l": text})
    assert scans.scan([window], subjects=[hers.subject_id]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_names_that_staff_chose_are_theirs_but_no_ids(acme: Project) -> None:
    slug = f"air-{secrets.token_hex(8)}"
    Project.objects.filter(id=acme.id).update(slug=slug)
    window = Needle(kind=Kind.PLAINTEXT, data=slug.encode())
    assert scans.scan([needles.name(slug), window]).undeclared == 0
    assert scans.scan([needles.user_id(slug)]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_a_name_that_is_a_word_of_our_code_is_lawful_in_a_log(
    settings: Settings, tmp_path: Path
) -> None:
    settings.LOGS = tmp_path
    (tmp_path / "server.log").write_text("receipt_sha256 of-ann-smith")
    verdict = scans.scan([needles.name("receipt_sha256"), needles.name("of-ann-smith")])
    (hers,) = [hit for hit in verdict.hits if hit.standing is Standing.UNDECLARED]
    assert (hers.surface, hers.at) == (Place.LOG, 15)
    assert {hit.at for hit in verdict.hits if hit.surface is Place.LOG} == {0, 15}
    ours = Needle(kind=Kind.USER_ID, data=b"receipt_sha256")
    assert scans.scan([ours]).undeclared > 0


@pytest.mark.django_db(transaction=True)
def test_a_name_that_is_a_word_of_ours_is_lawful() -> None:
    verdict = scans.scan([needles.name("memoryhub"), needles.user_id("0001_initial")])
    assert {hit.standing for hit in verdict.hits} == {Standing.OTHERS}


@pytest.mark.grown
@pytest.mark.no_replay
@pytest.mark.django_db(transaction=True)
def test_an_id_in_a_name_is_as_lawful_as_the_name(agent: Agent, text: str) -> None:
    user = secrets.token_hex(8)
    thread = make_thread(agent, labels={"l": f"of {user}"})
    gone(thread)
    Thread.objects.filter(id=thread.id).update(labels="{}")
    assert scrub.scrub(seconds=30) == ""
    wanted = [needles.user_id(user)]
    alone = scans.scan(wanted, data_directory=data_directory())
    assert {hit.standing for hit in alone.hits} == {Standing.UNDECLARED}
    wanted.append(needles.name(f"of {user}"))
    named = scans.scan(wanted, data_directory=data_directory())
    assert {hit.standing for hit in named.hits} == {Standing.CONTROLLED}


@pytest.mark.django_db(transaction=True)
def test_over_the_budget_what_is_large_waits(
    agent: Agent, settings: Settings, tmp_path: Path, text: str
) -> None:
    settings.LOGS = tmp_path
    (tmp_path / "server.log").write_text(text)
    thread = make_thread(agent, labels={"l": text})
    verdict = scans.scan([needles.name(text)], threads=[thread.id], budget_bytes=1)
    assert verdict.deferred
    assert verdict.facts()["deferred"] is True
    assert not set(verdict.surfaces) & surfaces.LARGE
    # It is believed all the same: its probes stand where it looks by day.
    assert not verdict.void
    assert standing(verdict).keys() == {Place.LOG, Place.HERS}
    assert not scans.scan([], budget_bytes=None).deferred


@pytest.mark.django_db(transaction=True)
def test_what_it_says_tells_no_needle(
    settings: Settings, tmp_path: Path, text: str
) -> None:
    settings.LOGS = tmp_path
    (tmp_path / "server.log").write_text(text)
    short = Needle(kind=Kind.USER_ID, data=b"bob")
    verdict = scans.scan([needles.name(text), short])
    assert verdict.too_short == 1
    facts: dict[str, Any] = verdict.facts()
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
    declared = {each.what: each for each in residue.list_residue()}
    assert declared["backups"].days == configured.BACKUP_DAYS
    assert declared["key_backups"].days == configured.KEYS_BACKUP_DAYS
    assert ("wal" in declared) is POSTGRES
    # Neither content nor an id is lawful anywhere.
    assert {kind for _, kind in residue.DECLARED} == {
        *(Kind.NONCE, Kind.NAME, Kind.WRAPPED_KEY)
    }
