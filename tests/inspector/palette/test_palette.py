"""The palette: search by name, role and place, without scripts."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from inspector.palette.targets import PaletteTarget
from memoryhub.models.access.audit import AuditEntry
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, forgetting
from tests.cast.knowing import write
from tests.inspector.conftest import Browser
from tests.inspector.routes import make_family
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db

HERE = "/p/acme/search"


def search(client: Client, text: str, **more: str) -> str:
    answer = client.post(HERE, {"q": text, **more})
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


def links(page: str) -> list[str]:
    """List the addresses of the hits."""
    return re.findall(r'class="hit" href="([^"]+)"', page)


@pytest.fixture
def family(agent: Agent) -> dict[str, str]:
    return make_family(agent, remembering=True)


def test_palette_without_words_lists_the_newest_threads(
    viewer: Client, family: dict[str, str]
) -> None:
    page = html.unescape(viewer.get(HERE).content.decode())
    assert "Recent threads" in page
    assert links(page)[0] == "/p/acme/threads/t-bob"


def test_palette_finds_a_thread_by_the_middle_of_its_name(
    viewer: Client, agent: Agent
) -> None:
    factories.make_thread(agent, "rebook-lisbon-storm")
    page = search(viewer, "lisbon")
    assert "/p/acme/threads/rebook-lisbon-storm" in links(page)
    assert "rebook-<mark>lisbon</mark>-storm" in page


def test_palette_filters_narrow_the_threads(
    viewer: Client, family: dict[str, str]
) -> None:
    found = links(search(viewer, "label.team:red"))
    assert {*found} == {"/p/acme/threads/t-1", "/p/acme/threads/t-1.alt"}
    assert links(search(viewer, "status:closed")) == []


@pytest.mark.parametrize(
    ("typed", "marked"),
    [
        (("a", "s"), []),
        (("lis",), ["lisbon"]),
        (("bo",), []),
        (("isbo", "re"), ["rebook", "lisbon"]),
        (("a-storm",), ["a", "storm"]),
    ],
)
def test_target_marks_whole_words_of_its_title(
    typed: tuple[str, ...], marked: list[str]
) -> None:
    title = "rebook-lisbon/storm" if typed == ("a", "s") else "rebook-lisbon-a-storm"
    target = PaletteTarget(title=title, kind="thread", words=typed)
    assert "".join(text for _, text in target.pieces) == title
    assert [text for found, text in target.pieces if found] == marked


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stauts:open", "There is no search key stauts. Did you mean status:?"),
        ("status:opne", "There is no such status. Did you mean status:open?"),
        ("rol:tool", "There is no search key rol. Did you mean role:?"),
        ("role:tol", "There is no such role. Did you mean role:tool?"),
        ("turn:x", "There is no such turn. Did you mean turn:10..20?"),
        ("kind:dream", "There is no such kind. Did you mean kind:"),
        (
            "x from:2026-02-01 to:2026-01-01",
            "A search has a from: that is before its to:.",
        ),
        ("kind:", "kind: needs a value. Did you mean kind:message?"),
        ("x" * 501, "A search has at most 500 characters."),
        (" ".join(map(str, range(65))), "A search has at most 64 terms."),
    ],
)
def test_unreadable_palette_query_suggests_a_correction(
    viewer: Client, text: str, says: str
) -> None:
    assert says in search(viewer, text)


def test_palette_without_hits_explains_its_syntax(viewer: Client) -> None:
    page = search(viewer, "zzz")
    assert "No text matches" in page
    assert "<code>role:tool</code>" in page
    assert "part of a thread's name" in page
    assert "No name matches" in search(viewer, "status:closed")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("turn 2", "turns/2"),
        ("2", "turns/2"),
        ("2", "events/2"),
        ("event 7", "events/7"),
        ("slot 1", "slots/1"),
        ("seat", "keys/seat"),
    ],
)
def test_palette_finds_parts_of_the_current_thread(
    viewer: Client, family: dict[str, str], text: str, path: str
) -> None:
    page = search(viewer, text, thread="t-1")
    assert f"/p/acme/threads/t-1/{path}" in links(page)
    assert f"/p/acme/threads/t-1/{path}" not in links(search(viewer, text))


@pytest.mark.parametrize("text", ["turn 3", "event 99", "slot 3", "9" * 19])
def test_palette_omits_numbers_that_the_thread_lacks(
    viewer: Client, family: dict[str, str], text: str
) -> None:
    assert not [
        link
        for link in links(search(viewer, text, thread="t-1"))
        if re.search(r"t-1/(turns|events|slots)/\d", link)
    ]


def test_palette_finds_pages_of_the_thread_by_id(viewer: Client, agent: Agent) -> None:
    factories.make_thread(agent)
    factories.make_page(agent, "lisbon-storm-waiver")
    found = links(search(viewer, "waiver", thread="t-1"))
    assert found[0] == "/p/acme/threads/t-1/pages/lisbon-storm-waiver"


def test_palette_does_not_find_a_deleted_key(viewer: Client, agent: Agent) -> None:
    factories.make_thread(agent)
    memory_acts.set_key(agent, "seat", "12A")
    memory_acts.delete_key(agent, "seat")
    assert links(search(viewer, "seat", thread="t-1")) == []


def test_palette_offers_actions_by_role(
    browser: Browser, family: dict[str, str]
) -> None:
    browser("owner")
    fork, keys = "/p/acme/threads/t-1/fork?at_seq=4", "/p/acme/api-keys"
    place = {"thread": "t-1", "at_seq": "4"}
    for role, forks, keeps in (
        ("viewer", False, False),
        ("editor", True, False),
        ("owner", True, True),
    ):
        client = browser(role)
        assert (fork in links(search(client, "fork here", **place))) == forks, role
        assert (keys in links(search(client, "api keys"))) == keeps, role


def test_palette_sets_the_theme_by_a_form(viewer: Client) -> None:
    page = search(viewer, "dark")
    assert '<button class="hit" type="submit" name="theme" value="dark">' in page


def test_palette_ignores_a_current_thread_of_another_project(
    viewer: Client, zeta: Any
) -> None:
    factories.make_thread(factories.make_agent(zeta), "theirs")
    page = search(viewer, "turn 1", thread="theirs")
    assert "theirs" not in page


def test_palette_hides_restricted_subjects_from_viewers(
    browser: Browser, agent: Agent
) -> None:
    browser("owner")
    thread = factories.make_thread(agent, user_id="ann")
    factories.append(agent, "t-1", "hello")
    thread.subject.state = "restricted"
    thread.subject.save(update_fields=["state"])
    for text in ("t-1", "event 1"):
        assert links(search(browser("viewer"), text, thread="t-1")) == []
    assert links(search(browser("officer"), "event 1", thread="t-1"))


def test_palette_finds_a_person_by_the_line_of_memory(
    agent: Agent, browser: Browser
) -> None:
    factories.make_thread(agent, "bea-1", user_id="bea")
    bea = forgetting.get_subject(agent, "bea")
    write(agent, bea, "guest", "Bea is a guest.\nLikes tea.")
    person = f"/p/acme/subjects/{bea.id}"
    read = AuditEntry.objects.filter(action="content.read")
    found = browser("viewer").post(f"{HERE}/found", {"q": "bea guest"})
    assert links(found.content.decode())[0] == person
    assert read.count() == 1
    assert links(search(browser("viewer"), "bea guest"))[0] == person
    assert person not in links(search(browser("viewer"), "tea"))
    bea.state = "restricted"
    bea.save(update_fields=["state"])
    assert person not in links(search(browser("viewer"), "bea"))
    assert links(search(browser("officer"), "bea"))[0] == person


def test_palette_search_of_names_is_not_audited(viewer: Client, agent: Agent) -> None:
    # No number up to 31: that is the date of any message on some day.
    for _ in range(32):
        factories.append(agent, "harbour", "no words")
    assert "harbour" in search(viewer, "harbour")
    assert "/events/32" in search(viewer, "event 32", thread="harbour")
    assert not AuditEntry.objects.filter(action="content.read").exists()


def test_palette_ignores_words_in_the_url(
    viewer: Client, family: dict[str, str]
) -> None:
    page = viewer.get(HERE, {"q": "zzz"}).content.decode()
    assert "Recent threads" in page
    assert 'value="zzz"' not in page


def test_palette_dialog_has_the_same_links_as_its_page(
    viewer: Client, family: dict[str, str]
) -> None:
    panel = viewer.post(f"{HERE}/found", {"q": "t-1"})
    assert panel.headers["MH-Panel"] == "1"
    page = viewer.post(HERE, {"q": "t-1"}).content.decode()
    assert links(panel.content.decode()) == links(page)
    assert viewer.get(f"{HERE}/other").status_code == 404
