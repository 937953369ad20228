from __future__ import annotations

import pytest

from memoryhub.models import Event, Thread
from tests.api.client import Client
from tests.api.remembering import (
    T,
    compare,
    delete,
    get,
    if_match,
    items,
    names,
    note,
    put,
    restore,
    seqs,
    still,
    take,
)

pytestmark = pytest.mark.django_db

PAGE = {"type": "artifact", "modality": "text", "content": {"text": "Fares."}}
#: Nothing but what is asked for is pinned.
LOOSE = {
    "budget_tokens": 4_400,
    "reserved_tokens": 800,
    "auto_pin_turns": 0,
    "auto_pin_claims": False,
}


async def test_a_restore_brings_back_and_can_be_undone(api: Client) -> None:
    await put(api, "kept", 1)
    await put(api, "changed", "then")
    await put(api, "gone", None)
    await note(api, "then")
    await api.put(f"{T}/task", {"status": "running"})
    here = await take(api, "here")
    version = (await get(api, "changed")).json["seq"]
    await put(api, "changed", "now")
    await delete(api, "/keys/gone")
    await put(api, "new")
    await note(api, "now")
    await api.patch(f"{T}/task", {"status": "failed"})
    head = (await api.get(T)).json["seq"]
    done = await restore(api, "here", headers=if_match(head))
    assert done.status == 200
    assert done.json == {
        "seq": head + 2,
        "parts": ["keys", "task", "notes"],
        "before": head + 1,
        "set": 2,
        "removed": 1,
        "expired": 0,
        "notes": 1,
        "left_out": [],
        "comparison": None,
    }
    assert await names(api) == ["changed", "gone", "kept"]
    read = (await get(api, "changed")).json
    assert (read["value"], read["seq"]) == ("then", version)
    assert (await api.get(f"{T}/task")).json["status"] == "running"
    assert [n["text"] for n in await items(api, "/notes")] == ["then"]
    undone = (await restore(api, done.json["before"])).json
    assert (undone["set"], undone["removed"], undone["before"]) == (2, 1, here)
    assert await names(api) == ["changed", "kept", "new"]
    assert (await get(api, "changed")).json["value"] == "now"
    assert (await api.get(f"{T}/task")).json["status"] == "failed"
    assert [n["text"] for n in await items(api, "/notes")] == ["then", "now"]


async def test_only_the_parts_that_are_named_come_back(api: Client) -> None:
    await put(api, "k", "then")
    await note(api, "then")
    await api.put(f"{T}/task", {"status": "running"})
    here = await take(api)

    async def now() -> list[object]:
        return [
            (await get(api, "k")).json["value"],
            [n["text"] for n in await items(api, "/notes")],
            (await api.get(f"{T}/task")).json["status"],
        ]

    await put(api, "k", "now")
    await note(api, "now")
    await api.patch(f"{T}/task", {"status": "failed"})
    assert (await restore(api, here, parts=["notes"])).json["notes"] == 1
    assert await now() == ["now", ["then"], "failed"]
    assert (await restore(api, here, parts=["task"])).json["parts"] == ["task"]
    assert await now() == ["now", ["then"], "running"]
    assert (await restore(api, here, parts=["keys"])).json["set"] == 1
    assert await now() == ["then", ["then"], "running"]


async def test_the_working_set_comes_back_only_when_asked(api: Client) -> None:
    await api.put(T, {"config": LOOSE})
    for page_id in ("a", "b"):
        await api.post(f"{T}/pages", {**PAGE, "page_id": page_id})
    await api.post(f"{T}/pages/a/pin", {})
    here = await take(api)
    await api.post(f"{T}/pages/b/evict", {})
    await api.post(f"{T}/pages/a/unpin", {})
    await api.send("DELETE", f"{T}/pages/a")
    await api.post(f"{T}/pages", {**PAGE, "page_id": "c"})
    compared = await compare(api, f"a={here}")
    assert (compared["frames_in"], compared["frames_out"]) == (["c"], ["a", "b"])
    assert (compared["pins_in"], compared["pins_out"]) == ([], ["a"])
    assert (await restore(api, here)).json["seq"] is None
    told = (await restore(api, here, parts=["frames"], dry_run=True)).json
    assert told["left_out"] == ["a"]
    done = (await restore(api, here, parts=["frames"])).json
    assert (done["set"], done["notes"], done["left_out"]) == (0, 0, ["a"])
    mapped = (await api.get(f"{T}/working-set")).json["frames"]
    assert sorted(frame["page_id"] for frame in mapped) == ["b"]
    again = await restore(api, here, parts=["frames"])
    assert again.json["seq"] is None


async def test_restoring_what_is_there_writes_nothing(api: Client) -> None:
    await put(api, "k")
    here = await take(api)
    head = (await api.get(T)).json["seq"]
    for target in (here, here):
        same = (await restore(api, target)).json
        assert (same["seq"], same["before"], same["set"]) == (None, None, 0)
    await put(api, "k")
    await delete(api, "/keys/k")
    await put(api, "k")
    moved = (await restore(api, here)).json
    assert moved["set"] == 1
    assert (await api.get(T)).json["seq"] == head + 5


async def test_a_dry_run_tells_and_writes_nothing(api: Client) -> None:
    await put(api, "k", 1)
    await note(api)
    here = await take(api)
    await put(api, "k", 2)
    await put(api, "new")
    head = (await api.get(T)).json["seq"]
    told = (await restore(api, here, dry_run=True, headers=if_match(head))).json
    assert (await api.get(T)).json["seq"] == head
    compared = told.pop("comparison")
    assert [(each["key"], each["kind"]) for each in compared["keys"]] == [
        ("k", "changed"),
        ("new", "removed"),
    ]
    assert compared == await compare(api, f"a=head&b={here}")
    assert (told["seq"], told["before"]) == (None, None)
    stale = await restore(api, here, dry_run=True, headers=if_match(head - 1))
    assert (stale.status, stale.code) == (409, "stale")
    done = (await restore(api, here, headers=if_match(head))).json
    same = ("parts", "set", "removed", "expired", "notes")
    assert [told[name] for name in same] == [done[name] for name in same]


async def test_a_restore_is_refused_and_leaves_all_as_it_is(api: Client) -> None:
    await put(api, "k", 1)
    here, gone = await take(api), await take(api, "gone")
    foreign = (await api.post("/threads/t-2/checkpoints", {})).json["seq"]
    await delete(api, "/checkpoints/gone")
    await put(api, "k", 2)
    head = (await api.get(T)).json["seq"]
    for target in (gone, "gone", "other", 99, -1, foreign + 50, "9" * 30):
        for dry_run in (False, True):
            answer = await restore(api, target, dry_run=dry_run)
            assert (answer.status, answer.code) == (404, "not_found")
        assert (await api.get(f"{T}/checkpoints/{target}")).status == 404
        missed = await api.get(f"{T}/checkpoints:compare?a={target}")
        assert (missed.status, missed.code) == (404, "not_found")
        assert (await delete(api, f"/checkpoints/{target}")).json == {
            "existed": False,
            "seq": None,
        }
    stale = await restore(api, here, headers=if_match(head - 1))
    assert (stale.status, stale.code) == (409, "stale")
    for parts in ([], ["slots"], ["keys", "keys"], "keys", None):
        assert (await restore(api, here, parts=parts)).status == 422
    assert (await api.get(T)).json["seq"] == head
    assert (await get(api, "k")).json["value"] == 2


async def test_a_restore_is_idempotent(api: Client) -> None:
    await put(api, "k", 1)
    here = await take(api)
    await put(api, "k", 2)
    named = [("idempotency-key", "k")]
    first = await restore(api, here, headers=named)
    await put(api, "k", 3)
    again = await restore(api, here, headers=named)
    assert (again.body, again.header("idempotent-replayed")) == (first.body, "true")
    assert (await get(api, "k")).json["value"] == 3


async def test_restore_keeps_other_checkpoints(api: Client) -> None:
    taken = {}
    for name in ("a", "b", "c"):
        await put(api, "k", name)
        taken[name] = await take(api, name)
    await put(api, "k", "now")
    assert (await delete(api, "/checkpoints/a")).json["existed"]
    before = (await restore(api, "b")).json["before"]
    assert await seqs(api) == [taken["b"], taken["c"], before]
    assert (await get(api, "k")).json["value"] == "b"
    assert (await restore(api, "c")).json["before"] == taken["b"]
    assert (await get(api, "k")).json["value"] == "c"
    await restore(api, before)
    assert (await get(api, "k")).json["value"] == "now"


async def test_restore_keeps_deadlines(api: Client) -> None:
    with still() as clock:
        await put(api, "short", ttl_seconds=60)
        until = (await put(api, "long", ttl_seconds=3_600)).json["expires_at"]
        here = await take(api)
        await delete(api, "/keys/short")
        await delete(api, "/keys/long")
        clock.shift(90)
        told = (await restore(api, here, dry_run=True)).json
        done = (await restore(api, here)).json
        for found in (told, done):
            assert (found["set"], found["expired"]) == (1, 1)
        assert (await get(api, "short")).code == "key_not_found"
        assert (await get(api, "long")).json["expires_at"] == until


async def test_twenty_automatic_checkpoints_stay(api: Client) -> None:
    await put(api, "k", "start")
    start = await take(api)
    last = 0
    for n in range(22):
        await put(api, "k", n)
        last = (await restore(api, start)).json["before"]
        assert (await get(api, "k")).json["value"] == "start"
        assert len(await seqs(api, "?auto=true")) == min(n + 1, 20)
    stats = (await api.get(f"{T}/stats")).json
    assert (stats["checkpoints"], stats["automatic"]) == (1, 20)
    await restore(api, last)
    assert (await get(api, "k")).json["value"] == 21


@pytest.mark.no_replay
@pytest.mark.parametrize(
    ("newer", "code"), [(True, "newer_format"), (False, "corrupt")]
)
async def test_a_journal_that_cannot_be_read_is_not_restored_from(
    api: Client, newer: bool, code: str
) -> None:
    """Of a later version an event is unknown; or one is missing. Nothing is written."""
    await put(api, "k", 1)
    here = await take(api)
    await put(api, "k", 2)
    api.connect()
    row = Thread.objects.get(name="t-1")
    last = Event.objects.get(thread=row, seq=row.head_seq)
    if newer:
        Event.objects.create(
            thread=row,
            seq=row.head_seq + 1,
            at=last.at,
            actor=last.actor,
            type="key.counted",
            body="{}",
            chain=bytes(32),
        )
    Thread.objects.filter(id=row.id).update(
        head_seq=row.head_seq + 1, head_hash=bytes(32)
    )
    stored = Event.objects.count()
    for answer in (
        await restore(api, here),
        await restore(api, here, dry_run=True),
        await get(api, "k"),
    ):
        assert (answer.status, answer.code) == (409, code)
    api.connect()
    assert Event.objects.count() == stored
