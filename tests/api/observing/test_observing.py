"""Observing by the API: a thread that outgrows its window, and who observes it."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from memoryhub.models import Event
from tests.api.client import Answer, Client

pytestmark = pytest.mark.django_db

T = "/threads/t-1"
CONFIG = {
    "observe": True,
    "budget_tokens": 6_000,
    "reserved_tokens": 800,
    "observe_keep_tokens": 800,
}


@pytest_asyncio.fixture
async def observed(api: Client) -> Client:
    await api.put(T, {"config": CONFIG})
    return api


def said(n: int, **fields: Any) -> dict[str, Any]:
    role = "user" if n % 2 == 0 else "assistant"
    text = f"Number {n} is word{n:04}. " + "It goes on for a while like this. " * 12
    content = {"role": role, "content": text, **fields}
    return {"from": "a", "to": "b", "type": f"chat.{role}", "content": content}


async def append(api: Client, first: int, end: int) -> None:
    items = [said(n) for n in range(first, end)]
    assert (await api.post(f"{T}/slots:batch", {"items": items})).status == 201


async def talk(api: Client, end: int) -> None:
    """Say turns of five messages each."""
    for first in range(0, end, 5):
        items = [said(n) for n in range(first, first + 5)]
        assert (await api.post(f"{T}/turns", {"items": items})).status == 201


async def read(api: Client, path: str, query: str = "") -> Any:
    answer = await api.get(f"{T}/{path}{query}")
    assert answer.status == 200, answer.body
    return answer.json


async def act(api: Client, verb: str, **options: Any) -> Answer:
    return await api.post(f"{T}/observer:{verb}", {}, **options)


async def observe(api: Client, first: int, end: int, **fields: Any) -> Answer:
    lines = [{"mark": "medium", "text": "They counted."}]
    body = {"from": first, "to": end, "epoch": 0, "lines": lines, **fields}
    return await api.post(f"{T}/observations", body)


async def test_thread_that_outgrows_its_window_is_told_now_and_as_it_was(
    observed: Client,
) -> None:
    before = (await read(observed, "observer"))["seq"]
    await talk(observed, 50)
    now = await read(observed, "observer")
    state, log = now["observer"], await read(observed, "log")
    assert state["settings"]["observe_keep_tokens"] == 800
    assert state["cursor"] == state["watermark"] > 20
    assert 0 < state["utilization"] <= 1
    assert state["failures"]["observer"] == {"times": 0, "retry_at": None}
    assert {run["outcome"] for run in now["runs"]} == {"extractive"}
    # The log tiles what it covers, and each line lies within its observation.
    ends = [0, *(item["to"] for item in log["items"])]
    assert [item["from"] for item in log["items"]] == ends[:-1]
    assert ends[-1] == state["cursor"]
    for item in log["items"]:
        slots = [line["slots"] for line in item["lines"]]
        assert all(item["from"] <= a <= b < item["to"] for a, b in slots)
    assert log["log_tokens"] == state["log_tokens"]
    listed = await read(observed, "observations", "?state=log")
    assert listed == {"items": log["items"], "next": None}
    # And so it was, before any of it and in between.
    first = min(item["seq"] for item in log["items"])
    for seq, cursor in ((before, 0), (first - 1, 0), (now["seq"], ends[-1])):
        as_of = f"?at_seq={seq}"
        then = await read(observed, "observer", as_of)
        assert (then["seq"], then["observer"]["cursor"]) == (seq, cursor)
        held = (await read(observed, "log", as_of))["items"]
        assert [item["to"] for item in held] == (ends[1:] if cursor else [])
        assert bool((await read(observed, "observations", as_of))["items"]) == (
            seq >= first
        )
        assert len(then["runs"]) == min(20, len(held))


async def test_all_observations_are_listed_in_parts(observed: Client) -> None:
    await append(observed, 0, 60)
    made = list[str]()
    while (answer := await act(observed, "run")).status == 200:
        made.append(answer.json["page_id"])
    assert answer.code == "nothing_to_do"
    assert len(made) > 1
    found, query = list[str](), "?limit=1"
    while query:
        part = await read(observed, "observations", query)
        found += [item["page_id"] for item in part["items"]]
        query = f"?limit=1&after={part['next']}" if part["next"] else ""
    assert found == made[::-1]
    waiting = await read(observed, "observations", "?state=waiting")
    assert [item["page_id"] for item in waiting["items"]] == made


async def test_run_is_activated_and_condensed_by_hand(observed: Client) -> None:
    await append(observed, 0, 60)
    ran = (await act(observed, "run")).json
    assert ran["observer"]["watermark"] > ran["observer"]["cursor"] == 0
    activated = (await act(observed, "activate")).json
    assert activated["page_id"] is None
    assert activated["observer"]["cursor"] == ran["observer"]["watermark"]
    condensed = (await act(observed, "reflect")).json
    assert condensed["observer"]["generation"] == 1
    (generation,) = (await read(observed, "generations"))["items"]
    assert generation["page_id"] == condensed["page_id"]
    assert generation["replaced"] == [ran["page_id"]]
    assert generation["log_tokens_before"] > generation["log_tokens"]
    (entry,) = (await read(observed, "log"))["items"]
    assert (entry["page_id"], entry["covers"]) == (
        condensed["page_id"],
        [ran["page_id"]],
    )
    states = (await read(observed, "observations"))["items"]
    assert [item["state"] for item in states] == ["log", "replaced"]
    as_of = f"?at_seq={activated['seq']}"
    assert (await read(observed, "generations", as_of))["items"] == []


async def test_agents_observation_pauses_the_built_in_one(observed: Client) -> None:
    await append(observed, 0, 6)
    lines: list[dict[str, Any]] = [
        {"at": "2026-03-01T10:30:09+01:00", "mark": "critical", "text": "Zero\nis 0."},
        {"mark": "low", "text": "Then they went on.", "slots": [1, 3]},
    ]
    made = await observe(observed, 0, 4, lines=lines, current_task="Counting.")
    assert made.status == 201
    assert made.json["page_id"] == f"obs-{made.json['seq']}"
    assert made.json["observer"]["paused"]
    assert made.json["observer"]["watermark"] == 4
    events = Event.objects.filter(seq__gte=made.json["seq"] - 1).order_by("seq")
    assert [*events.values_list("type", flat=True)] == [
        "observer.paused",
        "page.created",
    ]
    (item,) = (await read(observed, "observations"))["items"]
    assert (item["method"], item["state"]) == ("agent", "waiting")
    assert item["hints"] == ["current task: Counting."]
    assert item["lines"] == [
        {
            "at": "2026-03-01T09:30:00+00:00",
            "mark": "critical",
            "text": "Zero is 0.",
            "slots": [0, 3],
        },
        {"at": None, **lines[1]},
    ]
    # Its second one finds it paused, and it goes on when it is resumed.
    again = await observe(observed, 4, 5)
    assert again.json["seq"] == made.json["seq"] + 1
    assert not (await act(observed, "resume")).json["observer"]["paused"]


async def test_observation_of_a_wrong_range_or_epoch_is_refused(
    observed: Client,
) -> None:
    await append(observed, 0, 6)
    assert (await observe(observed, 0, 2)).status == 201
    for first, end in ((0, 2), (1, 3), (3, 4)):
        taken = await observe(observed, first, end)
        assert (taken.status, taken.code) == (409, "range_taken")
    beyond = await observe(observed, 2, 7)
    assert beyond.json["errors"] == [{"loc": ["to"], "code": "value"}]
    aborted = (await act(observed, "abort")).json["observer"]
    assert (aborted["paused"], aborted["epoch"]) == (True, 1)
    stale = await observe(observed, 2, 4)
    assert (stale.status, stale.code) == (409, "stale_epoch")
    assert (await observe(observed, 2, 4, epoch=1)).status == 201
    await observed.patch(T, {"config": {"observe": False}})
    off = await observe(observed, 4, 5, epoch=1)
    assert (off.status, off.code) == (409, "observer_off")


async def test_tool_calls_stay_with_their_results(observed: Client) -> None:
    function = {"name": "weather", "arguments": "{}"}
    call = {"id": "c-1", "type": "function", "function": function}
    asking = said(1, content=None, tool_calls=[call])
    await observed.post(f"{T}/slots:batch", {"items": [said(0), asking]})
    open_range = await observe(observed, 0, 2)
    assert (open_range.status, open_range.code) == (409, "range_open")
    content = {"role": "tool", "tool_call_id": "c-1", "content": "Rain."}
    result = {**said(3), "type": "chat.tool", "content": content}
    await observed.post(f"{T}/slots", result)
    assert (await observe(observed, 0, 2)).code == "range_open"
    assert (await observe(observed, 0, 1)).status == 201


async def test_repeated_observer_action_returns_the_first_result(
    observed: Client,
) -> None:
    await append(observed, 0, 3)
    for verb in ("run", "activate", "reflect", "abort", "resume"):
        key = [("Idempotency-Key", verb)]
        first = await act(observed, verb, headers=key)
        again = await act(observed, verb, headers=key)
        assert (first.status, first.json) == (200, again.json), verb
        assert again.header("idempotent-replayed") == "true"


async def test_thread_that_moved_on_is_not_steered(observed: Client) -> None:
    await append(observed, 0, 3)
    for verb in ("run", "activate", "reflect", "abort", "resume"):
        stale = await act(observed, verb, headers=[("If-Match", "1")])
        assert (stale.status, stale.code) == (409, "stale"), verb


async def test_fork_reads_the_log_that_it_inherits(observed: Client) -> None:
    await append(observed, 0, 6)
    await observe(observed, 0, 4)
    await act(observed, "activate")
    log = (await read(observed, "log"))["items"]
    await observed.post(f"{T}:fork", {"thread": "f-1"})
    fork = (await observed.get("/threads/f-1/log")).json
    assert fork["items"] == log
    assert (await observed.get("/threads/f-1/observations")).json["items"] == []


async def test_closed_thread_is_not_observed(observed: Client) -> None:
    await append(observed, 0, 3)
    await observed.post(f"{T}:close", {})
    for answer in (await observe(observed, 0, 2), await act(observed, "run")):
        assert (answer.status, answer.code) == (409, "thread_closed")


async def test_turn_says_that_messages_are_left_out(observed: Client) -> None:
    begun = await observed.post(f"{T}/turns", {"items": [said(0)]})
    assert begun.json["over_budget"] is False
    config = {"budget_tokens": 2_000, "observe_keep_tokens": 200}
    changed = await observed.patch(T, {"config": config})
    assert changed.status == 200, changed.body
    # Messages sent with a turn cannot be observed before it.
    long = {**said(0), "content": "It goes on for a while like this. " * 60}
    items = [[long] * 64, [said(2)], [said(4)]]
    left = []
    for sent in items:
        begun = await observed.post(f"{T}/turns", {"items": sent})
        assert begun.status == 201, begun.body
        line = await read(observed, f"turns/{begun.json['turn']}")
        left.append(begun.json["over_budget"])
        assert bool(begun.json["omitted"]) is left[-1]
        assert line["over_budget"] is left[-1]
    assert left[0]


async def test_thread_instructions_are_set_read_and_given_back(
    observed: Client,
) -> None:
    before = await read(observed, "observer")
    assert before["instructions"] == {"observer": None, "reflector": None}
    sent = {"observer": " Keep seats. ", "reflector": ""}
    made = (await observed.patch(f"{T}/observer", sent)).json
    held = {"observer": "Keep seats.", "reflector": ""}
    assert (await read(observed, "observer"))["instructions"] == held
    again = (await observed.patch(f"{T}/observer", {"observer": "Keep seats."})).json
    assert again["seq"] == made["seq"] == before["seq"] + 2
    await observed.post(f"{T}:fork", {"thread": "t-2"})
    await observed.patch(f"{T}/observer", {"observer": None})
    now = (await read(observed, "observer"))["instructions"]
    assert now == {"observer": None, "reflector": ""}
    then = await read(observed, "observer", f"?at_seq={made['seq']}")
    assert then["instructions"] == held
    fork = await observed.get("/threads/t-2/observer")
    assert fork.json["instructions"] == held
    long = await observed.patch(f"{T}/observer", {"reflector": "é" * 4_097})
    assert (long.status, long.json["errors"][0]["loc"]) == (422, ["reflector"])
