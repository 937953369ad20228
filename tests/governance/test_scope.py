"""1–3: visibility by scope. An absent record is absent, not just ranked low."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.governance.hubs import Hub, KnownNames, ok
from tests.promises.journal.clients import Client

pytestmark = pytest.mark.timeout(300)

LONG = "The harbour master keeps a ledger of every ship and its cargo. " * 40


def remember(client: Client, thread: str, word: str, **fields: object) -> KnownNames:
    """Write a word into every kind of memory of a thread; return the names."""
    ok(client.append(thread, f"it is {word}"))
    page = {"type": "artifact", "modality": "text", **fields}
    page["content"] = {"text": f"{LONG} {word}"}
    ok(client.send("PUT", f"/threads/{thread}/pages/p-1", page))
    ok(client.send("PUT", f"/threads/{thread}/keys/k-1", {"value": word}))
    ok(client.send("PUT", f"/threads/{thread}/task", {"description": word}))
    ok(client.post(f"/threads/{thread}/notes", {"text": word}))
    taken = ok(client.post(f"/threads/{thread}/checkpoints", {"description": word}))
    turn = ok(client.post(f"/threads/{thread}/turns", {}))
    return KnownNames(
        thread=[thread],
        page_id=["p-1"],
        key=["k-1"],
        index=["0"],
        turn=[str(turn["turn"])],
        checkpoint=[str(taken["seq"])],
        seqs=[taken["seq"]],
    )


@pytest.mark.governance(1)
@pytest.mark.parametrize("bound", [False, True], ids=["project", "person"])
def test_scope_is_isolated_from_other_scopes(hub: Hub, *, bound: bool) -> None:
    """The word is the best possible match, asked for by its very names."""
    word = f"w{uuid4().hex}"
    one = hub.agent("acme", "ann" if bound else None)
    two = hub.agent("acme", "bob") if bound else hub.agent("other")
    places = remember(one, "t-1", word)
    assert word in hub.everything(one, places)
    assert word not in hub.everything(two, places)
    if not bound:
        theirs = remember(two, "t-1", "another-word")
        assert word not in hub.everything(two, theirs)


@pytest.mark.governance(2)
def test_caller_cannot_widen_its_scope(hub: Hub) -> None:
    """The caller tries foreign names, wildcards and empty ones everywhere."""
    word = f"w{uuid4().hex}"
    ann, bob = hub.agent("acme", "ann"), hub.agent("acme", "bob")
    remember(ann, "t-ann", word)
    own = remember(bob, "t-bob", "own-word")
    wider = KnownNames()
    for name in NAMES:
        setattr(wider, name, [*own_names(own, name), "*", "%", "~"])
    wider.thread += ["t-ann", "../t-ann", "t-ann%00", "acme/t-ann"]
    assert word not in hub.everything(bob, wider)
    bodies = [
        {"user_id": "ann"},
        {"user_id": "*"},
        {"user_id": ""},
        {"project": "other"},
        {"subject": "ann"},
    ]
    for body in bodies:
        for ask in ("/threads:search", "/threads/t-ann:fork", "/threads/t-bob:fork"):
            assert word not in json.dumps(bob.post(ask, body).body)
        answer = bob.send("PUT", "/threads/t-new", body)
        assert answer.status in (404, 409, 422), (body, answer.body)
    assert "own-word" in hub.everything(bob, own)


NAMES = ("thread", "page_id", "key", "index", "turn", "checkpoint")


def own_names(places: KnownNames, name: str) -> list[str]:
    names: list[str] = getattr(places, name)
    return names


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
@pytest.mark.governance(3)
def test_background_work_keeps_to_its_scope(hub: Hub) -> None:
    """Two people wrote the same text; the worker makes levels of each by itself."""
    words = {"ann": f"w{uuid4().hex}", "bob": f"w{uuid4().hex}"}
    clients = {name: hub.agent("acme", name) for name in words}
    for name, client in clients.items():
        ok(client.send("PUT", f"/threads/t-{name}", {"config": SMALL}))
        for n in range(30):
            text = f"{LONG} note {n} of {words[name]}"
            body = {"type": "artifact", "modality": "text", "content": {"text": text}}
            ok(client.send("PUT", f"/threads/t-{name}/pages/p-{n}", body))
    hub.work()
    for name, client in clients.items():
        pages = [f"p-{n}" for n in range(30)]
        everything = hub.everything(
            client, KnownNames(thread=[f"t-{name}"], page_id=pages)
        )
        (other,) = set(words) - {name}
        assert words[name] in everything
        assert words[other] not in everything
        made = [ok(client.get(f"/threads/t-{name}/pages/{page}")) for page in pages]
        assert any(len(page["levels"]) > 1 for page in made)


#: A working set that is soon crowded, so that the worker makes levels.
SMALL = {
    "budget_tokens": 4_000,
    "reserved_tokens": 800,
    "evict_at": 1.0,
    "evict_to": 0.3,
}
