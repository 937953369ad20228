from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from tests.api.client import Client
from tests.api.remembering import (
    CREATE_ONLY,
    T,
    delete,
    if_match,
    put,
    still,
)

pytestmark = pytest.mark.django_db

TASK = f"{T}/task"
WHOLE = {
    "status": "running",
    "description": "Rebook Ä \u2028",
    "current_step": 3,
    "progress_percent": 42.5,
    "started_at": "2026-02-01T10:00:00+02:00",
    "data": {"b": [1, None], "a": "x"},
}


async def test_task_that_is_set_reads_back(api: Client) -> None:
    with still():
        made = await api.put(TASK, WHOLE)
        read = await api.get(TASK)
    assert made.status == 200
    assert made.json == read.json
    assert read.json == {
        **WHOLE,
        "started_at": "2026-02-01T08:00:00+00:00",
        "updated_at": "2030-03-01T12:00:00+00:00",
        "version": 2,
    }
    assert list(read.json["data"]) == ["b", "a"]


async def test_task_fields_that_are_absent_take_their_defaults(api: Client) -> None:
    await api.put(TASK, WHOLE)
    with still():
        made = (await api.put(TASK, {})).json
    assert made == {
        "status": "pending",
        "description": None,
        "current_step": 0,
        "progress_percent": 0.0,
        "started_at": "2030-03-01T12:00:00+00:00",
        "updated_at": "2030-03-01T12:00:00+00:00",
        "version": 3,
        "data": None,
    }


async def test_null_clears_a_task_field(api: Client) -> None:
    fields = ("description", "current_step", "progress_percent", "started_at", "data")
    cleared = dict.fromkeys(fields)
    made = (await api.put(TASK, cleared)).json
    assert {name: made[name] for name in fields} == cleared
    for name in fields:
        await api.put(TASK, WHOLE)
        patched = (await api.patch(TASK, {name: None})).json
        before = (await api.get(f"{TASK}?at_seq={patched['version'] - 1}")).json
        assert patched[name] is None
        for other in {*fields, "status"} - {name}:
            assert patched[other] == before[other]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "failed"),
        ("description", ""),
        ("current_step", 1_000_000),
        ("current_step", 0),
        ("progress_percent", 100),
        ("progress_percent", 0),
        ("progress_percent", 33.3),
        ("data", {}),
        ("data", {"deep": {"null": None}}),
    ],
)
async def test_patch_changes_only_what_is_sent(
    api: Client, field: str, value: Any
) -> None:
    whole = (await api.put(TASK, WHOLE)).json
    patched = (await api.patch(TASK, {field: value})).json
    moved = {"updated_at": patched["updated_at"], "version": 3}
    assert patched == {**whole, field: value, **moved}
    assert (await api.get(TASK)).json == patched


async def test_data_is_replaced_whole(api: Client) -> None:
    await api.put(TASK, {"data": {"a": 1, "b": 2}})
    assert (await api.patch(TASK, {"data": {"c": 3}})).json["data"] == {"c": 3}


async def test_absent_task_cannot_be_read_or_patched(api: Client) -> None:
    await put(api, "k")
    for answer in (await api.get(TASK), await api.patch(TASK, {"current_step": 1})):
        assert (answer.status, answer.code) == (404, "task_not_found")
    assert (await delete(api, "/task")).json == {"existed": False, "seq": None}
    await api.put(TASK, {})
    assert (await delete(api, "/task")).json == {"existed": True, "seq": 4}
    assert (await api.get(TASK)).code == "task_not_found"
    assert (await api.get(f"{TASK}?at_seq=3")).status == 200
    assert (await api.get(T)).json["seq"] == 4
    absent = await api.patch("/threads/none/task", {})
    assert (absent.status, absent.code) == (404, "not_found")


async def test_version_is_compared_before_anything_is_written(api: Client) -> None:
    seen = (await api.put(TASK, WHOLE)).json["version"]
    newer = (await api.patch(TASK, {}, headers=if_match(seen))).json["version"]
    for answer in (
        await api.patch(TASK, {"current_step": 9}, headers=if_match(seen)),
        await api.put(TASK, {}, headers=if_match(seen)),
        await api.put(TASK, {}, headers=CREATE_ONLY),
        await delete(api, "/task", headers=if_match(seen)),
    ):
        assert (answer.status, answer.code) == (409, "stale")
    assert (await api.get(TASK)).json["version"] == newer
    assert (await delete(api, "/task", headers=if_match(newer))).json["existed"]
    stale = await api.put(TASK, {}, headers=if_match(newer))
    assert (stale.status, stale.code) == (409, "stale")
    assert (await api.put(TASK, {}, headers=CREATE_ONLY)).status == 200


async def test_fork_has_the_task_and_a_version_of_its_own(api: Client) -> None:
    await api.put(TASK, WHOLE)
    await api.patch(TASK, {"current_step": 4})
    await api.post(f"{T}:fork", {"thread": "f"})
    fork = "/threads/f/task"
    told = (await api.get(fork)).json
    assert (told["version"], told["description"]) == (0, WHOLE["description"])
    stale = await api.patch(fork, {}, headers=if_match(3))
    assert (stale.status, stale.code) == (409, "stale")
    done = await api.patch(fork, {"current_step": 5}, headers=if_match(0))
    assert (done.json["version"], done.json["data"]) == (2, WHOLE["data"])
    assert (await api.get(TASK)).json["current_step"] == 4


async def test_texts_are_measured_in_bytes(api: Client) -> None:
    assert (await api.put(TASK, {"description": "ä" * 2_048})).status == 200
    assert (await api.put(TASK, {"description": "ä" * 2_048 + "x"})).code == "value"
    most = {"t": "x" * (65_536 - len('{"t":""}'))}
    assert (await api.put(TASK, {"data": most})).status == 200
    assert (await api.put(TASK, {"data": {"t": most["t"] + "x"}})).code == "value"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"steps": 3}, "extra_field"),
        ({"updated_at": "2026-02-01T10:00:00Z"}, "extra_field"),
        ({"version": 3}, "extra_field"),
        ({"progress_percent": 100.01}, "value"),
        ({"progress_percent": -0.5}, "value"),
        ({"current_step": 1_000_001}, "value"),
        ({"current_step": -1}, "value"),
        ({"current_step": True}, "type"),
        ({"status": None}, "value"),
        ({"status": "Running"}, "value"),
        ({"started_at": "2026-02-01T10:00:00"}, "time"),
        ({"started_at": 1_700_000_000}, "time"),
        ({"data": [1]}, "type"),
        ({"description": 7}, "type"),
    ],
)
async def test_task_rejects_drift(
    api: Client, method: str, sent: dict[str, Any], code: str
) -> None:
    """A wrong field is refused, never mended; times come back with their offset."""
    before = (await api.put(TASK, WHOLE)).json
    answer = await api.send(method, TASK, sent)
    assert (answer.status, answer.code) == (422, code)
    assert [each["code"] for each in answer.json["errors"]] == [code]
    assert (await api.get(TASK)).json == before
    assert datetime.fromisoformat(before["started_at"]).tzinfo is not None
    assert datetime.fromisoformat(before["updated_at"]).tzinfo is not None


@pytest.mark.django_db(transaction=True)
async def test_concurrent_progress_not_lost(served: tuple[Client, str]) -> None:
    """Two writers at once, one of the step, one of the status: each change stays."""
    api, _ = served
    await api.put(TASK, WHOLE)

    async def set_steps() -> None:
        for n in range(50):
            assert (await api.patch(TASK, {"current_step": n})).status == 200

    async def set_statuses() -> None:
        for n in range(50):
            sent = {"status": ("blocked", "running")[n % 2], "data": {"n": n}}
            assert (await api.patch(TASK, sent)).status == 200

    await asyncio.gather(set_steps(), set_statuses(), set_steps(), set_statuses())
    task = (await api.get(TASK)).json
    assert (task["current_step"], task["status"]) == (49, "running")
    assert task["data"] == {"n": 49}
    assert (task["progress_percent"], task["description"]) == (
        WHOLE["progress_percent"],
        WHOLE["description"],
    )
    assert task["version"] == 202
