"""Both clients against a real server: writes, lists, refusals, downloads."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any, assert_type

import pytest

from memoryhub_client import (
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Problem,
    Request,
    TooLarge,
    TooMany,
    Unauthorized,
    Unreachable,
    checkpoints,
    erasures,
    events,
    items,
    keys,
    notes,
    pages,
    slots,
    subjects,
    tasks,
    threads,
    tools,
    turns,
    working_memory,
    working_set,
)
from memoryhub_client.answers import TurnAnswer
from memoryhub_client.slots import Slot
from tests.client.conftest import Connect, Hub
from tests.harness.instances import Server, free_port


def message_slot(text: object) -> Slot:
    return {"from": "user", "to": "agent", "type": "chat.user", "content": text}


def test_client_runs_the_exchange_of_an_agent(hub: Hub) -> None:
    hub.send(threads.put("talk", config={"budget_tokens": 8_000}))
    hub.send(
        pages.create(
            "talk",
            type="artifact",
            modality="text",
            content={"text": "The code is 4-17-22."},
            page_id="code",
        )
    )
    message = {"role": "user", "content": "What is the code?"}
    begun = turns.begin("talk", items=[message_slot(message)])
    turn = assert_type(hub.send(begun), TurnAnswer)
    assert turn["request"]["messages"][-1]["content"] == "What is the code?"
    arguments = '{"page_id": "code"}'
    function = {"name": "page_fault", "arguments": arguments}
    call = {"id": "call-1", "type": "function", "function": function}
    assert "tool_call_id" in hub.send(tools.call_tool("talk", call))
    assert hub.send(turns.get_context("talk", turn["turn"]))["verified"]
    assert hub.send(working_set.get("talk"))["thread"] == "talk"


def test_client_writes_and_reads_working_memory(hub: Hub) -> None:
    hub.send(keys.put("talk", "city", {"name": "Kraków"}, if_none_match="*"))
    hub.send(notes.add("talk", "It rains."))
    hub.send(tasks.put("talk", description="Pack", status="running"))
    taken = hub.send(checkpoints.take("talk", name="before"))
    hub.send(keys.delete("talk", "city"))
    compared = hub.list_items(checkpoints.compare("talk", "before"))
    assert [change["key"] for change in compared] == ["city"]
    hub.send(checkpoints.restore("talk", taken["name"]))
    found = hub.send(working_memory.get("talk"))
    assert found["task"]["description"] == "Pack"
    assert hub.send(keys.get("talk", "city"))["value"] == {"name": "Kraków"}
    assert hub.send(keys.get("talk", "city", at_seq=2))["value"] == {"name": "Kraków"}


def test_client_keeps_items_of_a_person_by_labels(hub: Hub) -> None:
    ann = hub.send(threads.put("items", user_id="item-ann"))["subject_id"]
    for row in (9, 12):
        hub.send(items.put(ann, ["trips", "oslo"], f"seat-{row}", {"row": row}))
    hub.send(items.delete(ann, ["trips", "oslo"], "gone"))
    assert hub.send(items.get(ann, ["trips", "oslo"], "seat-9"))["value"] == {"row": 9}
    listed = hub.list_items(items.list_all(ann, ["trips"], limit=1))
    assert [each["key"] for each in listed] == ["seat-12", "seat-9"]
    high: items.ItemCondition = {"member": "row", "op": "gt", "value": 9}
    found = hub.list_items(items.search(ann, [high], limit=1))
    assert [each["key"] for each in found] == ["seat-12"]
    (line,) = hub.list_items(items.list_namespaces(ann, depth=1))
    assert line == {"namespace": "trips", "count": 2}
    with pytest.raises(ValueError, match="labels"):
        items.get(ann, ["trips:oslo"], "seat-9")


def test_client_walks_a_list_to_its_end(hub: Hub) -> None:
    hub.send(slots.append_batch("talk", [message_slot(n) for n in range(7)]))
    found = hub.list_items(slots.list_all("talk", limit=3))
    assert [slot["content"] for slot in found] == [*range(7)]
    newest = hub.list_items(slots.list_all("talk", limit=2, order="desc", from_="user"))
    assert [slot["index"] for slot in newest] == [*range(6, -1, -1)]
    seqs = [event["seq"] for event in hub.list_items(events.list_all("talk", limit=3))]
    assert seqs == [*range(1, len(seqs) + 1)]
    assert len(seqs) > 7


def test_client_walks_a_posted_search_to_its_end(hub: Hub) -> None:
    for n in range(3):
        hub.send(threads.put(f"talk-{n}", user_id="ann", labels={"kind": "a", "n": n}))
    hub.send(threads.put("other"))
    anns = hub.list_items(threads.search(user_id="ann", limit=2))
    assert {thread["thread"] for thread in anns} == {"talk-0", "talk-1", "talk-2"}
    labelled = hub.list_items(threads.list_all(labels={"kind": "a"}, limit=2))
    assert {thread["thread"] for thread in labelled} == {"talk-0", "talk-1", "talk-2"}


def test_client_downloads_an_export_as_a_file(hub: Hub, officer: Hub) -> None:
    hub.send(threads.put("talk", user_id="ann"))
    hub.send(slots.append("talk", message_slot("It is blue.")))
    subject = officer.send(subjects.resolve("ann"))["id"]
    bundle = officer.download(subjects.export(subject))
    with zipfile.ZipFile(io.BytesIO(bundle)) as opened:
        assert opened.testzip() is None
        assert opened.namelist()


# Refusals

REFUSED: dict[str, tuple[Callable[[], Request[Any]], type[Problem], int]] = {
    "bad_cursor": (lambda: slots.list_all("talk", after="x"), BadRequest, 400),
    "not_found": (lambda: threads.get("nobody"), NotFound, 404),
    "stale": (
        lambda: slots.append("talk", message_slot(1), if_match=99),
        Conflict,
        409,
    ),
    "name": (lambda: threads.put("ü"), Invalid, 422),
    "body_too_large": (
        lambda: slots.append("talk", message_slot("x" * 2**21)),
        TooLarge,
        413,
    ),
}


@pytest.mark.parametrize("code", REFUSED)
def test_client_raises_the_exception_family_of_a_refusal(hub: Hub, code: str) -> None:
    hub.send(threads.put("talk"))
    make, family, status = REFUSED[code]
    with pytest.raises(Problem) as refusal:
        hub.send(make())
    assert type(refusal.value) is family
    assert (refusal.value.code, refusal.value.status) == (code, status)
    assert refusal.value.detail in str(refusal.value)
    assert refusal.value.request_id
    assert refusal.value.retry is None


def test_client_exception_names_the_refused_field(hub: Hub) -> None:
    wrong: Any = {**message_slot(1), "from": "Ü"}
    with pytest.raises(Invalid) as refusal:
        hub.send(slots.append_batch("talk", [message_slot(0), wrong]))
    (place,) = refusal.value.errors
    assert place["loc"][-2:] == [1, "from"]


def test_client_does_not_wait_for_a_limit_that_time_never_renews(hub: Hub) -> None:
    hub.send(threads.put("talk", config={"max_faults_per_turn": 0}))
    page = pages.put(
        "talk",
        "a",
        type="artifact",
        modality="text",
        content={"text": "A"},
        map=False,
    )
    hub.send(page)
    hub.send(
        turns.begin("talk", items=[message_slot({"role": "user", "content": "?"})])
    )
    with pytest.raises(TooMany) as refusal:
        hub.send(pages.fault("talk", "a"))
    assert (refusal.value.code, refusal.value.retry) == ("fault_budget", None)
    assert refusal.value.body["renews"] == "next_exchange"


def test_client_raises_on_a_wrong_key(
    connect: Connect, served: Server, key: str
) -> None:
    stranger = connect(served.url, key[:-1] + ("a" if key[-1] != "a" else "b"))
    with pytest.raises(Unauthorized):
        stranger.send(threads.get("talk"))


def test_client_raises_unreachable_without_a_server(connect: Connect, key: str) -> None:
    alone = connect(f"http://127.0.0.1:{free_port()}", key, retries=1)
    with pytest.raises(Unreachable):
        alone.send(threads.get("talk"))


def test_client_plans_and_reads_an_erasure(hub: Hub, officer: Hub) -> None:
    hub.send(threads.put("talk", user_id="bob"))
    subject = officer.send(subjects.resolve("bob"))["id"]
    plan = officer.send(erasures.plan(subject, "thread", "test", thread="talk"))
    (listed,) = officer.list_items(erasures.list_all())
    assert listed["id"] == plan["id"]
    assert officer.send(erasures.cancel(plan["id"]))["state"] == "cancelled"


def test_client_raises_forbidden_beyond_the_scopes_of_its_key(
    hub: Hub, officer: Hub
) -> None:
    with pytest.raises(Forbidden) as refusal:
        officer.send(threads.get("talk"))
    assert refusal.value.code == "scope"
    with pytest.raises(Forbidden):
        hub.download(subjects.export("01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49"))
