from __future__ import annotations

import csv
import html
import io
import json
import operator
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import event_search
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.routes import make_family

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/t-1"


@pytest.fixture(scope="module")
def acme(standing: None) -> Project:
    return factories.make_project("acme")


@pytest.fixture(scope="module")
def agent(acme: Project) -> Agent:
    return factories.make_agent(acme)


@pytest.fixture(scope="module", autouse=True)
def family(agent: Agent) -> None:
    """Make t-1: 1 created, 2 slot, 3 turn 1, 4 slot, 5 turn 2, 6 slot, 7 advanced."""
    make_family(agent)


def list_shown_seqs(client: Client, query: str, thread: str = "t-1") -> list[int]:
    """Return the seqs that the list shows, in its order."""
    answer = client.get(f"/p/acme/threads/{thread}/events", {"q": query})
    assert answer.status_code == 200, answer.context["parsed"]
    return [row.line.seq for row in answer.context["shown"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [7, 6, 5, 4, 3, 2, 1]),
        ("type:slot.appended", [6, 4, 2]),
        ("type:turn.*,thread.created", [5, 3, 1]),
        ("-slot", [7, 5, 3, 1]),
        ("turn", [5, 3]),
        ("noun:slot,import", [7, 6, 4, 2]),
        ("noun:run", []),
        ("seq:3", [3]),
        ("seq:2..4", [4, 3, 2]),
        ("seq:>5", [7, 6]),
        ("seq:<=2", [2, 1]),
        ("turn:0", [2, 1]),
        ("turn:1", [4, 3]),
        ("turn:>=1", [7, 6, 5, 4, 3]),
        ("-turn:1", [7, 6, 5, 2, 1]),
        ("actor:import", [7, 6, 5, 4, 3, 2]),
        ("actor:agent*", [1]),
        ("actor:agent*,import -noun:slot", [7, 5, 3, 1]),
        ("size:0", [7, 5, 3, 1]),
        ("size:>0 turn:0", [2]),
        ("size:>1k", []),
        ("at:<1h", [7, 6, 5, 4, 3, 2, 1]),
        ("at:>1h", []),
        ("noun:slot seq:>2 -turn:1", [6]),
        ("page:slot-0", [2]),
        ("page:slot-1,slot-2", [6, 4]),
        ("page:slot-*", [6, 4, 2]),
        ("page:s*", [6, 4, 2]),
        ("page:slot-1*", [4]),
        ("-page:slot-*", [7, 5, 3, 1]),
        ("page:slot-3,slot-01,slot-,obs-1,1", []),
        ("page:slot-0* turn:0", [2]),
        ("erased:false", [7, 6, 5, 4, 3, 2, 1]),
        ("erased:true", []),
        ("-erased:true noun:turn", [5, 3]),
        ("at:>=2001-01-01", [7, 6, 5, 4, 3, 2, 1]),
        ("at:<2001-01-01T12", []),
    ],
)
def test_event_search_finds_matching_events(
    viewer: Client, query: str, found: list[int]
) -> None:
    assert list_shown_seqs(viewer, query) == found


def test_fork_events_begin_in_the_turn_of_the_fork(viewer: Client) -> None:
    """The fork left at event 5, where turn 2 of the parent began."""
    assert list_shown_seqs(viewer, "turn:2", "t-1.alt") == [2, 1]
    assert list_shown_seqs(viewer, "turn:<2", "t-1.alt") == []


@pytest.fixture
def times(family: None) -> list[datetime]:
    """Return the times of the events of t-1, in their order."""
    thread = Thread.objects.get(name="t-1")
    return [*thread.events.order_by("seq").values_list("at", flat=True)]


def test_event_search_matches_times_to_the_given_precision(
    viewer: Client, times: list[datetime]
) -> None:
    """Search by an event's time, cut after the day, the hour, down to fractions."""
    texts = [f"{at:%Y-%m-%dT%H:%M:%S.%f}" for at in times]
    for length in (10, 13, 16, 19, 21, 23, 26):
        cut = texts[3][:length]
        alike, earlier, later = (
            [seq for seq, text in enumerate(texts, 1) if holds(text[:length], cut)][
                ::-1
            ]
            for holds in (operator.eq, operator.lt, operator.gt)
        )
        assert list_shown_seqs(viewer, f"at:{cut}") == alike
        assert list_shown_seqs(viewer, f'at:"{cut}Z"'.replace("T", " ")) == alike
        assert list_shown_seqs(viewer, f"at:<{cut}") == earlier
        assert list_shown_seqs(viewer, f"at:>{cut}Z") == later
        assert list_shown_seqs(viewer, f"-at:<={cut}") == later
        assert list_shown_seqs(viewer, f"-at:>={cut}") == earlier


def test_event_search_by_time_range_includes_both_ends(
    viewer: Client, times: list[datetime]
) -> None:
    first, last = (f"{at:%Y-%m-%dT%H:%M:%S.%f}Z" for at in (times[1], times[4]))
    wanted = [n for n, at in enumerate(times, 1) if times[1] <= at <= times[4]]
    assert list_shown_seqs(viewer, f"at:{first}..{last}") == wanted[::-1]
    assert list_shown_seqs(viewer, f"at:{last}..{first}") in ([], wanted[::-1])
    day = times[0].date()
    around = f"at:{day - timedelta(days=1)}..{times[-1].date()}"
    assert list_shown_seqs(viewer, around) == [7, 6, 5, 4, 3, 2, 1]
    assert (
        list_shown_seqs(
            viewer, f"at:{day - timedelta(days=9)}..{day - timedelta(days=2)}"
        )
        == []
    )
    assert list_shown_seqs(viewer, "at:1h..2h") == []
    assert list_shown_seqs(viewer, "at:0s..1h") == [7, 6, 5, 4, 3, 2, 1]


def test_event_search_finds_a_page_by_id_prefix(viewer: Client, agent: Agent) -> None:
    factories.append(agent, "t-1", *("more" for _ in range(120)))
    seqs = dict(Slot.objects.filter(thread__name="t-1").values_list("index", "seq"))
    for text in ("1", "10", "12", "2", "9", "0"):
        wanted = [
            seqs[n] for n in sorted(seqs, reverse=True) if str(n).startswith(text)
        ]
        answer = viewer.get(f"{T}/events?q=page:slot-{text}*&limit=200")
        assert [row.line.seq for row in answer.context["shown"]] == wanted
        assert list_shown_seqs(viewer, f"page:slot-{text}") == [seqs[int(text)]]


@pytest.mark.no_replay
def test_event_search_finds_erased_events(viewer: Client, agent: Agent) -> None:
    rows = Thread.objects.get(name="t-1").events.filter(seq__in=(2, 6))
    rows.update(payload=None, erased_by=9)
    assert list_shown_seqs(viewer, "erased:true") == [6, 2]
    assert list_shown_seqs(viewer, "erased:true,false") == [7, 6, 5, 4, 3, 2, 1]
    assert list_shown_seqs(viewer, "erased:false page:slot-*") == [4]


def test_fork_lists_no_event_for_inherited_slots(viewer: Client) -> None:
    assert list_shown_seqs(viewer, "page:slot-0", "t-1.alt") == []
    assert list_shown_seqs(viewer, "page:slot-2", "t-1.alt") == [2]


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("typ:slot.appended", "type:"),
        ("type:slot.apended", "type:slot.appended"),
        ("noun:slots", "noun:slot"),
        ("seq:many", "seq:5..20"),
        ("size:1h", "size:&gt;64k"),
        ("at:5k", "at:&lt;1h"),
        ("at:2026-02-30", "at:2026-01-30..2026-01-31"),
        ("at:2026-1-1", "at:2026-01-30..2026-01-31"),
        ("at:9999-12-31", "at:2026-01-30..2026-01-31"),
        ("at:2026-01-30..1h", "at:2026-01-30..2026-01-31"),
        ("at:>2026-01-30..2026-01-31", "at:2026-01-30..2026-01-31"),
        ("erased:yes", "erased:true"),
        ("erasd:true", "erased:"),
    ],
)
def test_wrong_event_search_suggests_the_nearest_word(
    viewer: Client, query: str, nearest: str
) -> None:
    answer = viewer.get(f"{T}/events", {"q": query})
    assert answer.status_code == 422
    assert "shown" not in answer.context
    assert f"<code>{nearest}</code>" in answer.content.decode()


def next_link(client: Client, query: str) -> tuple[list[int], str]:
    """Return the seqs on a page of the list, and the query of the link to the next."""
    answer = client.get(f"{T}/events?{query}")
    assert answer.status_code == 200
    link = re.search(r'rel="next" href="\?([^"]+)"', answer.content.decode())
    seqs = [row.line.seq for row in answer.context["shown"]]
    return seqs, html.unescape(link[1]) if link else ""


@pytest.mark.parametrize("at_seq", ["", "&at_seq=6"])
def test_event_pages_walk_the_journal_once(viewer: Client, at_seq: str) -> None:
    seen: list[int] = []
    query = f"q=-noun:turn&limit=2{at_seq}"
    while query:
        seqs, following = next_link(viewer, query)
        seen += seqs
        query = f"{following}&limit=2" if following else ""
    assert seen == ([6, 4, 2, 1] if at_seq else [7, 6, 4, 2, 1])


def test_new_event_does_not_shift_older_event_pages(
    viewer: Client, agent: Agent
) -> None:
    _, following = next_link(viewer, "limit=4")
    factories.append(agent, "t-1", "one more")
    assert next_link(viewer, f"{following}&limit=4") == ([3, 2, 1], "")


@pytest.mark.parametrize(
    "elsewhere",
    [
        "t-1/events?q=noun:slot",
        "t-1/events?q=-noun:turn&at_seq=6",
        "t-1.alt/events?q=-noun:turn",
        # The same search in the other direction.
        "t-1/events.json?q=-noun:turn",
        "t-1/slots.json?",
    ],
)
def test_event_cursor_is_valid_in_its_own_list_only(
    viewer: Client, elsewhere: str
) -> None:
    _, following = next_link(viewer, "q=-noun:turn&limit=2")
    after = following.partition("after=")[2]
    assert next_link(viewer, f"q=-noun:turn&after={after}")[0] == [4, 2, 1]
    answer = viewer.get(f"/p/acme/threads/{elsewhere}&after={after}")
    assert answer.status_code == 400
    assert "This link is not valid" in answer.content.decode()


def test_event_search_is_bounded_and_says_so(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_search, "REACH", 3)
    answer = viewer.get(f"{T}/events?q=type:thread.created")
    page = answer.content.decode()
    assert answer.context["shown"] == []
    assert '/events/5">5</a> to' in page
    assert "Older events were not searched yet." in page
    found, query = [], "q=type:thread.created"
    for _ in range(3):
        seqs, query = next_link(viewer, query)
        found.append(seqs)
    assert (found, query) == ([[], [], [1]], "")


def test_event_search_as_of_an_event_omits_later_events(viewer: Client) -> None:
    answer = viewer.get(f"{T}/events?q=noun:slot&at_seq=4")
    assert [row.line.seq for row in answer.context["shown"]] == [4, 2]
    page = answer.content.decode()
    assert "As of event 4 ·" in page
    assert 'href="?q=noun%3Aslot">Show now' in page


def fetch_export(client: Client, kind: str, query: str) -> str:
    answer: Any = client.get(f"{T}/events.{kind}?{query}")
    return b"".join(answer.streaming_content).decode()


@pytest.mark.parametrize("reach", [2, 20_000])
@pytest.mark.parametrize("query", ["", "q=noun:slot", "q=noun:slot&at_seq=4"])
def test_event_export_equals_the_filter(
    viewer: Client, query: str, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = viewer.get(f"{T}/events?{query}")
    wanted = [row.line.seq for row in answer.context["shown"]][::-1]
    monkeypatch.setattr(event_search, "REACH", reach)
    lines = fetch_export(viewer, "ndjson", query).splitlines()
    assert [json.loads(line)["seq"] for line in lines] == wanted
    rows = csv.DictReader(io.StringIO(fetch_export(viewer, "csv", query)))
    assert [int(row["seq"]) for row in rows] == wanted
    got: list[int] = []
    after: str | None = ""
    while after is not None:
        batch = viewer.get(f"{T}/events.json?{query}&after={after}").json()
        got += [item["seq"] for item in batch["items"]]
        after = batch["next"]
    assert got == wanted


def test_event_list_costs_the_same_for_any_length(
    one_minute: None, viewer: Client, agent: Agent, django_assert_max_num_queries: Any
) -> None:
    factories.append(agent, "t-1", *("hello" for _ in range(120)))
    assert Thread.objects.get(name="t-1").head_seq == 127
    # The first read of a minute is audited; later reads find the entry in memory.
    viewer.get(f"{T}/events")
    with django_assert_max_num_queries(5 + 2):
        viewer.get(f"{T}/events?q=turn:1,2 size:<9 noun:slot")
