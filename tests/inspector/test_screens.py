"""Behaviour common to all lists, checked for each screen declaration."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse

from inspector.forget import privacy_pages
from inspector.lists.screens import THREAD, Screen
from inspector.nouns import NOUNS
from inspector.web.exports import KINDS
from memoryhub.kernel.state.events import LabelValue
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.conftest import Browser
from tests.inspector.routes import make_family

pytestmark = pytest.mark.django_db

AnyScreen = Screen[Any]
OF_THREADS = [screen for screen in NOUNS if screen.scope is THREAD]
EXPORTED = [screen for screen in NOUNS if screen.export is not None]
SEARCHED = [s for s in NOUNS if s.read(RequestFactory().get("/?q=a")).text]
OF_OFFICERS = [s for s in NOUNS if s.scope.enter is privacy_pages.require_officer]
#: Screens without batches: a window, a tree, panels, a few blocks.
WHOLE = {"slots", "checkpoints", "task", "blocks", "observer"}
BATCHED = [screen for screen in NOUNS if screen.name not in WHOLE]


def name_of(screen: AnyScreen) -> str:
    return screen.name


def path_to(screen: AnyScreen, thread: str = "t-1") -> str:
    names = {"project": "acme"}
    if screen.scope is THREAD:
        names["thread"] = thread
    return reverse(screen.name, kwargs=names)


def fetch_text(client: Client, path: str) -> str:
    answer: Any = client.get(path)
    assert answer.status_code == 200, path
    parts = answer.streaming_content if answer.streaming else [answer.content]
    return b"".join(parts).decode()


@pytest.fixture(autouse=True)
def family(agent: Agent) -> None:
    """Make records for every list, and a thread that is almost empty."""
    make_family(agent, remembering=True)
    labels: dict[str, LabelValue] = {"source": "desk", "reward": 1.0, "trial": 0}
    factories.make_thread(agent, "bare", labels=labels)


@pytest.mark.parametrize("screen", EXPORTED, ids=name_of)
@pytest.mark.parametrize("content", ["", "?content=1"])
def test_exports_of_every_kind_hold_the_same_records(
    owner: Client, screen: AnyScreen, content: str
) -> None:
    assert screen.export is not None
    fields = screen.export.fields + (screen.export.content_fields if content else ())
    path = path_to(screen)
    lines = fetch_text(owner, f"{path}.ndjson{content}").splitlines()
    records = [json.loads(line) for line in lines]
    assert records
    assert all(set(record) == set(fields) for record in records)
    batch = json.loads(fetch_text(owner, f"{path}.json{content}"))
    assert batch["next"] is None
    found = sorted(map(json.dumps, batch["items"]))
    assert found == sorted(map(json.dumps, records))
    heading, *rows = csv.reader(io.StringIO(fetch_text(owner, f"{path}.csv{content}")))
    assert heading == list(fields)
    assert len(rows) == len(records)


@pytest.mark.parametrize("screen", EXPORTED, ids=name_of)
def test_list_page_links_to_its_exports(owner: Client, screen: AnyScreen) -> None:
    page = fetch_text(owner, path_to(screen))
    for kind in KINDS:
        assert f'data-export href="{path_to(screen)}.{kind}' in page


@pytest.mark.parametrize(
    "screen", [s for s in EXPORTED if s in OF_THREADS], ids=name_of
)
def test_export_of_an_empty_list_has_its_heading(
    owner: Client, screen: AnyScreen
) -> None:
    assert screen.export is not None
    table = fetch_text(owner, f"{path_to(screen, 'bare')}.csv?at_seq=0")
    assert table.strip() == ",".join(screen.export.fields)


@pytest.mark.parametrize("screen", SEARCHED, ids=name_of)
def test_list_refuses_an_unreadable_search(owner: Client, screen: AnyScreen) -> None:
    path = path_to(screen)
    answer = owner.get(path, {"q": 'a"'})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "A quotation mark is not closed." in page
    assert "listed" not in answer.context
    if screen.export is not None:
        for kind in KINDS:
            refused = owner.get(f"{path}.{kind}", {"q": 'a"'})
            assert refused.status_code == 422
            assert refused.headers["Content-Type"] == "application/problem+json"
    for example in screen.examples:
        assert owner.get(path, {"q": example}).status_code == 200, example


@pytest.mark.parametrize("screen", BATCHED, ids=name_of)
def test_list_page_has_a_size_and_its_own_cursor(
    owner: Client, screen: AnyScreen
) -> None:
    path = path_to(screen)
    for limit in (0, 201, "x"):
        assert owner.get(f"{path}?q=a&limit={limit}").status_code == 422
    for forged in ("3", "-1", "x", "WzAsM10", "9" * 2000):
        answer = owner.get(f"{path}?after={forged}")
        assert answer.status_code == 400
        assert "bad_cursor" in answer.content.decode()


@pytest.mark.parametrize(
    # It goes through as many threads, and shows what it found in them.
    "screen",
    [screen for screen in BATCHED if screen.name != "lacking-turns"],
    ids=name_of,
)
def test_list_counts_its_shown_rows(owner: Client, screen: AnyScreen) -> None:
    page = fetch_text(owner, f"{path_to(screen)}?limit=1")
    found = re.search(r'<p class="faint count" role="status">([^<]+)</p>', page)
    assert found is not None
    assert re.fullmatch(r"1 shown(, more follow)?|1 of \d+", found[1])


@pytest.mark.parametrize("screen", EXPORTED, ids=name_of)
def test_export_refuses_a_forged_cursor(owner: Client, screen: AnyScreen) -> None:
    for forged in ("3", "x", "WzAsM10"):
        answer = owner.get(f"{path_to(screen)}.json?after={forged}")
        assert answer.status_code == 400


@pytest.mark.parametrize("screen", OF_THREADS, ids=name_of)
def test_thread_list_page_is_shown_as_of_any_event(
    owner: Client, screen: AnyScreen
) -> None:
    page = fetch_text(owner, f"{path_to(screen)}?at_seq=2")
    assert "As of event 2 ·" in page
    assert "Show now" in page
    assert f'href="{path_to(screen)}?at_seq=2" aria-current="page"' in page
    if screen.export is not None:
        assert f"{path_to(screen)}.csv?at_seq=2" in page
    answer = owner.get(f"{path_to(screen)}?at_seq=x")
    assert answer.status_code == 422


@pytest.mark.parametrize("screen", OF_OFFICERS, ids=name_of)
def test_privacy_console_lists_are_for_officers(
    browser: Browser, screen: AnyScreen
) -> None:
    for role, status in (("viewer", 403), ("editor", 403), ("officer", 200)):
        client = browser(role)
        for suffix in ("", *(f".{kind}" for kind in KINDS)):
            assert client.get(path_to(screen) + suffix).status_code == status
