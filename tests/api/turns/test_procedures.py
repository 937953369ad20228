"""Pages, requests, lists and erasures of what recorded calls have taught."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.models import Event, Page, Thread
from memoryhub.queries.forget import erasure_closures
from tests.api.client import Client
from tests.api.turns.test_guards import T, record, say
from tests.cast.erasings import erase_ranges, sound

pytestmark = pytest.mark.django_db
GOAL = "Book a flight to Paris, please"


async def fail_and_fix(api: Client, goal: str = GOAL, day: str = "5 May") -> None:
    await api.put(T, {})
    await say(api, goal)
    await record(
        api, "fly", {"day": day}, outcome="failure", error=f"ValueError: {day}"
    )
    await record(api, "fly", {"day": "2026-05-05"}, result="ok", duration_ms=20)


async def list_messages(api: Client, question: str) -> list[Any]:
    await say(api, question)
    turn = await api.post(f"{T}/turns", {})
    messages: list[Any] = turn.json["request"]["messages"]
    return [each for each in messages if "</procedural_memory>" in str(each)]


async def test_next_similar_goal_brings_the_fix(api: Client) -> None:
    await fail_and_fix(api)
    await say(api, "Booked.", "assistant")
    pages = (await api.get(f"{T}/pages")).json["items"]
    (page,) = [e for e in pages if e["page_id"].startswith("procedure-")]
    assert (page["type"], page["version"]) == ("procedure", 1)
    assert await list_messages(api, "What does a cat weigh?") == []
    (shown,) = await list_messages(api, "Another flight to book, to Rome")
    assert shown["role"] == "tool"
    fix = "failed with ValueError: 0 May (1x); this fixed it: day:5 May->2026-05-05"
    assert fix in shown["content"]


async def test_page_has_a_new_version_only_when_a_pattern_changes(api: Client) -> None:
    await fail_and_fix(api)
    await record(api, "fly", {"day": "2026-06-01"}, result="ok")
    await record(api, "fly", {"day": "2026-07-01"}, result="ok")
    events = Event.objects.filter(page__startswith="procedure-").order_by("seq")
    assert [e.type for e in events] == ["page.created", "page.updated"]
    page = f"{T}/pages/{events[0].page}"
    assert (await api.patch(page, {"content": {"text": "mine"}})).status == 409
    body = {"type": "claim", "modality": "text", "content": {"text": "mine"}}
    assert (await api.put(page, body)).status == 422


async def test_list_has_patterns_with_their_traces(api: Client) -> None:
    await fail_and_fix(api)
    (found,) = (await api.get(f"{T}/procedures")).json["items"]
    (error,), (success,) = found.pop("errors"), found.pop("successes")
    assert found == {"tool": "fly", "calls": 2, "failures": 1, "mean_ms": 20.0}
    calls = [e.seq for e in Event.objects.filter(type="call.recorded").order_by("seq")]
    assert error["fix"] == {
        "delta": "day:5 May->2026-05-05",
        "added": {},
        "removed": [],
        "changed": {"day": {"from": "5 May", "to": "2026-05-05"}},
        "failed": calls[0],
        "fixed": calls[1],
    }
    assert (error["contexts"], error["seqs"]) == ([GOAL], calls[:1])
    assert (success["hints"], success["seqs"]) == ({"day": "2026-05-05"}, calls[1:])
    before = await api.get(f"{T}/procedures?at_seq={calls[0]}")
    assert before.json["items"][0]["errors"][0]["fix"] is None


@pytest.mark.parametrize("what", ["message", "call"])
async def test_erasure_reaches_pages_and_lists(api: Client, what: str) -> None:
    await fail_and_fix(api, "Book a canary flight", day="canary day")
    kind = {"message": "slot.appended", "call": "call.recorded"}[what]
    event = Event.objects.filter(type=kind).order_by("seq")[0]
    thread = Thread.objects.select_related("subject").get()
    ranges = erasure_closures.list_record(thread, event.seq)
    erase_ranges(thread, ranges)
    sound(thread)
    made = Event.objects.get(type="page.created", page__startswith="procedure-")
    assert made.payload is None
    assert not Page.objects.filter(page_id=made.page, deleted_seq=None).exists()
    listed = (await api.get(f"{T}/procedures")).json["items"]
    gone = "Book a canary" if what == "message" else "canary day"
    assert gone not in str(listed)
    assert [each["failures"] for each in listed] == [what == "message"]
    await fail_and_fix(api)
    (again,) = Page.objects.filter(type="procedure", deleted_seq=None)
    assert again.page_id == f"{str(made.page)[:-1]}2"
    assert await list_messages(api, "Book another flight")
    sound(thread)
