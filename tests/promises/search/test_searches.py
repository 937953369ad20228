"""Search across processes: acknowledged texts are found, erased ones are not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memoryhub.models.events import ThreadTerms
from memoryhub.models.server.clock import clock
from memoryhub.workers.search import terms
from tests.harness.instances import UNLIMITED, Instance, Server
from tests.promises.clear.planting import Canaries
from tests.promises.clear.test_nothing_in_the_clear import scan, stores, wal_file
from tests.promises.conftest import Own
from tests.promises.journal.appender import tell
from tests.promises.journal.clients import Client

PLACE = "tests.promises.search.test_searches"
KEYS = "tests.promises.forget.erasing:make_keys"
#: What a server without Redis is given: no notice goes from one to the other.
ALONE = {**UNLIMITED, "REDIS_URL": ""}
SECONDS = 60


@pytest.fixture(scope="module")
def other(shared: Instance, served: Server) -> Iterator[Server]:
    """Run a second process that serves the same instance."""
    with shared.serve(**ALONE) as server:
        yield server


def find(client: Client, query: str, at: str = "/threads/t-1/search") -> list[int]:
    """Return the seqs of the hits; none in a thread that is gone or shut."""
    answer = client.post(at, {"query": query, "limit": 50})
    assert answer.status in (200, 404, 409, 410), answer
    return [hit["seq"] for hit in answer.body.get("items", ())]


def write_ahead() -> None:
    """Have terms written as after a silence; print the number of rows. Runs inside."""
    terms.write_ahead(clock.now() + timedelta(minutes=2))
    tell(str(ThreadTerms.objects.count()))


@pytest.mark.promise("P11", load="2 processes, no notice, 40 messages searched for")
def test_acknowledged_message_is_found_by_any_process(own: Own, other: Server) -> None:
    with own.client() as one, Client(other.port, own.key) as two:
        for n in range(40):
            writer, reader = (one, two) if n % 2 else (two, one)
            seq = writer.append("t-1", f"The code is zfa{n}y.").body["seq"]
            assert find(reader, f"zfa{n}y") == [seq]


# Erasing


def confirm(client: Client, subject: str, asked: dict[str, Any]) -> str:
    """Plan an erasure and confirm it. Returns its path."""
    plan = client.post(f"/subjects/{subject}/erasures", {"reason": "test", **asked})
    assert plan.status == 201, plan
    at = f"/erasures/{plan.body['id']}"
    words = {name: plan.body[name] for name in ("plan_token", "count")}
    assert client.post(f"{at}:confirm", words).status == 202
    return at


def iter_states(client: Client, at: str) -> Iterator[str]:
    """Yield the states of an erasure, from when it is fenced until its receipt."""
    deadline, state = time.monotonic() + SECONDS, ""
    while state != "complete":
        assert time.monotonic() < deadline, state
        state = client.get(at).body["state"]
        if state != "planned":
            yield state


@pytest.mark.promise("P11", load="2 processes, no notice, a {what} erased")
@pytest.mark.parametrize("what", ["page", "record", "thread", "subject"])
def test_erased_text_is_found_by_no_process(
    shared: Instance, served: Server, other: Server, what: str
) -> None:
    """No process finds the text once it is fenced, nor by an index written ahead."""
    writing, forgetting = json.loads(shared.call(KEYS, f"acme-{what}"))
    with (
        Client(served.port, writing) as one,
        Client(other.port, writing) as two,
        Client(served.port, forgetting) as eraser,
    ):
        one.put("/threads/t-1", {"user_id": "ann"})
        seq = one.append("t-1", "The zfa04y lamp.").body["seq"]
        page = {"type": "artifact", "modality": "text", "content": {"text": "Zfa04y."}}
        made = one.put("/threads/t-1/pages/rules", page).body["seq"]
        subject = one.post("/subjects:resolve", {"user_id": "ann"}).body["id"]
        routes = ("/threads/t-1/search", f"/subjects/{subject}/recall")

        def search_everywhere() -> set[frozenset[int]]:
            """Return what is found, the same by every route of each process or not."""
            every = [(client, at) for client in (one, two) for at in routes]
            return {frozenset(find(client, "zfa04y", at)) for client, at in every}

        assert int(shared.call(f"{PLACE}:write_ahead")) > 0
        assert search_everywhere() == {frozenset({seq, made})}
        left = {frozenset({"page": {seq}, "record": {made}}.get(what, ()))}
        if what == "page":
            assert one.send("DELETE", "/threads/t-1/pages/rules").status == 200
        else:
            named = {"thread": {"thread": "t-1"}, "subject": {}}
            named["record"] = {"thread": "t-1", "record": seq}
            erasure = confirm(eraser, subject, {"scope": what, **named[what]})
            for state in iter_states(eraser, erasure):
                assert search_everywhere() == left, state
        assert search_everywhere() == left
        shared.call(f"{PLACE}:write_ahead")
        assert search_everywhere() == left


@pytest.mark.promise("sealed", load="words in segments, and words searched for")
def test_search_index_holds_no_words_on_disk(
    instance: Instance, tmp_path: Path
) -> None:
    canaries, began = Canaries(), wal_file(instance)
    said = [canaries.plant_text("said") for _ in range(40)]
    writing, forgetting = json.loads(instance.call(KEYS, "acme"))
    with instance.serve(**UNLIMITED) as server, Client(server.port, writing) as client:
        thread = canaries.name("thread")
        user_id = canaries.plant_text("user_id")
        client.put(f"/threads/{thread}", {"user_id": user_id})
        for text in said:
            client.append(thread, f"It is {text}.")
        assert int(instance.call(f"{PLACE}:write_ahead")) > 0
        for text in (said[0], canaries.plant_text("searched for"), f'"{said[1]}'):
            find(client, text, f"/threads/{thread}/search")
        # Killed, so that the write-ahead log is still there to be looked at.
        server.kill()
    # A stem may lack the end of its word.
    secret = {text[:-3] for text in canaries.texts}
    before = tmp_path / "before"
    before.mkdir()
    folders = stores(instance, before, since=began)
    assert scan(secret, folders) == set()
    assert {hit.needle for hit in scan({thread}, folders)} == {thread}
    with (
        instance.serve(**UNLIMITED) as server,
        Client(server.port, writing) as client,
        Client(server.port, forgetting) as eraser,
    ):
        asked = client.post("/subjects:resolve", {"user_id": user_id})
        subject = asked.body["id"]
        assert [*iter_states(eraser, confirm(eraser, subject, {"scope": "subject"}))]
        assert int(instance.call(f"{PLACE}:write_ahead")) == 0
        server.kill()
    after = tmp_path / "after"
    after.mkdir()
    assert scan(secret, stores(instance, after, since=began)) == set()
