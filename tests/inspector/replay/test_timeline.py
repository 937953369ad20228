from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from inspector.drawing.scenes import Scene
from inspector.lists import panels
from inspector.nouns import NOUNS
from inspector.replay import moments
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads, slots
from tests.cast import factories

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/t-1"


@pytest.fixture
def talk(acme: Project, agent: Agent) -> Thread:
    """Seven events: made, then six messages."""
    factories.make_thread(agent)
    factories.append(agent, "t-1", *(f"message {n}" for n in range(6)))
    thread = factories.get_thread(agent)
    thread.project = acme
    return thread


def test_a_page_follows_the_head(viewer: Client, talk: Thread) -> None:
    page = viewer.get(T).content.decode()
    assert 'data-live="events"' in page
    assert 'data-live="summary"' in page
    assert "message 5" in page
    assert 'ws-connect="/ws/live/acme"' in page


def test_as_of_an_event_nothing_later_is_said_of_the_state(
    viewer: Client, talk: Thread
) -> None:
    answer = viewer.get(f"{T}?at_seq=3")
    page = answer.content.decode()
    assert answer.context["moment"].state.slot_count == 2
    assert "As of event <b>3</b>" in page
    assert 'data-newer data-at="3">4<' in page
    assert 'data-live="events"' not in page
    assert 'data-live="head"' in page


def test_changes_are_what_the_event_made_of_the_state(
    viewer: Client, talk: Thread
) -> None:
    changes = viewer.get(f"{T}?at_seq=3").context["moment"].changes
    told = {change.name: change.delta for change in changes}
    assert told["slot_count"] == 1
    assert told["types · chat.user"] == 1
    assert told["token_count"] == talk.slots.get(index=1).tokens


def test_names_of_clients_are_shown_as_they_are(
    viewer: Client, agent: Agent, talk: Thread
) -> None:
    slot = factories.make_slot("found", from_name="tool:search_library")
    factories.run(slots.append(agent=agent, thread="t-1", slots=[slot]))
    page = viewer.get(f"{T}?at_seq=8").content.decode()
    assert '<th scope="row">senders · tool:search_library</th>' in page
    assert '<th scope="row">slots</th>' in page


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
def test_nonsense_is_refused(
    viewer: Client, talk: Thread, query: str, where: str
) -> None:
    answer = viewer.get(f"{T}{where}?{query}")
    assert answer.status_code == 422
    assert answer.headers.get("MH-Panel") == ("1" if where else None)


def test_beyond_the_head_is_the_head_with_a_notice(
    viewer: Client, talk: Thread
) -> None:
    for path in ("", "/slots", "/tail"):
        answer = viewer.get(f"{T}{path}?at_seq=99")
        assert answer.status_code == 200
        assert "There is no such event yet" in answer.content.decode()
    assert viewer.get(f"{T}?at_seq=99").context["at"] == 7
    assert viewer.get(f"{T}?at_turn=9").context["at"] == 7


def test_unknown_parameters_are_ignored(viewer: Client, talk: Thread) -> None:
    assert viewer.get(f"{T}?colour=red&tab=nothing").status_code == 200


def test_an_event_stands_open_when_asked(viewer: Client, talk: Thread) -> None:
    page = viewer.get(f"{T}?open=2,3").content.decode()
    assert page.count("&quot;payload&quot;: {") == 2


@pytest.mark.parametrize("name", sorted(moments.PANELS))
def test_a_panel_is_what_its_page_includes(
    viewer: Client, owner: Client, talk: Thread, name: str
) -> None:
    """One render for all: no form, and nothing that differs by who looks."""
    pages = {
        "row": "/p/acme/threads",
        "messages": f"{T}?tab=messages",
        "tail": f"{T}/tail",
        "paging": f"{T}/paging",
        "working-memory": f"{T}?tab=working-memory",
        **{noun.name: f"{T}/{noun.name}" for noun in NOUNS if noun.panel},
    }
    page = viewer.get(pages.get(name, T))
    answer = viewer.get(f"{T}/panels/{name}")
    assert answer.headers["MH-Panel"] == "1"
    panel = answer.content.decode().strip()
    assert panel in page.content.decode()
    assert "<form" not in panel
    assert owner.get(f"{T}/panels/{name}").content == answer.content


@pytest.mark.parametrize("name", sorted(moments.PUSHED))
def test_a_push_differs_by_its_swap_only(talk: Thread, name: str) -> None:
    shown = panels.render(moments.PANELS[name], Scene(thread=talk))
    pushed = panels.render(moments.PANELS[name], Scene(thread=talk), pushed=True)
    assert pushed.replace(' hx-swap-oob="true"', "", 1) == shown
    assert pushed.count("hx-swap-oob") == 1


def test_an_unknown_panel_is_not_found(viewer: Client, talk: Thread) -> None:
    answer = viewer.get(f"{T}/panels/nothing")
    assert answer.status_code == 404
    assert answer.headers["MH-Panel"] == "1"


def test_a_panel_answers_401_and_never_redirects(talk: Thread) -> None:
    answer = Client().get(f"{T}/panels/head")
    assert answer.status_code == 401
    assert "message" not in answer.content.decode()
    assert Client().get(T).status_code == 302


def test_events_are_opened_and_closed_by_links(viewer: Client, talk: Thread) -> None:
    page = viewer.get(f"{T}?at_seq=4&tab=messages&base=2&open=3").content.decode()
    kept = f"{T}?at_seq=4&amp;tab=messages&amp;base=2"
    assert f'href="{kept}&amp;open=3,5#event-5" aria-expanded="false"' in page
    assert f'href="{kept}#event-3" aria-expanded="true"' in page
    # A live page has to stop, or the next push would close what was opened.
    assert f'href="{T}?at_seq=7&amp;open=5#event-5"' in viewer.get(T).content.decode()


def test_no_more_events_stand_open_than_a_page_takes(
    viewer: Client, agent: Agent, talk: Thread
) -> None:
    factories.append(agent, "t-1", *("again" for _ in range(20)))
    opened = ",".join(str(seq) for seq in range(1, 21))
    page = viewer.get(f"{T}?open={opened}").content.decode()
    assert page.count('aria-expanded="true"') == 20
    assert page.count('aria-expanded="false"') == 0


def test_two_moments_are_compared(viewer: Client, talk: Thread) -> None:
    answer = viewer.get(f"{T}?at_seq=6&base=3")
    told = {change.name: change.delta for change in answer.context["difference"]}
    assert told["slot_count"] == 3
    assert told["senders · user"] == 3
    assert told["token_count"] == sum(talk.slots.get(index=n).tokens for n in (2, 3, 4))
    page = answer.content.decode()
    assert "compared with event" in page
    assert f'<a href="{T}?at_seq=3"><b>3</b></a>' in page
    assert f'<a data-unpin href="{T}?at_seq=6">clear</a>' in page
    assert f'href="{T}?at_seq=6&amp;base=6"' in page
    assert "difference" not in viewer.get(f"{T}?at_seq=6").context


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("at_seq=4&base=4", "Nothing that is counted differs"),
        ("at_seq=3&base=6&tab=messages", "<td>5</td><td>2</td>"),
        ("base=99", "<b>7</b></a> · <a data-unpin"),
        ("at_seq=2&base=0", "<td>new</td><td>open</td>"),
    ],
)
def test_any_event_may_be_the_base(
    viewer: Client, talk: Thread, query: str, said: str
) -> None:
    for where in ("", "/panels/moment"):
        assert said in viewer.get(f"{T}{where}?{query}").content.decode()


def test_the_next_moment_is_compared_too(viewer: Client, talk: Thread) -> None:
    operator_threads.close(talk, actor="operator:x", reason="completed")
    page = viewer.get(f"{T}?at_seq=6&base=3&tab=messages").content.decode()
    for link in ("data-step", "data-mark", "data-seek"):
        assert all("base=3" in href for href in hrefs(page, link)), link
    assert page.count('<input type="hidden" name="base" value="3">') == 2


def hrefs(page: str, attribute: str) -> list[str]:
    """Where the links with this attribute lead; there must be some."""
    tags = [tag for tag in re.findall(r"<a [^>]+>", page) if f" {attribute}=" in tag]
    found = [href[1] for tag in tags if (href := re.search(r'href="([^"]+)"', tag))]
    assert found
    return found


def test_the_tail_shows_the_newest_fifty_in_one_stretch(
    viewer: Client, agent: Agent, talk: Thread
) -> None:
    factories.append(agent, "t-1", *("again" for _ in range(60)))
    answer = viewer.get(f"{T}/tail")
    seqs = [told.line.seq for told in answer.context["shown"]]
    assert seqs == list(range(18, 68))
    assert 'data-from="18"' in answer.content.decode()
    paused = viewer.get(f"{T}/tail?at_seq=5&hide=slot+turn+nonsense")
    assert [told.line.seq for told in paused.context["shown"]] == [1, 2, 3, 4, 5]
    assert 'data-hide="slot turn"' in paused.content.decode()


def test_an_event_is_shown_whole(viewer: Client, talk: Thread) -> None:
    page = viewer.get(f"{T}/events/2").content.decode()
    assert "message 0" in page
    assert talk.events.get(seq=2).chain.hex() in page
    assert viewer.get(f"{T}/events/0").status_code == 404
    assert viewer.get(f"{T}/events/8").status_code == 404


def sent(client: Client, path: str) -> bytes:
    """What an export streams."""
    answer: Any = client.get(f"{T}/{path}")
    return b"".join(answer.streaming_content)


def test_events_are_exported_as_the_journal_has_them(
    viewer: Client, talk: Thread
) -> None:
    lines = sent(viewer, "events.ndjson").splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["seq"] for record in records] == [1, 2, 3, 4, 5, 6, 7]
    assert all("payload" not in record for record in records)
    whole = sent(viewer, "events.ndjson?content=1")
    assert json.loads(whole.splitlines()[1])["payload"] == {"content": "message 0"}
    batch = viewer.get(f"{T}/events.json").json()
    assert [item["seq"] for item in batch["items"]] == [1, 2, 3, 4, 5, 6, 7]
    assert batch["next"] is None


@pytest.mark.parametrize("size", [3, 150])
def test_a_thread_costs_the_same_however_long(
    one_minute: None,
    viewer: Client,
    agent: Agent,
    size: int,
    django_assert_max_num_queries: object,
) -> None:
    factories.append(agent, "t-1", *("hello" for _ in range(size)))
    # The first look of a minute is noted, which those after it find in memory.
    viewer.get(f"{T}/events/1")
    # Session and operator, place, thread; then at most eight for the screen.
    for path in (
        "",
        "?tab=messages",
        "/tail",
        "/slots",
        "/forks",
        "/events/2",
    ):
        with django_assert_max_num_queries(4 + 8):  # type: ignore[operator]  # a fixture
            assert viewer.get(f"{T}{path}").status_code == 200
    # What is compared with is one more moment.
    with django_assert_max_num_queries(4 + 8 + 3):  # type: ignore[operator]  # a fixture
        assert viewer.get(f"{T}?at_seq=2&base=3").status_code == 200


def test_a_fork_shows_where_it_came_from(viewer: Client, talk: Thread) -> None:
    operator_threads.fork(talk, actor="operator:x", name="t-1.alt", seq=4)
    page = viewer.get("/p/acme/threads/t-1.alt/forks").content.decode()
    assert "left its parent at event 4" in page
    assert "3 slots inherited" in page
    slots = viewer.get("/p/acme/threads/t-1.alt/slots")
    assert [bubble.slot.index for bubble in slots.context["bubbles"]] == [0, 1, 2]
    assert "inherited from" in slots.content.decode()
    assert viewer.get("/p/acme/threads/t-1.alt").status_code == 200


def test_an_editor_forks_at_an_event(
    browser: object, acme: Project, talk: Thread
) -> None:
    editor = browser("editor")  # type: ignore[operator]  # a fixture
    assert 'value="4"' in editor.get(f"{T}/fork?at_seq=4").content.decode()
    made = editor.post(f"{T}/fork", {"name": "other", "seq": "4"})
    assert made.headers["Location"] == "/p/acme/threads/other"
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


def test_a_viewer_forks_nothing(viewer: Client, talk: Thread) -> None:
    answer = viewer.post(f"{T}/fork", {"name": "other", "seq": "4"})
    assert answer.status_code == 403
    assert Thread.objects.count() == 1
    assert ">Fork<" not in viewer.get(T).content.decode()
