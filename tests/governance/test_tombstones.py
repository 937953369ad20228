"""9–11: an erased value stays out, whichever way and spelling it returns by."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.governance.hubs import Hub, KnownNames, ok
from tests.promises.journal.clients import Answer, Client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

VALUE = "Her locker is number 4417 on the lower deck."
NEIGHBOUR = "Her locker is number 4418 on the lower deck."
PARAPHRASE = "On the lower deck, locker 4417 is the one she uses."
#: The same to whoever reads it.
SPELLINGS = {
    "case": VALUE.upper(),
    "space": VALUE.replace(" ", "  \t "),
    "wide": "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in VALUE),
    "invisible": "\u200b".join(VALUE),
    "soft hyphen": VALUE.replace("ck", "c\u00adk"),
    "look-alike": VALUE.replace("e", "\u0435").replace("o", "\u043e"),
}


def build_page(text: str) -> dict[str, Any]:
    return {"type": "artifact", "modality": "text", "content": {"text": text}}


def ways(client: Client, text: str, name: str) -> Iterator[Answer]:
    """Yield every way to write a lasting value, each under its own name."""
    at = "/threads/t-1"
    yield client.send("PUT", f"{at}/pages/{name}-1", build_page(text))
    yield client.post(f"{at}/pages", {**build_page(text), "page_id": f"{name}-2"})
    items = [{**build_page(text), "page_id": f"{name}-3"}]
    yield client.post(f"{at}/pages:batch", {"items": items})
    yield client.send("PUT", f"{at}/keys/{name}-4", {"value": text})
    change = {"op": "set", "key": f"{name}-5", "value": text}
    yield client.post(f"{at}/keys:batch", {"items": [change]})
    yield client.post(f"{at}/notes", {"text": text})
    yield client.post(f"{at}/notes:batch", {"items": [{"text": text}]})


def assert_kept_out(client: Client, text: str, name: str) -> None:
    for answer in ways(client, text, name):
        answered = (answer.status, answer.body.get("code"))
        assert answered == (410, "value_erased"), answer.body
        assert text not in json.dumps(answer.body)


def forgotten(hub: Hub, *, ttl: int | None = None) -> Client:
    """Return a client of ann's, whose value was written in each kind and erased."""
    client, officer = hub.agent("acme", "ann"), hub.officer("acme")
    # By a key that is not bound, so that the officer calls it so as well.
    ok(hub.agent("acme").send("PUT", "/threads/t-1", {"user_id": "ann"}))
    fields = {} if ttl is None else {"ttl_seconds": ttl}
    written = [
        client.send("PUT", "/threads/t-1/pages/old", build_page(VALUE)),
        client.send("PUT", "/threads/t-1/keys/old", {"value": VALUE, **fields}),
        client.post("/threads/t-1/notes", {"text": VALUE}),
    ]
    for answer in written:
        seq = ok(answer)["seq"]
        hub.forget(officer, "ann", scope="record", thread="t-1", record=seq)
    return client


@pytest.mark.governance(9)
def test_erased_value_stays_out_however_it_returns(hub: Hub, tmp_path: Path) -> None:
    """A neighbouring value is accepted; so is the value of somebody else."""
    client = forgotten(hub)
    assert_kept_out(client, VALUE, "again")
    for answer in ways(client, NEIGHBOUR, "near"):
        assert ok(answer)
    names = [f"near-{n}" for n in range(1, 6)]
    places = KnownNames(thread=["t-1"], page_id=["old", *names], key=["old", *names])
    text = hub.everything(client, places)
    assert VALUE not in text
    assert NEIGHBOUR in text
    bob = hub.agent("acme", "bob")
    assert ok(bob.send("PUT", "/threads/t-bob/keys/k", {"value": VALUE}))
    # A greeting is a new utterance, whenever it was said before.
    assert ok(client.append("t-1", VALUE))


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(10)
def test_tombstone_outlives_every_expiry(hub: Hub) -> None:
    """The key expired and was swept, the server restarted, and the value stays out."""
    client = forgotten(hub, ttl=1)
    ok(client.send("PUT", "/threads/t-1/keys/brief", {"value": 1, "ttl_seconds": 1}))
    until = time.monotonic() + 30
    while client.get("/threads/t-1/keys/brief").status != 404:
        assert time.monotonic() < until
    hub.work()
    hub.rebuild()
    assert_kept_out(client, VALUE, "late")
    assert ok(client.send("PUT", "/threads/t-1/keys/near", {"value": NEIGHBOUR}))


@pytest.mark.governance(11)
def test_tombstone_sees_through_spelling(hub: Hub) -> None:
    """A tombstone does not see meaning: a paraphrase passes, and that is known."""
    client = forgotten(hub)
    for name, spelled in SPELLINGS.items():
        assert spelled != VALUE
        assert_kept_out(client, spelled, name.replace(" ", "-"))
    for answer in ways(client, PARAPHRASE, "said-otherwise"):
        assert ok(answer)
