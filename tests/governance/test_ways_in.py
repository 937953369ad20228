"""Each way in: erased canaries are gone, and refusals are in its own words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("pydantic_ai")

from memoryhub.models.access.api_keys import MEMORY_SCOPES
from tests.governance.hubs import Hub, KnownNames, ok
from tests.governance.ways_in import WAYS_IN, EntryPlace, WayIn
from tests.harness.environments import build_environment
from tests.promises.clear.scanner import Scanner

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Ways = pytest.mark.parametrize("way", WAYS_IN.values(), ids=WAYS_IN)
MakeEntry = Callable[..., EntryPlace]


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("environments")


@pytest.fixture
def make_entry(
    hub: Hub, tmp_path: Path, environments: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeEntry:
    """Return a function that builds a place for a new person, by a key with scopes."""
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    monkeypatch.setenv("MEM0_TELEMETRY", "false")
    pytest.importorskip("mem0")

    def run_import(path: Path, *, person: str) -> tuple[int, str]:
        words = ("import", path, "--project", hub.slugs["acme"], "--user-id")
        done = hub.instance.manage(*words, stdin=person)
        return done.returncode, done.stdout + done.stderr

    full_key = hub.make_key("acme", MEMORY_SCOPES)
    return partial(
        EntryPlace,
        url=hub.server.url,
        key=full_key,
        full_key=full_key,
        person=f"p{uuid4().hex}",
        name=f"n{uuid4().hex}",
        folder=tmp_path,
        run_import=run_import,
        build_environment=partial(build_environment, environments),
    )


def list_names(hub: Hub, place: EntryPlace) -> KnownNames:
    """List the person's threads, and the names of what is in them."""
    client = hub.client(place.full_key)
    subject = ok(client.post("/subjects:resolve", {"user_id": place.person}))["id"]
    names = KnownNames(subject=[subject], index=["0"])
    for thread in ok(client.post("/threads:search", {"user_id": place.person}))[
        "items"
    ]:
        names.thread.append(thread["thread"])
        path = f"/threads/{thread['thread']}"
        names.key += [k["key"] for k in ok(client.get(f"{path}/keys"))["items"]]
        names.page_id += [
            p["page_id"] for p in ok(client.get(f"{path}/pages"))["items"]
        ]
    return names


@Ways
async def test_erased_canary_of_a_way_in_is_nowhere(
    hub: Hub, make_entry: MakeEntry, way: WayIn
) -> None:
    place, canary = make_entry(), f"w{uuid4().hex}"
    await way.write(place, f"Ann plays {canary}")
    names, reader = list_names(hub, place), hub.client(place.full_key)
    assert canary in hub.everything(reader, names)
    hub.forget(hub.officer("acme"), place.person)
    assert canary not in hub.everything(reader, names)
    scanner = Scanner([canary, place.person])
    assert [*scanner.files(hub.instance.data)] == []
    assert [*scanner.iter_hits(hub.instance.log.read_bytes(), place="the log")] == []
    if way.has_key:
        # The erased person stays out of the hub by the same way.
        with pytest.raises(way.refusals):
            await way.write(replace(place, name=f"n{uuid4().hex}"), canary)
        assert canary not in hub.everything(reader, names)


@Ways
@pytest.mark.parametrize("trouble", ["no_scope", "other_person", "too_large"])
async def test_way_in_refuses_in_its_own_words(
    hub: Hub, make_entry: MakeEntry, way: WayIn, trouble: str
) -> None:
    place, canary = make_entry(), f"w{uuid4().hex}"
    if trouble == "too_large":
        # No text of one repeated letter: a store may keep chunks of a text once.
        canary = "".join(uuid4().hex for _ in range(10_000_000 // 32))
    elif not way.has_key:
        pytest.skip("the operator's command has no key")
    elif trouble == "no_scope":
        place = replace(place, key=hub.make_key("acme", ["memory:read"]))
    else:
        bobs = hub.make_key("acme", MEMORY_SCOPES, f"p{uuid4().hex}")
        place = replace(place, key=bobs)
    if trouble == "too_large" and way.takes_large:
        await way.write(place, canary)
    else:
        with pytest.raises(way.refusals) as refused:
            await way.write(place, canary)
        assert canary not in str(refused.value)
        assert getattr(refused.value, "status", 400) < 500
    log = hub.instance.log.read_text()
    assert "Traceback" not in log
    assert '"status": 500' not in log
