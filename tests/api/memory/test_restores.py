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
    list_names,
    note,
    put,
    restore,
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


async def test_restore_brings_back_and_can_be_undone(api: Client) -> None:
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
    assert await list_names(api) == ["changed", "gone", "kept"]
    read = (await get(api, "changed")).json
    assert (read["value"], read["seq"]) == ("then", version)
    assert (await api.get(f"{T}/task")).json["status"] == "running"
    assert [n["text"] for n in await items(api, "/notes")] == ["then"]
    undone = (await restore(api, done.json["before"])).json
    assert (undone["set"], undone["removed"], undone["before"]) == (2, 1, here)
    assert await list_names(api) == ["changed", "kept", "new"]
    assert (await get(api, "changed")).json["value"] == "now"
    assert (await api.get(f"{T}/task")).json["status"] == "failed"
    assert [n["text"] for n in await items(api, "/notes")] == ["then", "now"]


async def test_working_set_comes_back_only_when_asked(api: Client) -> None:
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


async def test_dry_run_tells_and_writes_nothing(api: Client) -> None:
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
    absent = await restore(api, here, dry_run=True, thread="/threads/none")
    assert (absent.status, absent.code) == (404, "not_found")
    done = (await restore(api, here, headers=if_match(head))).json
    same = ("parts", "set", "removed", "expired", "notes")
    assert [told[name] for name in same] == [done[name] for name in same]


async def test_restore_is_refused_and_leaves_all_as_it_is(api: Client) -> None:
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


@pytest.mark.no_replay
@pytest.mark.parametrize(
    ("newer", "code"), [(True, "newer_format"), (False, "corrupt")]
)
async def test_journal_that_cannot_be_read_is_not_restored_from(
    api: Client, newer: bool, code: str
) -> None:
    """An event is unknown, being of a later version, or missing. Nothing is written."""
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
