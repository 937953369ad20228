"""Live pages: after a push each page equals a reload, or says as of when it is.

An agent writes a record of every kind meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from inspector.live import protocol
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import api_keys
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import levels
from tests.e2e.conftest import Watched, say
from tests.e2e.overview.test_overview import look
from tests.inspector import remembered
from tests.inspector.paged import make_paged
from tests.inspector.routes import list_routes, variants
from tests.oracles import memory_acts

THREADS = "/p/acme/threads"
SLOT = {"from": "user", "to": "assistant", "type": "chat.user"}
#: Routes that are no whole page: fragments, files, redirects.
OTHERS = {"panel", "list-panel", "erasure-panel", "turn-panel"}
OTHERS |= {"sign-out", "theme", "sso", "sign-in"}
#: Addresses of filtered or paged lists, which stand still and say so.
READ = (
    "/events?q=noun:slot",
    "/slots?from=user",
    "/slots?index=1",
    "/keys?q=name:seat",
    "/pages?q=tier:L0",
    "/pages?limit=2",
    "/turns?limit=1",
    "/keys/seat",
    "/observer?observation=obs-1",
)
#: Problem reported for a page without a socket.
STILL = "it stands still"
#: Pages that may be without a socket: forms, and records of one event.
FORMS = """
/add-key /clear-keys /close /fork /reopen
/retention /task/edit /checkpoints/take
/checkpoints/1/delete /checkpoints/1/restore /events/2/undo
/keys/seat/delete /keys/seat/retime /keys/seat/set
/observer/activate /observer/observe /observer/pause /observer/reflect
/observer/resume /observer/instructions
/pages/policy/delete /pages/policy/evict /pages/policy/map /pages/policy/pin
/pages/policy/unpin /paging/flush /paging/prefetch/clear /paging/settings
/turns/1/mark
"""
RECORDS = """
/events/2 /forks /paging/curves /paging/prefetch /prefix /procedures
/slots/1 /slots/1/pictures/1 /turns/1/diff
/turns/1/missing /turns/1/prefix /turns/1/request
"""
#: Addresses of replay and paging, by mode.
MODES = ("", "?view=events&tab=changes", "?tab=memory", "/paging", "/paging?by=event")
#: Pages that `make test` checks; a fault of all pages shows on these.
FEW = ("/slots", "/events", "/turns", "/pages", "/keys", "/events?q=noun:slot")
#: Pages that are checked for layout shifts.
STEADY = (
    "",
    "?view=events",
    "?at_seq=20",
    "/turns",
    "/turns/3",
    "/paging",
    "/pages",
    "/slots",
    "/keys",
    "/checkpoints",
)
#: Script that sums layout shifts without recent input.
SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => list.getEntries().forEach((each) => {
  if (!each.hadRecentInput) window.shifted += each.value;
})).observe({ type: "layout-shift", buffered: true });
"""
#: Script that stops the 20-second polls, so that only pushes update a page.
NEVER_BY_ITSELF = """
const later = window.setTimeout;
window.setTimeout = (work, wait, ...more) =>
  wait === 20000 ? 0 : later(work, wait, ...more);
"""
_AGES = re.compile(
    r"\b(?:now|in \d+ \w+|\d+ (?:s|min|h)(?: \d+ (?:s|min))?(?: ago)?)\b"
)


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the socket limit: one browser opens more pages here than a person would."""
    monkeypatch.setattr(protocol, "MAX_SOCKETS_PER_SESSION", 1_000)


def at_rest() -> Thread:
    """Return the thread with the page levels that the worker would soon write."""
    levels.make_levels(Thread.objects.get(name="paged"))
    return Thread.objects.get(name="paged")


@pytest.fixture
def world(agent: Agent) -> Thread:
    """Make a thread under pressure that has working memory too."""
    make_paged(agent, "paged")
    for key in ("seat", "cart"):
        memory_acts.set_key(agent, key, "12A", thread="paged")
    memory_acts.take(agent, "before", thread="paged")
    memory_acts.add_notes(agent, "It was a mistake.", thread="paged")
    memory_acts.set_task(agent, "paged", status="running")
    remembered.make_desk(agent)
    return at_rest()


@pytest.fixture
def write(acme: Project, world: Thread, page: Page) -> Callable[[], int]:
    """Return a function that writes all kinds of records and returns the head."""
    _, key = api_keys.create(acme)
    count = 0

    def send_request(method: str, path: str, body: Any) -> None:
        answer = page.request.fetch(
            f"/api/v1/threads/{world.name}{path}",
            method=method,
            data=body,
            headers={"Authorization": f"Bearer {key}"},
        )
        assert answer.ok, answer.text()

    def write_everything() -> int:
        nonlocal count
        count += 1
        said = {**SLOT, "content": f"And {count}? " + "Why? " * 60}
        send_request("POST", "/turns", {"slots": [said]})
        send_request("PUT", "/keys/seat", {"value": f"{count}A"})
        send_request(
            "PUT", f"/keys/new-{count}", {"value": count, "ttl_seconds": 36_000}
        )
        send_request("POST", "/notes", {"text": f"Note {count}."})
        send_request("PATCH", "/task", {"progress_percent": count % 100})
        send_request("POST", "/checkpoints", {"name": f"c-{count}"})
        return at_rest().head_seq

    return write_everything


def get_shown_text(page: Page) -> str:
    """Return the text of the page without ages."""
    text = page.locator("main").inner_text()
    return re.sub(r"\s+", " ", _AGES.sub("…", text))


def pill(page: Page) -> Locator:
    return page.locator("#live")


def wait_for_push(page: Page, head: int) -> None:
    """Wait until every live panel shows this seq."""
    page.wait_for_function(
        """head => [...document.querySelectorAll("[data-live]")].every(
          panel => Number(panel.dataset.seq) >= head)""",
        arg=head,
    )


def find_difference_to_reload(page: Page, path: str, write: Callable[[], int]) -> str:
    """Write while the page is open; return its difference to a reload, or ""."""
    page.goto(path)
    turn = page.locator("#live[data-turn]").count()
    state = "paused" if turn else "live"
    expect(pill(page)).to_have_attribute("data-state", state)
    standing = page.locator("[data-standing]").count()
    told = pill(page).inner_text()
    head = write()
    wait_for_push(page, head)
    if turn:
        # The page of a past turn stays as it was, and counts newer turns.
        newer = int(told.split()[-2]) + 1
        expect(pill(page)).to_have_text(re.sub(r"\d+ newer", f"{newer} newer", told))
        return ""
    if standing:
        expect(pill(page)).to_have_text(
            re.compile(r"^This (list|page): as of \d\d:\d\d · \d+ newer$")
        )
        page.get_by_role("link", name="Show now").click()
        expect(pill(page)).to_have_text("Live")
        return ""
    expect(pill(page)).to_have_text("Live")
    before = get_shown_text(page)
    page.reload()
    return difference(before, get_shown_text(page))


def difference(before: str, after: str) -> str:
    """Return where two texts part, and a little of each; "" if they are equal."""
    if before == after:
        return ""
    pairs = enumerate(zip(before, after, strict=False))
    first = next((n for n, (a, b) in pairs if a != b), min(len(before), len(after)))
    place = max(0, first - 40)
    return f"{before[place:][:160]!r}, after a reload {after[place:][:160]!r}"


def addresses() -> Iterator[str]:
    """List the pages of a thread, and some filtered lists."""
    known = {"project": "acme", "thread": "paged", "page": "policy", "key": "seat"}
    known |= {"fact": "2", "block": "persona", "part": "1"}
    known |= {"seq": "2", "index": "1", "n": "1", "number": "1", "verb": "pin"}
    for route in list_routes():
        if route.name in OTHERS or "thread" not in route.parameters:
            continue
        if route.name.startswith("thread-"):
            continue  # redirects to a person's page
        if "kind" in route.parameters or route.pattern.endswith("ndjson"):
            continue
        for choice in variants(route):
            yield route.fill({**known, **choice})
    yield from (f"{THREADS}/paged{path}" for path in READ)


def problems(page: Page, paths: Iterator[str], write: Callable[[], int]) -> list[str]:
    """List the problems of these pages; a page without a socket is one."""
    found = []
    for path in paths:
        if "ws-connect" not in page.request.get(path).text():
            found.append(f"{path}: {STILL}")
        elif problem := find_difference_to_reload(page, path, write):
            found.append(f"{path}: {problem}")
    return found


def test_live_thread_lists_equal_a_reload(write: Callable[[], int], page: Page) -> None:
    paths = (f"{THREADS}/paged{path}" for path in FEW)
    assert problems(page, paths, write) == []


def test_live_replay_and_paging_pages_equal_a_reload(
    write: Callable[[], int], page: Page
) -> None:
    paths = (f"{THREADS}/paged{path}" for path in MODES)
    assert problems(page, paths, write) == []


def test_every_live_thread_page_equals_a_reload(
    write: Callable[[], int], page: Page, watched: Watched
) -> None:
    # Addresses that take a POST only answer 405.
    watched.expected.append("405")
    found = problems(page, addresses(), write)
    still = {
        place.removeprefix(f"{THREADS}/paged").removesuffix(f": {STILL}")
        for place in found
        if place.endswith(STILL)
    }
    assert [problem for problem in found if not problem.endswith(STILL)] == []
    assert still == {*FORMS.split(), *RECORDS.split()}


def test_live_pages_have_no_layout_shift(write: Callable[[], int], page: Page) -> None:
    """Compare the browser's sum of layout shifts with 0.1, which is called good."""
    page.add_init_script(SHIFTS)
    projects = ("/p/acme/", THREADS, "/p/acme/connect", "/p/acme/health")
    shifts: dict[str, float] = {}
    for path in (*projects, *(f"{THREADS}/paged{part}" for part in STEADY)):
        page.goto(path)
        if page.locator("body[ws-connect]").count():
            expect(pill(page)).to_have_attribute("data-state", re.compile("live|paus"))
        head = write()
        if path in projects[:2]:
            expect(page.locator("main")).to_contain_text(f"And {len(shifts) + 1}?")
        else:
            wait_for_push(page, head)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
        shifts[path] = page.evaluate("() => window.shifted")
    assert {path: by for path, by in shifts.items() if by > 0.1} == {}


def test_live_list_of_threads_equals_a_reload(
    write: Callable[[], int], page: Page, world: Thread
) -> None:
    page.goto(f"{THREADS}?sort=name")
    expect(pill(page)).to_have_text("Live")
    head = write()
    row = page.locator(f"#row-{world.id}")
    expect(row).to_have_attribute("data-seq", str(head))
    expect(row).to_contain_text("And 1?")
    rows = page.locator(".threads .row")
    before = [_AGES.sub("…", text) for text in rows.all_inner_texts()]
    page.reload()
    assert [_AGES.sub("…", text) for text in rows.all_inner_texts()] == before


def test_ticked_threads_stay_ticked_and_are_closed_together(
    write: Callable[[], int], page: Page, world: Thread
) -> None:
    page.goto(THREADS)
    expect(pill(page)).to_have_text("Live")
    page.get_by_label("Choose paged").check()
    page.get_by_label("Choose desk").check()
    head = write()
    expect(page.locator(f"#row-{world.id}")).to_have_attribute("data-seq", str(head))
    expect(page.get_by_label("Choose paged")).to_be_checked()
    page.get_by_role("button", name="Close…").click()
    page.get_by_role("button", name="Close 2 threads").click()
    expect(page.locator("h1")).to_have_text("Closed 2 threads")
    assert {*Thread.objects.values_list("status", flat=True)} == {"closed"}


def test_open_overview_shows_a_new_thread(
    world: Thread, page: Page, agent: Agent
) -> None:
    page.add_init_script(NEVER_BY_ITSELF)
    page.goto("/p/acme/")
    expect(pill(page)).to_have_text("Live")
    say(agent, "just-begun", "Where is my parcel?")
    expect(page.locator("main")).to_contain_text("just-begun", timeout=60_000)


def test_project_sums_are_pushed(write: Callable[[], int], page: Page) -> None:
    """Project figures are flushed at intervals: soon each page equals a reload."""
    other = page.context.new_page()
    for path in ("/p/acme/", "/p/acme/connect"):
        page.goto(path)
        expect(pill(page)).to_have_text("Live")
        # Connect lists threads begun after its `since` time.
        waits = page.locator("#fresh[hx-get]")
        heard = waits.get_attribute("hx-get") if waits.count() else ""
        since = str(heard).partition("?")[1:]
        write()
        look()
        apart, end = "", monotonic() + 40
        while monotonic() < end:
            other.goto(path + "".join(since))
            apart = difference(get_shown_text(page), get_shown_text(other))
            if not apart:
                break
        assert apart == "", path


def test_list_being_read_postpones_its_update_and_says_so(
    write: Callable[[], int], page: Page
) -> None:
    page.set_viewport_size({"width": 1000, "height": 500})
    page.goto(f"{THREADS}/paged/events")
    expect(pill(page)).to_have_text("Live")
    page.evaluate("() => scrollTo(0, 900)")
    page.wait_for_function("() => scrollY > 600")
    first = page.locator("#events-list li").first
    before = first.get_attribute("id")
    head = write()
    expect(pill(page)).to_have_text(
        re.compile(r"^This list: as of \d\d:\d\d · \d+ newer$")
    )
    assert first.get_attribute("id") == before
    page.get_by_role("link", name="Show now").click()
    expect(page.locator("#events-list")).to_have_attribute("data-seq", str(head))
    expect(pill(page)).to_have_text("Live")
    assert page.locator(f"#event-{head}").count() == 1


def test_changed_rows_are_marked_for_two_seconds_and_named_once(
    write: Callable[[], int], page: Page
) -> None:
    page.goto(f"{THREADS}/paged/keys")
    expect(pill(page)).to_have_text("Live")
    page.evaluate(
        """() => {
          window.marks = new Set();
          new MutationObserver(() => document.querySelectorAll("#keys .now-in").forEach(
            (each) => window.marks.add(each.closest("tr, dd").textContent)))
            .observe(document.body, {childList: true, subtree: true, attributes: true});
        }"""
    )
    write()
    expect(page.locator("#keys")).to_contain_text("new-1")
    marks = page.evaluate("() => [...window.marks]")
    assert any("seat" in mark for mark in marks)
    assert not any("cart" in mark for mark in marks)
    expect(page.locator("#changes")).to_contain_text("new-1 new")
    expect(page.locator("#keys .now-in")).to_have_count(0)


def test_conversation_opens_at_the_newest_message_and_follows(
    write: Callable[[], int], page: Page
) -> None:
    page.set_viewport_size({"width": 1000, "height": 500})
    page.goto(f"{THREADS}/paged/slots")
    last = page.locator("#slots-list article").last
    expect(last).to_be_in_viewport()
    before = last.get_attribute("id")
    write()
    expect(last).not_to_have_attribute("id", str(before))
    expect(last).to_be_in_viewport()
