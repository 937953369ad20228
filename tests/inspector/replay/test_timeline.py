from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from inspector.drawing.scenes import ThreadScene
from inspector.lists import panels
from inspector.nouns import NOUNS
from inspector.replay import moments
from inspector.web import search
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads, slots
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/t-1"


@pytest.fixture
def talk(acme: Project, agent: Agent) -> Thread:
    """Make a thread of seven events: its creation, then six messages."""
    factories.make_thread(agent)
    factories.append(agent, "t-1", *(f"message {n}" for n in range(6)))
    thread = factories.get_thread(agent)
    thread.project = acme
    return thread


def test_timeline_follows_the_head(viewer: Client, talk: Thread) -> None:
    page = viewer.get(T).content.decode()
    for panel in ("at", "map", "conversation", "working-set"):
        assert f'data-live="{panel}"' in page
    other = viewer.get(f"{T}?view=events&tab=changes").content.decode()
    for panel in ("at", "map", "events", "changed"):
        assert f'data-live="{panel}"' in other
    assert "message 5" in page
    assert 'ws-connect="/ws/live/acme"' in page


def test_timeline_as_of_an_event_shows_no_later_state(
    viewer: Client, talk: Thread
) -> None:
    answer = viewer.get(f"{T}?at_seq=3&tab=changes")
    page = answer.content.decode()
    assert "message 2" not in page
    assert answer.context["moment"].state.slot_count == 2
    assert "As of event 3 · 4 newer" in page
    assert 'data-live="conversation"' not in page
    assert 'data-live="head"' in page


def test_changes_tab_shows_the_state_change_of_the_event(
    viewer: Client, talk: Thread
) -> None:
    changes = viewer.get(f"{T}?at_seq=3&tab=changes").context["moment"].changes
    deltas = {change.name: change.delta for change in changes}
    assert deltas["slot_count"] == 1
    assert deltas["types · chat.user"] == 1
    assert deltas["token_count"] == talk.slots.get(index=1).tokens


def test_client_names_are_shown_unchanged(
    viewer: Client, agent: Agent, talk: Thread
) -> None:
    slot = factories.make_slot("found", from_name="tool:search_library")
    factories.run(slots.append(agent=agent, thread="t-1", slots=[slot]))
    page = viewer.get(f"{T}?at_seq=8&tab=changes").content.decode()
    assert ">senders · tool:search_library</th>" in page
    assert ">slots</th>" in page


@pytest.mark.parametrize(
    "query",
    [
        "at_seq=-1",
        "at_seq=x",
        "at_seq=1.5",
        "at_seq=٣",
        "at_seq=1&at_turn=1",
        "at_turn=-1",
        "base=x",
        "at_seq=99999999999999999999",
        "open=a",
        f"open={','.join('1' * 21)}",
    ],
)
@pytest.mark.parametrize("where", ["", "/panels/moment"])
def test_invalid_timeline_query_is_refused(
    viewer: Client, talk: Thread, query: str, where: str
) -> None:
    answer = viewer.get(f"{T}{where}?{query}")
    assert answer.status_code == 422
    assert answer.headers.get("MH-Panel") == ("1" if where else None)


def test_timeline_beyond_the_head_shows_the_head_with_a_notice(
    viewer: Client, talk: Thread
) -> None:
    for path in ("", "/slots", "/events"):
        answer = viewer.get(f"{T}{path}?at_seq=99")
        assert answer.status_code == 200
        assert "That event does not exist yet" in answer.content.decode()
    assert viewer.get(f"{T}?at_seq=99").context["at"] == 7
    assert viewer.get(f"{T}?at_turn=9").context["at"] == 7


def test_unknown_timeline_parameters_are_ignored(viewer: Client, talk: Thread) -> None:
    assert viewer.get(f"{T}?colour=red&tab=nothing").status_code == 200


def test_event_is_open_on_request(viewer: Client, talk: Thread) -> None:
    page = viewer.get(f"{T}?view=events&open=2,3").content.decode()
    assert page.count("&quot;payload&quot;: {") == 2


@pytest.mark.parametrize("name", sorted(moments.PANELS))
def test_timeline_panel_equals_its_part_of_the_page(
    viewer: Client, owner: Client, talk: Thread, name: str
) -> None:
    """One render serves all viewers: no form, and nothing that differs by operator."""
    pages = {
        "row": "/p/acme/threads",
        "events": f"{T}?view=events",
        "changed": f"{T}?tab=changes",
        "paging": f"{T}/paging",
        "paging-by-event": f"{T}/paging?by=event",
        "working-memory": f"{T}?tab=memory",
        **{n.panel.name or n.name: f"{T}/{n.name}" for n in NOUNS if n.panel},
    }
    text = viewer.get(pages.get(name, T)).content.decode()
    answer = viewer.get(f"{T}/panels/{name}")
    assert answer.headers["MH-Panel"] == "1"
    panel = answer.content.decode().strip()
    # A seek returns three panels: the event in words and the head are elsewhere.
    for part in re.split(r'(?=<section id="then"|<div id="moment")', panel):
        assert part.replace(' hx-swap-oob="true"', "", 1).strip() in text
    assert "<form" not in panel
    assert owner.get(f"{T}/panels/{name}").content == answer.content


@pytest.mark.parametrize("name", sorted(moments.PUSHED))
def test_pushed_panel_differs_only_by_its_swap_attribute(
    talk: Thread, name: str
) -> None:
    shown = panels.render_panel(moments.PANELS[name], ThreadScene(thread=talk))
    pushed = panels.render_panel(
        moments.PANELS[name], ThreadScene(thread=talk), pushed=True
    )
    assert pushed.replace(' hx-swap-oob="true"', "", 1) == shown
    assert pushed.count("hx-swap-oob") == 1


def test_unknown_panel_is_not_found(viewer: Client, talk: Thread) -> None:
    answer = viewer.get(f"{T}/panels/nothing")
    assert answer.status_code == 404
    assert answer.headers["MH-Panel"] == "1"


def test_panel_answers_401_and_never_redirects(talk: Thread) -> None:
    answer = Client().get(f"{T}/panels/head")
    assert answer.status_code == 401
    assert "message" not in answer.content.decode()
    assert Client().get(T).status_code == 302


def test_events_are_opened_and_closed_by_links(viewer: Client, talk: Thread) -> None:
    query = "at_seq=4&view=events&tab=memory&base=2"
    page = viewer.get(f"{T}?{query}&open=3").content.decode()
    kept = f"{T}?{query}".replace("&", "&amp;")
    assert f'href="{kept}&amp;open=3,5#event-5" aria-expanded="false"' in page
    assert f'href="{kept}#event-3" aria-expanded="true"' in page
    # A live page has to stop, or the next push would close what was opened.
    live = viewer.get(f"{T}?view=events").content.decode()
    assert f'href="{T}?at_seq=7&amp;view=events&amp;open=5#event-5"' in live


def test_number_of_open_events_is_bounded(
    viewer: Client, agent: Agent, talk: Thread
) -> None:
    factories.append(agent, "t-1", *("again" for _ in range(20)))
    opened = ",".join(str(seq) for seq in range(1, 21))
    page = viewer.get(f"{T}?view=events&open={opened}").content.decode()
    assert page.count('aria-expanded="true"') == 20
    assert page.count('aria-expanded="false"') == 0


def test_timeline_compares_two_moments(viewer: Client, talk: Thread) -> None:
    answer = viewer.get(f"{T}?at_seq=6&base=3")
    deltas = {change.name: change.delta for change in answer.context["difference"]}
    assert deltas["slot_count"] == 3
    assert deltas["senders · user"] == 3
    assert deltas["token_count"] == sum(
        talk.slots.get(index=n).tokens for n in (2, 3, 4)
    )
    page = answer.content.decode()
    assert "Compared with event" in page
    assert f'<a href="{T}?at_seq=3"><b>3</b></a>' in page
    assert f'<a data-unpin href="{T}?at_seq=6">clear</a>' in page
    assert f'href="{T}?at_seq=6&amp;base=6"' in page
    assert "difference" not in viewer.get(f"{T}?at_seq=6").context


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("at_seq=4&base=4", "No field differs"),
        ("at_seq=3&base=6&tab=memory", 'before">5</td><td data-label="after">2</td>'),
        ("base=99", "<b>7</b></a> · <a data-unpin"),
        ("at_seq=2&base=0", 'before">new</td><td data-label="after">open</td>'),
    ],
)
def test_any_event_can_be_the_base_of_a_comparison(
    viewer: Client, talk: Thread, query: str, text: str
) -> None:
    for where in ("", "/panels/moment"):
        assert text in viewer.get(f"{T}{where}?{query}").content.decode()


def test_timeline_links_keep_the_base_of_a_comparison(
    viewer: Client, talk: Thread
) -> None:
    operator_threads.close(talk, actor="operator:x", reason="completed")
    page = viewer.get(f"{T}?at_seq=6&base=3&view=events").content.decode()
    for link in ("data-step", "data-mark", "data-seek"):
        assert all("base=3" in href for href in hrefs(page, link)), link
    assert page.count('<input type="hidden" name="base" value="3">') == 3


def hrefs(page: str, attribute: str) -> list[str]:
    """List the targets of links with this attribute; require at least one."""
    tags = [tag for tag in re.findall(r"<a [^>]+>", page) if f" {attribute}=" in tag]
    found = [href[1] for tag in tags if (href := re.search(r'href="([^"]+)"', tag))]
    assert found
    return found


def test_newest_events_are_listed_without_a_gap(
    viewer: Client, agent: Agent, talk: Thread
) -> None:
    factories.append(agent, "t-1", *("again" for _ in range(60)))
    answer = viewer.get(f"{T}?view=events")
    seqs = [row.line.seq for row in answer.context["shown"]]
    assert seqs == list(range(17, 68))
    assert 'data-from="17"' in answer.content.decode()
    paused = viewer.get(f"{T}?view=events&at_seq=5&hide=slot+turn+nonsense")
    assert 'data-hide="slot turn"' in paused.content.decode()
    assert 'hide=slot+turn+thread"' in paused.content.decode()


def test_every_event_noun_can_be_hidden() -> None:
    rules = (Path(settings.BASE_DIR) / "static/css/events.css").read_text()
    hidden = re.findall(r"\[data-hide~=(\w+)\] \[data-noun=\1\]", rules)
    assert {*hidden} == {*search.NOUNS}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/tail", "?view=events"),
        ("/tail?at_seq=5&hide=turn", "?at_seq=5&view=events&hide=turn"),
        ("/working-set", ""),
        ("/working-set?at_seq=5", "?at_seq=5"),
        ("/working-set?at_turn=0", "?at_seq=7"),
    ],
)
def test_old_timeline_addresses_redirect(
    viewer: Client, talk: Thread, old: str, new: str
) -> None:
    answer = viewer.get(f"{T}{old}")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{T}{new}")
    assert viewer.get(f"{T}{new}").status_code == 200
    assert viewer.get(old.replace("/", "/p/acme/threads/none/", 1)).status_code == 404


@pytest.mark.parametrize(
    ("old", "panel"),
    [
        ("summary", "changed"),
        ("messages", "conversation"),
        ("working-memory", "working-memory"),
        ("working-set", "working-set"),
    ],
)
def test_old_timeline_tabs_show_the_matching_panel(
    viewer: Client, talk: Thread, old: str, panel: str
) -> None:
    page = viewer.get(f"{T}?at_seq=5&tab={old}").content.decode()
    assert f'<section id="{panel}"' in page


def test_scrubbing_renders_only_the_quick_panels(viewer: Client, talk: Thread) -> None:
    """The panels on the right stay until the thumb rests."""
    answer = viewer.get(f"{T}/panels/moment?at_seq=4&passing=1")
    page = answer.content.decode()
    assert 'id="side" hx-preserve="true"' in page
    assert "message 2" in page
    assert "working-set" not in answer.context
    assert "residency" not in answer.context
    whole = viewer.get(f"{T}/panels/moment?at_seq=4").content.decode()
    assert 'id="working-set"' in whole


def test_event_page_shows_the_whole_event(viewer: Client, talk: Thread) -> None:
    page = viewer.get(f"{T}/events/2").content.decode()
    assert "message 0" in page
    assert talk.events.get(seq=2).chain.hex() in page
    assert viewer.get(f"{T}/events/0").status_code == 404
    assert viewer.get(f"{T}/events/8").status_code == 404


def fetch_export(client: Client, path: str) -> bytes:
    """Return the text that an export streams."""
    answer: Any = client.get(f"{T}/{path}")
    return b"".join(answer.streaming_content)


def test_event_export_equals_the_journal(viewer: Client, talk: Thread) -> None:
    lines = fetch_export(viewer, "events.ndjson").splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["seq"] for record in records] == [1, 2, 3, 4, 5, 6, 7]
    assert all("payload" not in record for record in records)
    whole = fetch_export(viewer, "events.ndjson?content=1")
    assert json.loads(whole.splitlines()[1])["payload"] == {"content": "message 0"}
    batch = viewer.get(f"{T}/events.json").json()
    assert [item["seq"] for item in batch["items"]] == [1, 2, 3, 4, 5, 6, 7]
    assert batch["next"] is None


@pytest.mark.parametrize("size", [3, 150])
def test_timeline_costs_the_same_for_any_length(
    one_minute: None,
    viewer: Client,
    agent: Agent,
    size: int,
    django_assert_max_num_queries: object,
) -> None:
    factories.append(agent, "t-1", *("hello" for _ in range(size)))
    # The first read of a minute is audited; later reads find the entry in memory.
    viewer.get(f"{T}/events/1")
    # Session and operator, counts, place, thread; then at most nine for the screen.
    for path in ("/slots", "/forks", "/events/2"):
        with django_assert_max_num_queries(5 + 9):  # type: ignore[operator]  # a fixture
            assert viewer.get(f"{T}{path}").status_code == 200
    # A moment has a map, an event, a conversation, a working set and the run at hand.
    for query in ("", "?view=events", "?tab=changes", "?at_seq=2"):
        with django_assert_max_num_queries(5 + 27):  # type: ignore[operator]  # a fixture
            assert viewer.get(f"{T}{query}").status_code == 200
    # A comparison folds the state of one more event.
    with django_assert_max_num_queries(5 + 27 + 3):  # type: ignore[operator]  # a fixture
        assert viewer.get(f"{T}?at_seq=2&base=3").status_code == 200
    with django_assert_max_num_queries(4 + 12):  # type: ignore[operator]  # a fixture
        viewer.get(f"{T}/panels/moment?at_seq=2&passing=1")


def test_fork_shows_its_origin(viewer: Client, talk: Thread) -> None:
    operator_threads.fork(talk, actor="operator:x", name="t-1.alt", seq=4)
    page = viewer.get("/p/acme/threads/t-1.alt/forks").content.decode()
    assert '/t-1?at_seq=4">event 4</a>' in page
    assert "3 slots inherited" in page
    slots = viewer.get("/p/acme/threads/t-1.alt/slots")
    assert [bubble.slot.index for bubble in slots.context["bubbles"]] == [0, 1, 2]
    assert "inherited from" in slots.content.decode()
    assert viewer.get("/p/acme/threads/t-1.alt").status_code == 200


def test_fork_leads_to_the_replay_of_what_it_inherits(
    viewer: Client, agent: Agent, talk: Thread
) -> None:
    for _ in range(2):
        factories.run(turns.begin_turn(agent=agent, thread="t-1", new=NewTurn()))
    talk.refresh_from_db()
    operator_threads.fork(talk, actor="operator:x", name="t-1.alt", seq=talk.head_seq)
    fork = "/p/acme/threads/t-1.alt"
    page = viewer.get(fork).content.decode()
    assert '/t-1?at_seq=11">t-1, up to event 11</a>' in page
    turn = viewer.get(f"{fork}?at_turn=1")
    assert "inherits that turn from" in turn.content.decode()
    assert "t-1?at_seq=9" in turn.content.decode()
    assert turn.context["at"] == 1
    assert viewer.get(f"{fork}?at_turn=2").context["as_of"].inherited is None
    assert viewer.get(f"{fork}?at_turn=3").context["as_of"].beyond


def test_editor_forks_at_an_event(browser: object, acme: Project, talk: Thread) -> None:
    editor = browser("editor")  # type: ignore[operator]  # a fixture
    form = editor.get(f"{T}/fork?at_seq=4").content.decode()
    assert 'value="4"' in form
    assert 'value="t-1.fork-4" data-stem="t-1.fork-"' in form
    made = editor.post(f"{T}/fork", {"name": "other", "seq": "4"})
    assert made.headers["Location"] == "/p/acme/threads/other?saved=1"
    landing = editor.get(made.headers["Location"]).content.decode()
    assert re.search(
        r'Forked from <a\s+href="/p/acme/threads/t-1\?at_seq=4">t-1 at event\s+4</a>: '
        r'<a\s+href="/p/acme/threads/other/events/1"',
        landing,
    )
    assert Thread.objects.get(name="other").slot_count == 3
    taken = editor.post(f"{T}/fork", {"name": "other", "seq": "4"})
    assert taken.status_code == 409
    assert 'value="other"' in taken.content.decode()
    for form in (
        {"name": "a b", "seq": "1"},
        {"name": "x", "seq": "99"},
        {"name": "x"},
    ):
        assert editor.post(f"{T}/fork", form).status_code == 422


def test_viewer_cannot_fork(viewer: Client, talk: Thread) -> None:
    answer = viewer.post(f"{T}/fork", {"name": "other", "seq": "4"})
    assert answer.status_code == 403
    assert Thread.objects.count() == 1
    assert ">Fork<" not in viewer.get(T).content.decode()
