"""4–6: answers have sources, are erased with them, and are rebuilt from them."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import uuid4

import pytest

from tests.governance.hubs import Hub, KnownNames, ok
from tests.promises.journal.clients import Client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: A window that older messages leave, so that lower levels are made and shown.
SMALL = {"budget_tokens": 4_000, "reserved_tokens": 800}
PAGES = 12


def told_at_length(word: str) -> str:
    return f"{word} said at length what the tide tables say. " * 40


def put(client: Client, page: str, text: str, **fields: Any) -> None:
    body = {"type": "artifact", "modality": "text", "content": {"text": text}, **fields}
    ok(client.send("PUT", f"/threads/t-1/pages/{page}", body))


def crowd(client: Client) -> list[str]:
    """Make more pages than there is room for, each with a word; return the words."""
    ok(client.send("PUT", "/threads/t-1", {"config": SMALL}))
    words = [f"w{uuid4().hex}" for _ in range(PAGES)]
    for n, word in enumerate(words):
        put(client, f"p-{n}", told_at_length(word))
    return words


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(4)
def test_each_claim_of_a_packed_context_resolves_to_its_source(hub: Hub) -> None:
    """Every page of the request, at whatever level, leads back to an event."""
    client = hub.agent("acme")
    crowd(client)
    hub.work()
    ok(client.post("/threads/t-1/pages/p-0/map", {"level": 2}))
    ok(client.append("t-1", "What do the tables say?"))
    turn = ok(client.post("/threads/t-1/turns", {}))
    assert turn["included"]
    shown = ok(client.get("/threads/t-1/working-set"))["frames"]
    assert {frame["level"] for frame in shown} > {0}, "nothing was shown below FULL"
    types = {each["seq"]: each["type"] for each in all_events(client)}
    for name in turn["included"]:
        page = ok(client.get(f"/threads/t-1/pages/{name}"))
        assert types[page["seq"]] in ("page.created", "slot.appended"), page
        if any(held["level"] for held in page["levels"]):
            history = ok(client.get(f"/threads/t-1/pages/{name}/history"))["items"]
            made = {types[each["seq"]] for each in history}
            assert "page.compressed" in made, (name, made)


def all_events(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        part = ok(client.get(f"/threads/t-1/events?limit=200{after}"))
        found += part["items"]
        if part["next"] is None:
            return found
        after = f"&after={part['next']}"


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(5)
@pytest.mark.parametrize("kind", ["level", "page"])
def test_deleting_a_source_reaches_what_was_made_of_it(hub: Hub, kind: str) -> None:
    """The sibling source and pages made of that stay."""
    client, officer = hub.agent("acme", "ann"), hub.officer("acme")
    words = crowd(client)
    if kind == "page":
        for n in (0, 1):
            text = f"In short: {told_at_length(words[n])}"
            put(client, f"d-{n}", text, provenance=[f"p-{n}"])
    hub.work()
    source = ok(client.get("/threads/t-1/pages/p-0"))["seq"]
    places = KnownNames(thread=["t-1"], page_id=["p-0", "p-1", "d-0", "d-1"])
    before = hub.everything(client, places)
    assert all(words[n] in before for n in (0, 1))
    # As others call what a key that is bound to ann calls t-1.
    stored = ok(client.get("/threads/t-1"))["subject_id"] + ":t-1"
    hub.forget(officer, "ann", scope="record", thread=stored, record=source)
    places.seqs = [source, source + 1]
    everything = hub.everything(client, places)
    assert words[0] not in everything
    assert words[1] in everything
    if kind == "page":
        assert client.get("/threads/t-1/pages/d-0").status == 410
        assert client.get("/threads/t-1/pages/d-1").status == 200


def still(text: str) -> str:
    """Remove changes of their own: ages, and sums that a worker takes."""
    lines = (line for line in text.splitlines() if '"age_seconds"' not in line)
    moving = r'"idle_seconds": [0-9.]+|"request_id": "[0-9a-f]+"'
    return re.sub(moving, "", "\n".join(lines))


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(6)
def test_rebuild_brings_everything_back(hub: Hub) -> None:
    """All rows are rebuilt from the journal: reads answer as before."""
    client = hub.agent("acme")
    words = crowd(client)
    ok(client.send("PUT", "/threads/t-1/keys/k-1", {"value": words[0]}))
    ok(client.post("/threads/t-1/notes", {"text": words[1]}))
    hub.work()
    ok(client.append("t-1", "Go on."))
    turn = ok(client.post("/threads/t-1/turns", {}))
    places = KnownNames(
        thread=["t-1"],
        page_id=[f"p-{n}" for n in range(PAGES)],
        key=["k-1"],
        turn=[str(turn["turn"])],
    )
    before = still(hub.everything(client, places))
    assert all(word in before for word in words)
    hub.rebuild()
    assert still(hub.everything(client, places)) == before
    packed = ok(client.get(f"/threads/t-1/turns/{turn['turn']}/context"))
    assert packed["verified"] is True
    assert any(word in json.dumps(packed) for word in words)
