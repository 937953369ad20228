"""The audit log as it is read: listed by what is asked, streamed, verified."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from inspector.web import search
from memoryhub.errors import BadCursorError
from memoryhub.journal import audit as log
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7
from memoryhub.queries.access import audit
from memoryhub.queries.access.audit import (
    AuditLine,
    get_entry,
    list_entries,
    verify_newest,
)
from memoryhub.queries.lists.terms import SearchTerm
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, get_thread
from tests.oracles.kept import unguarded

pytestmark = pytest.mark.django_db

NOW = timezone.now()


def note(project: UUID | None = None, **details: Any) -> int:
    fields: dict[str, Any] = {"actor": "command", "action": "verified", **details}
    with transaction.atomic():
        return log.append(project=project, **fields)


def list_found_seqs(
    text: str = "", project: UUID | None = None, now: datetime = NOW
) -> list[int]:
    terms: Sequence[SearchTerm] = search.parse_terms(text, search.AUDIT, bare="action")
    return [line.seq for line in list_entries(project, terms=terms, now=now).items]


@pytest.fixture
def other() -> UUID:
    return uuid7()


def test_entries_come_newest_first_batch_by_batch() -> None:
    for _ in range(5):
        note()
    first = list_entries(None, now=NOW, limit=2)
    assert [line.seq for line in first.items] == [5, 4]
    second = list_entries(None, now=NOW, limit=2, after=first.next)
    assert [line.seq for line in second.items] == [3, 2]
    third = list_entries(None, now=NOW, limit=2, after=second.next)
    assert [line.seq for line in third.items] == [1]
    assert third.next is None


def test_audit_cursor_is_bound_to_one_list(other: UUID) -> None:
    for _ in range(3):
        note(other)
    cursor = list_entries(other, now=NOW, limit=1).next
    for project, terms in (
        (uuid7(), ()),
        (None, ()),
        (other, search.parse_terms("verified", search.AUDIT, bare="action")),
    ):
        with pytest.raises(BadCursorError):
            list_entries(project, terms=terms, now=NOW, after=cursor)


def test_audit_list_shows_one_project_only(other: UUID) -> None:
    mine = uuid7()
    note(mine)
    note(other)
    note()
    assert list_found_seqs(project=mine) == [1]
    assert list_found_seqs(project=other) == [2]
    assert list_found_seqs() == [3, 2, 1]
    assert get_entry(mine, 2) is None
    line = get_entry(other, 2)
    assert line is not None
    assert line.project == other


@pytest.mark.parametrize(
    ("text", "seqs"),
    [
        ("", [5, 4, 3, 2, 1]),
        ("action:hold.opened", [3]),
        ("action:hold.*", [4, 3]),
        ("hold", [4, 3]),
        ("actor:operator", [4, 2]),
        ("actor:operator:1111*", [2]),
        ("actor:wQ12aB34", [5]),
        ("actor:agent,command", [5, 3, 1]),
        ("-actor:operator", [5, 3, 1]),
        ("target:77", [3]),
        ("purpose:support", [2]),
        ("-purpose:support", [5, 4, 3, 1]),
        ("outcome:subject_erased", [5]),
        ("actor:operator action:hold.lifted", [4]),
        ("at:<1h", [5, 4, 3, 2]),
        ("at:>1h", [1]),
        ("target:nothing-of-this-name", []),
    ],
)
def test_audit_search_filters_entries(text: str, seqs: list[int]) -> None:
    note(at=NOW - timedelta(days=1))
    note(
        actor="operator:11112222",
        action="content.read",
        purpose="support",
        at=NOW - timedelta(minutes=4),
    )
    soon = NOW - timedelta(minutes=3)
    note(action="hold.opened", target_kind="hold", target_id="77", at=soon)
    note(actor="operator:33334444", action="hold.lifted", at=soon)
    note(actor="agent:wQ12aB34", outcome="subject_erased", at=soon)
    assert list_found_seqs(text) == seqs


def test_audit_search_by_current_name_finds_entries_by_id(
    acme: Project, agent: Agent
) -> None:
    append(agent, "t-1", "hello")
    thread, olga = get_thread(agent), operators.add("olga")
    seq = note(
        acme.id,
        actor=f"operator:{olga.id}",
        action="content.read",
        target_kind="thread",
        target_id=str(thread.id),
        subject=thread.subject_id,
    )
    for text in (
        *("actor:olga", "actor:ol*", f"actor:{olga.id}"),
        *("target:t-1", "target:t*", f"target:{thread.id}"),
    ):
        assert list_found_seqs(f"content.read {text}", acme.id) == [seq], text
    assert list_found_seqs(f"content.read target:{thread.subject_id}", acme.id) == [seq]
    assert list_found_seqs("content.read actor:olg", acme.id) == []
    line = get_entry(acme.id, seq)
    assert line is not None
    assert line.target_name == "t-1"
    assert line.actor == f"operator:{olga.id}"


def test_audit_search_finds_no_thread_of_another_project(
    acme: Project, zeta: Project, agent: Agent, stranger: Agent
) -> None:
    append(agent, "t-1", "hello")
    append(stranger, "t-1", "hello")
    theirs = get_thread(stranger)
    note(acme.id, target_kind="thread", target_id=str(theirs.id))
    assert list_found_seqs("verified target:t-1", acme.id) == []


def test_audit_search_terms_match_the_columns(other: UUID) -> None:
    assert search.AUDIT.keys() == audit._COLUMNS.keys()


def test_audit_entries_are_streamed_oldest_first(other: UUID) -> None:
    for _ in range(3):
        note(other)
    note()
    chunks = audit.iter_entries(other, now=NOW)
    assert [line.seq for chunk in chunks for line in chunk] == [1, 2, 3]


def test_audit_record_has_every_field_of_the_row() -> None:
    note(at=NOW)
    line = list_entries(None, now=NOW).items[0]
    fields = audit.build_record(line)
    assert tuple(fields) == audit.FIELDS
    row = AuditEntry.objects.get()
    assert {**log.to_json_values(row), "hash": bytes(row.hash).hex()} == fields
    columns = {field.name for field in AuditEntry._meta.concrete_fields}
    assert {*audit.FIELDS, "prev"} == columns
    assert isinstance(line, AuditLine)


@pytest.mark.parametrize("count", [1, 40])
def test_audit_list_costs_two_queries(
    count: int, django_assert_num_queries: DjangoAssertNumQueries, other: UUID
) -> None:
    for _ in range(count):
        who, what = f"operator:{uuid7()}", str(uuid7())
        note(other, actor=who, target_kind="thread", target_id=what)
    with django_assert_num_queries(2):
        list_entries(other, now=NOW)


# The chain


def test_empty_audit_log_verifies() -> None:
    assert audit.verify() == audit.ChainCheck(verified_to=0)
    assert verify_newest() == audit.ChainCheck(verified_to=0)


def test_audit_verification_over_chunks_finds_the_first_wrong_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "CHUNK", 3)
    for _ in range(10):
        note()
    assert audit.verify() == audit.ChainCheck(verified_to=10)


def test_audit_verification_is_bounded_by_its_reach() -> None:
    for _ in range(10):
        note()
    assert verify_newest(reach=4) == audit.ChainCheck(verified_to=10, verified_from=6)
    assert verify_newest(reach=10) == audit.ChainCheck(verified_to=10)


@pytest.mark.no_replay
@pytest.mark.parametrize(
    ("changed", "wrong"), [(9, 9), (7, 7), (6, None), (3, None)], ids=str
)
def test_bounded_audit_verification_names_the_wrong_entry(
    changed: int, wrong: int | None
) -> None:
    for _ in range(10):
        note()
    with unguarded(AuditEntry):
        AuditEntry.objects.filter(seq=changed).update(count=99)
    assert verify_newest(reach=4).wrong == wrong
    assert audit.verify().wrong == changed


# Views


def look(project: UUID, view: str | None, *targets: str, **details: Any) -> None:
    """Append the looks of a view at these threads; the first one counts them."""
    for n, target in enumerate(targets):
        fields = {"target_kind": "thread", "target_id": target, "request_id": view}
        counted = 0 if n or view is None else len(targets)
        about = {"actor": "operator:1", "action": "content.read", "count": counted}
        note(project, **about, **fields, **details)


def list_found_views(text: str = "", *, project: UUID, **page: Any) -> list[int]:
    terms = search.parse_terms(text, search.AUDIT, bare="action")
    found = audit.list_views(project, terms=terms, now=NOW, **page)
    return [view.first.seq for view in found.items]


def test_view_is_one_row_with_its_threads_and_people(
    agent: Agent, other: UUID, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    # A view may show another project, whose threads are not told here.
    look(other, "a", "theirs")
    for name in ("t-1", "t-2"):
        append(agent, name, "hello")
    rows = [get_thread(agent, name) for name in ("t-1", "t-2")]
    project = rows[0].project_id
    for n, row in enumerate(rows):
        shown: dict[str, Any] = {"count": 0 if n else 2, "target_kind": "thread"}
        shown |= {"target_id": str(row.id), "subject": row.subject_id}
        note(
            project, actor="operator:1", action="content.read", request_id="a", **shown
        )
    look(project, None, "from-before")
    about = {"actor": "operator:1", "action": "content.read", "outcome": "closed"}
    closed = note(project, **about, request_id="a", count=2)
    with django_assert_num_queries(3):
        alone, view = audit.list_views(project, now=NOW).items
    assert (alone.first.target_id, alone.threads) == ("from-before", 1)
    assert (view.threads, view.people) == (2, len({row.subject_id for row in rows}))
    line = get_entry(project, closed)
    assert line is not None
    assert view.closed_at == line.at
    # The export and the list of all entries keep every entry.
    assert len(list_entries(project, terms=(), now=NOW).items) >= 4
    assert "content.read" not in {
        each.action for each in list_entries(project, now=NOW, deeds=True).items
    }


@pytest.mark.parametrize("most", [audit.CHUNK, 1])
def test_view_is_found_by_each_of_its_threads(
    most: int, other: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "CHUNK", most)
    look(other, "a", "1", "2", "3")
    look(other, None, "2")
    look(other, "b", "3")
    for text, seqs in (
        *(("target:2", [4, 1]), ("target:3", [5, 1]), ("target:9", [])),
        *(("view:b", [5]), ("actor:1", [5, 4, 1]), ("verified", [])),
    ):
        assert list_found_views(text, project=other) == seqs, text


def test_view_is_on_one_page_of_the_list_only(other: UUID) -> None:
    look(other, "a", *"123")
    look(other, "b", *"45")
    # A thread that came to the open page later.
    log_later = {"actor": "operator:1", "action": "content.read", "request_id": "a"}
    note(other, **log_later, target_kind="thread", target_id="6")
    first = audit.list_views(other, now=NOW, limit=1)
    second = audit.list_views(other, now=NOW, limit=1, after=first.next)
    assert [(view.first.seq, view.threads) for view in first.items] == [(4, 2)]
    assert [(view.first.seq, view.threads) for view in second.items] == [(1, 4)]
    assert second.next is None
