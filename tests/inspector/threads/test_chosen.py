"""Bulk acts on several threads: effects on each, and refusals."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client

from memoryhub.kernel.commands import RetireThread
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast import factories
from tests.inspector.conftest import Browser
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db
CHOSEN = "/p/acme/chosen-threads"
NAMES = ["alpha", "beta", "gamma"]


@pytest.fixture(autouse=True)
def three(agent: Agent) -> None:
    for name in NAMES:
        factories.append(agent, name, "hello")


@pytest.fixture
def editor(browser: Browser) -> Client:
    return browser("editor")


def statuses() -> dict[str, str]:
    return dict(Thread.objects.values_list("name", "status"))


def test_bulk_confirmation_counts_and_changes_nothing(editor: Client) -> None:
    answer = editor.get(CHOSEN, {"act": "close", "thread": NAMES})
    page = answer.content.decode()
    assert "Close 3 threads" in page
    assert all(f"{name}</a>" in page for name in NAMES)
    assert set(statuses().values()) == {"open"}


def test_bulk_close_closes_every_chosen_thread(editor: Client) -> None:
    form = {"act": "close", "thread": NAMES, "reason": "completed"}
    page = editor.post(CHOSEN, form).content.decode()
    assert "Closed 3 threads" in page
    assert set(statuses().values()) == {"closed"}


def test_bulk_act_lists_refusals_and_does_the_others(
    editor: Client, agent: Agent
) -> None:
    act(agent, RetireThread(policy_days=1, idle_days=1), "beta")
    form = {"act": "close", "thread": [*NAMES, "nobody"], "reason": "failed"}
    page = editor.post(CHOSEN, form).content.decode()
    assert statuses() == {"alpha": "closed", "beta": "retired", "gamma": "closed"}
    assert "Closed 2 of 3 threads" in page
    assert "beta</a>: " in page
    assert "nobody" in page


def test_bulk_retention_days_are_saved_for_owners_only(
    owner: Client, editor: Client
) -> None:
    form = {"act": "keep", "thread": NAMES, "retention_idle_days": "400"}
    page = editor.post(CHOSEN, form).content.decode()
    assert "Saved for 0 of 3 threads" in page
    assert "Only owners may set fewer days" in page
    assert "Saved for 3 threads" in owner.post(CHOSEN, form).content.decode()
    for row in Thread.objects.all():
        assert json.loads(row.config)["retention_idle_days"] == 400


@pytest.mark.parametrize(
    "form",
    [
        {"act": "keep", "retention_idle_days": "many"},
        {"act": "close", "reason": "bored"},
        {"act": "close"},
        {"act": "burn"},
    ],
)
def test_invalid_bulk_form_is_refused(editor: Client, form: dict[str, str]) -> None:
    answer = editor.post(CHOSEN, {**form, "thread": NAMES})
    assert answer.status_code == 422
    assert set(statuses().values()) == {"open"}


def test_bulk_form_without_threads_says_so(editor: Client) -> None:
    for query in ({}, {"act": "close"}, {"act": "close", "thread": ["nobody"]}):
        answer = editor.get(CHOSEN, query)
        assert answer.status_code == 200
        assert "No thread is chosen" in answer.content.decode()
    assert editor.get(CHOSEN, {"thread": ["x"] * 151}).status_code == 422


def test_bulk_act_requires_an_editor_but_its_preview_does_not(
    viewer: Client, stranger: Agent
) -> None:
    form = {"act": "close", "thread": NAMES, "reason": "failed"}
    assert viewer.post(CHOSEN, form).status_code == 403
    factories.append(stranger, "theirs", "hello")
    answer = viewer.get(f"{CHOSEN}.csv", {"thread": ["beta", "alpha", "theirs"]})
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]  # a stream
    rows = csv.DictReader(io.StringIO(text))
    assert [row["thread"] for row in rows] == ["alpha", "beta"]


def test_bulk_act_hides_restricted_subjects_from_editors(
    editor: Client, browser: Browser, agent: Agent
) -> None:
    factories.make_thread(agent, "of-ann", user_id="ann")
    subject = Thread.objects.get(name="of-ann").subject
    subject.state = "restricted"
    subject.save(update_fields=["state"])
    query = {"act": "close", "thread": ["of-ann"]}
    assert "not visible to you" in editor.get(CHOSEN, query).content.decode()
    assert "Close 1 thread<" in browser("officer").get(CHOSEN, query).content.decode()


def test_bulk_close_accepts_an_already_closed_thread(editor: Client) -> None:
    row = Thread.objects.get(name="alpha")
    operator_threads.close(row, actor="operator:x", reason="failed")
    form = {"act": "close", "thread": NAMES, "reason": "completed"}
    assert "Closed 3 threads" in editor.post(CHOSEN, form).content.decode()
