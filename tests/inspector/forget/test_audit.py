"""The audit log, as officers and owners read it."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from django.test import Client

from memoryhub.journal import audit as log
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.projects import Project
from memoryhub.queries.access.audit import FIELDS
from memoryhub.services.access import audit, operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast.factories import append, get_thread
from tests.inspector.conftest import Browser, make_member, signed_in
from tests.oracles.kept import unguarded

pytestmark = pytest.mark.django_db

PATH = "/p/acme/audit"


def read_text(answer: Any) -> str:
    parts = answer.streaming_content if answer.streaming else [answer.content]
    return b"".join(parts).decode()


def list_seqs(page: str) -> list[int]:
    """Return the seqs of the entries that a page lists."""
    parts = page.split('id="entry-')[1:]
    return [int(part.partition('"')[0]) for part in parts]


def note(project: Project, action: str = "scanned", **details: Any) -> int:
    audit.record(actor="command", action=action, project=project.id, **details)
    return int(AuditEntry.objects.latest("seq").seq)


@pytest.fixture
def officer(browser: Browser) -> Client:
    browser("owner")
    return browser("officer")


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_audit_log_is_for_officers_and_owners(browser: Browser, role: str) -> None:
    browser("owner")
    client = browser(role)
    for path in (PATH, f"{PATH}/1", f"{PATH}.ndjson"):
        answer = client.get(path)
        assert answer.status_code == 403
        assert "the role officer" in read_text(answer)
    assert f'href="{PATH}"' not in read_text(client.get("/p/acme/"))


@pytest.mark.parametrize("role", ["officer", "owner"])
def test_audit_log_is_in_the_navigation(browser: Browser, role: str) -> None:
    browser("owner")
    assert f'href="{PATH}"' in read_text(browser(role).get("/p/acme/"))


def test_audit_entries_are_listed_newest_first_and_verified(
    officer: Client, acme: Project
) -> None:
    first, second = note(acme), note(acme)
    page = read_text(officer.get(PATH))
    listed = list_seqs(page)
    assert listed == sorted(listed, reverse=True)
    assert {first, second} <= {*listed}
    assert f"Hash chain verified up to entry {second}" in page


def test_broken_audit_chain_is_named(officer: Client, acme: Project) -> None:
    seq = note(acme)
    with unguarded(AuditEntry):
        AuditEntry.objects.filter(seq=seq).update(count=7)
    assert f"The hash chain breaks at entry {seq}" in read_text(officer.get(PATH))
    with unguarded(AuditEntry):
        AuditEntry.objects.filter(seq=seq).update(count=0)


def test_audit_search_filters_by_url(
    officer: Client, acme: Project, agent: Agent
) -> None:
    append(agent, "t-1", "hello")
    officer.get("/p/acme/threads/t-1/slots")
    olga = operators.add("olga")
    operators.set_role(acme, olga, "editor")
    thread, actor = get_thread(agent), f"operator:{olga.id}"
    operator_threads.close(thread, actor=actor, reason="failed")
    read = AuditEntry.objects.get(action="content.read").seq
    edited = AuditEntry.objects.get(action="operator.edited").seq
    for query, seqs in (
        ("content.read", [read]),
        ("target:t-1", [edited, read]),
        ("actor:olga", [edited]),
        ("actor:officer content.read", [read]),
        ("target:t-1 -actor:olga", [read]),
        ("target:t-1 at:>1d", []),
    ):
        assert list_seqs(read_text(officer.get(PATH, {"q": query}))) == seqs, query


def test_audit_page_keeps_deeds_and_looks_apart(
    officer: Client, acme: Project, agent: Agent
) -> None:
    for name in ("t-1", "t-2"):
        append(agent, name, "hello")
    seq = note(acme)
    officer.get("/p/acme/threads")
    first, second = AuditEntry.objects.filter(action="content.read").order_by("seq")
    deeds = list_seqs(read_text(officer.get(PATH)))
    assert seq in deeds
    assert not {first.seq, second.seq} & {*deeds}
    page = read_text(officer.get(PATH, {"show": "looks"}))
    assert list_seqs(page) == [first.seq]
    link = f"?show=all&amp;q=view%3A{first.request_id}"
    assert f'href="{link}">2 threads</a> of' in page
    assert ">Threads</span>" in page
    whole = read_text(officer.get(PATH + link.replace("&amp;", "&")))
    assert list_seqs(whole) == [second.seq, first.seq]
    records = read_text(officer.get(f"{PATH}.ndjson?show=deeds")).splitlines()
    assert len(records) == AuditEntry.objects.filter(project=acme.id).count()
    assert officer.get(PATH, {"show": "zzz"}).status_code == 422


def test_audit_entry_links_its_thread_and_actor(
    officer: Client, acme: Project, agent: Agent
) -> None:
    append(agent, "t-1", "hello")
    officer.get("/p/acme/threads/t-1/slots")
    row = AuditEntry.objects.get(action="content.read")
    page = read_text(officer.get(f"{PATH}/{row.seq}"))
    assert 'href="/p/acme/threads/t-1"' in page
    assert f'href="{PATH}?q=target%3A{row.target_id}"' in page
    assert ">officer</span></a>" in page
    for word in ("content.read", "debugging", bytes(row.hash).hex()):
        assert word in page
    assert list_seqs(
        read_text(officer.get(PATH, {"q": f"target:{row.target_id}"}))
    ) == [row.seq]


def test_audit_names_the_records_of_an_edit(
    browser: Browser, officer: Client, agent: Agent
) -> None:
    append(agent, "t-1", "hello")
    editor = browser("editor")
    form = {"key": "ui.theme", "value": '"secret"', "expiry": "never"}
    answer: Any = editor.post("/p/acme/threads/t-1/add-key", form)
    assert answer.status_code == 302
    row = AuditEntry.objects.get(action="operator.edited")
    event = f'<a href="/p/acme/threads/t-1/events/{row.first_seq}">key.set</a>'
    for path in (PATH, f"{PATH}/{row.seq}"):
        page = " ".join(read_text(officer.get(path)).split())
        assert f"{event} ui.theme" in page
        assert "secret" not in page


def test_audit_entry_opens_in_its_own_project_only(
    officer: Client, acme: Project, zeta: Project
) -> None:
    mine, theirs = note(acme), note(zeta)
    assert officer.get(f"{PATH}/{mine}").status_code == 200
    for seq in (theirs, 999_999, 0):
        assert officer.get(f"{PATH}/{seq}").status_code == 404


def test_audit_log_lists_no_entry_of_another_project(
    officer: Client, acme: Project, zeta: Project
) -> None:
    seq = note(zeta)
    signed_in(operators.ensure_default())
    assert seq not in list_seqs(read_text(officer.get(f"{PATH}?limit=200")))
    assert all(
        json.loads(line)["project"] == str(acme.id)
        for line in read_text(officer.get(f"{PATH}.ndjson")).splitlines()
    )


def test_audit_pages_link_to_the_next(officer: Client, acme: Project) -> None:
    for _ in range(5):
        note(acme)
    page = read_text(officer.get(PATH, {"q": "scanned", "limit": "2"}))
    seen = list_seqs(page)
    following = page.partition('" rel="next"')[0].rpartition('href="?')[2]
    again = read_text(officer.get(f"{PATH}?{following.replace('&amp;', '&')}&limit=2"))
    assert len(seen) == 2
    assert list_seqs(again) == [seen[-1] - 1, seen[-1] - 2]


@pytest.mark.parametrize("query", ["zzz", "purpose:evaluation"])
def test_empty_audit_list_says_so(officer: Client, query: str) -> None:
    page = read_text(officer.get(PATH, {"q": query}))
    assert "No entry matches" in page
    assert f'href="{PATH}"' in page


def test_audit_exports_hold_all_matching_entries(
    officer: Client, acme: Project
) -> None:
    seqs = [note(acme), note(acme)]
    lines = read_text(officer.get(f"{PATH}.ndjson?q=scanned")).splitlines()
    records = [json.loads(line) for line in lines]
    assert [each["seq"] for each in records] == seqs
    assert tuple(records[0]) == FIELDS
    table = csv.DictReader(io.StringIO(read_text(officer.get(f"{PATH}.csv?q=scanned"))))
    assert [int(row["seq"]) for row in table] == seqs
    batch = json.loads(read_text(officer.get(f"{PATH}.json?q=scanned")))
    assert [each["seq"] for each in batch["items"]] == [*reversed(seqs)]
    assert batch["items"][1] == records[0]


def test_reading_the_audit_log_adds_no_entry(officer: Client, acme: Project) -> None:
    before = AuditEntry.objects.count()
    for path in (PATH, f"{PATH}/1", f"{PATH}.ndjson"):
        read_text(officer.get(path))
    assert AuditEntry.objects.count() == before


def test_every_audit_action_can_be_searched(officer: Client) -> None:
    for action in sorted(log.ACTIONS):
        assert officer.get(PATH, {"q": f"action:{action}"}).status_code == 200, action


# Audit entries of a session


def test_session_is_audited_from_sign_in_to_sign_out(
    acme: Project,
) -> None:
    make_member(acme, "owner")
    editor, client = make_member(acme, "editor"), Client()
    # The second sign-in in a session is a sudo.
    for _ in range(2):
        link = f"/sign-in/{operators.make_link(editor)}"
        assert client.post(link).status_code == 302
    client.post("/sign-out")
    client.post("/sign-out")
    entries = AuditEntry.objects.filter(actor_ref=str(editor.id)).order_by("seq")
    assert [row.action for row in entries] == ["sign_in", "sudo", "sign_out"]
    assert {row.project for row in entries} == {acme.id}


def test_failed_sign_in_is_not_in_the_audit_log(db: None) -> None:
    """A typed name must not get into the log."""
    operators.add("olga")
    before = AuditEntry.objects.count()
    for name in ("olga", "nobody-of-this-name"):
        Client().post("/sign-in", {"username": name, "password": "wrong"})
    Client().post(f"/sign-in/{'x' * 43}")
    assert AuditEntry.objects.count() == before
