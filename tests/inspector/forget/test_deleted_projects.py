"""Deleted projects: their screens say so, and stay for those who supervise them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.test import Client

from memoryhub.management import deleting
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.erasures import Receipt
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import project_deletions
from tests.cast import factories
from tests.inspector.access.test_api_keys import nonce_of
from tests.inspector.conftest import Browser

pytestmark = pytest.mark.django_db(transaction=True)

P = "/p/acme"
SCREENS = (
    *("/", "/threads", "/imports", "/health", "/health/privacy", "/settings"),
    *("/api-keys", "/members", "/audit", "/subjects", "/erasures", "/receipts"),
    *("/holds", "/tombstones"),
)


@pytest.fixture
def mia(agent: Agent) -> Subject:
    thread = factories.make_thread(agent, "mia-1", user_id="mia")
    factories.append(agent, "mia-1", "Where is my parcel?")
    return thread.subject


@pytest.fixture
def owner(browser: Browser, mia: Subject) -> Client:
    return browser("owner")


@pytest.fixture
def viewer(browser: Browser, owner: Client) -> Client:
    return browser("viewer")


def begin(project: Project) -> None:
    project_deletions.begin_deletion(project, confirmed="acme", reason="not_needed")


def read_words(answer: Any) -> str:
    assert answer.status_code == 200, answer.request["PATH_INFO"]
    return " ".join(answer.content.decode().split())


def test_active_project_shows_no_deletion_notice(owner: Client) -> None:
    for path in SCREENS:
        text = read_words(owner.get(f"{P}{path}"))
        assert "is being deleted" not in text
        assert "was deleted" not in text


def test_every_screen_shows_the_progress_of_the_deletion(
    owner: Client, viewer: Client, acme: Project
) -> None:
    begin(acme)
    notice = "is being deleted: 0 of 2 people are erased."
    for path in SCREENS:
        assert notice in read_words(owner.get(f"{P}{path}")), path
    assert notice in read_words(viewer.get(f"{P}/"))
    # A role that may not see the erasures gets no link to them.
    link = f'<a href="{P}/erasures">Erasures</a>'
    assert link in read_words(owner.get(f"{P}/threads"))
    assert link not in read_words(viewer.get(f"{P}/threads"))


def test_every_screen_says_that_the_project_was_deleted(
    owner: Client, viewer: Client, acme: Project, mia: Subject
) -> None:
    begin(acme)
    deleting.follow(acme, out=io.StringIO())
    for path in SCREENS:
        assert "This project was deleted" in read_words(owner.get(f"{P}{path}")), path
    assert "This project was deleted" in read_words(viewer.get(f"{P}/"))
    receipt = Receipt.objects.get(erasure__subject=mia)
    assert "verified" in read_words(owner.get(f"{P}/receipts/{receipt.id}"))
    for path in ("/threads/mia-1", f"/subjects/{mia.id}", "/threads/nobody-s"):
        assert owner.get(f"{P}{path}").status_code == 410, path
    looked = owner.post(f"{P}/subjects/look-up", {"user_id": "mia"})
    assert looked.status_code == 410
    assert "project_deleted" in looked.content.decode()


def test_project_list_marks_deleted_projects(
    owner: Client, acme: Project, zeta: Project
) -> None:
    Membership.objects.create(
        project=zeta, operator=Operator.objects.get(username="owner"), role="viewer"
    )
    assert "deleted" not in read_words(owner.get("/projects"))
    begin(acme)
    assert "being deleted" in read_words(owner.get("/projects"))
    deleting.follow(acme, out=io.StringIO())
    text = read_words(owner.get("/projects"))
    assert "· deleted" in text
    assert "being deleted" not in text


def test_new_work_in_a_deleting_project_is_refused_with_a_page(
    owner: Client, acme: Project, mia: Subject
) -> None:
    begin(acme)
    operators.add("carl")
    nonce = {"nonce": nonce_of(owner, f"{P}/api-keys/new")}
    for path, sent in {
        "/api-keys/new": {"scopes": "memory:read", "days": "90", **nonce},
        "/members/new": {"username": "carl", "role": "viewer"},
        "/threads/mia-1/close": {"reason": "completed"},
        f"/subjects/{mia.id}/export": {},
    }.items():
        answer = owner.post(f"{P}{path}", sent)
        assert answer.status_code == 410, path
        assert "is being deleted, or was." in answer.content.decode(), path
    assert not ApiKey.objects.filter(revoked_at=None).exists()
