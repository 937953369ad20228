"""The routes for mem0's client, by that client itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from memoryhub.api.http.auth import PERSON_HEADER
from memoryhub_client import Client as Hub
from memoryhub_client import erasures, pages, searches, slots, subjects
from tests.harness.instances import Server
from tests.mcp.conftest import HOST, MakeKey

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mem0_client.py"
ANN, BOB = {"user_id": "ann"}, {"user_id": "bob"}
TALK = [
    {"role": "user", "content": "I play the oboe"},
    {"role": "assistant", "content": "How lovely: the oboe"},
]
SILENT = {"role": "user", "content": " "}
Connect = Callable[..., Any]


@pytest.fixture
def mem0(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the client's package; it writes a folder, and tells where it is used."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MEM0_DIR", str(tmp_path_factory.mktemp("mem0")))
    yield pytest.importorskip("mem0")
    patch.undo()


@pytest.fixture
def connect(mem0: Any, served: Server, key: str) -> Iterator[Connect]:
    """Yield a function that makes a client, by default with the project's key.

    The client never closes its connections, so that the test does.
    """
    host = f"{served.url}/compat/mem0"
    with ExitStack() as stack:

        def connect_by(its: str = key, **headers: str) -> Any:
            http = stack.enter_context(httpx.Client(timeout=30, headers=headers))
            return mem0.MemoryClient(api_key=its, host=host, client=http)

        yield connect_by


def list_texts(client: Any, **filters: Any) -> list[str]:
    return [each["memory"] for each in client.get_all(filters=filters)["results"]]


def find_texts(client: Any, query: str, **filters: Any) -> list[str]:
    found = client.search(query, filters=filters)["results"]
    return [each["memory"] for each in found]


def send(
    server: Server, key: str, method: str, path: str, **more: Any
) -> httpx2.Response:
    """Send a request that mem0's client never sends."""
    headers = {"authorization": f"Token {key}", **more.pop("headers", {})}
    url = f"{server.url}/compat/mem0{path}"
    return httpx2.request(method, url, headers=headers, **more)


# Memories


def test_memory_lives_until_it_is_deleted(mem0: Any, connect: Connect) -> None:
    client = connect()
    (added,) = client.add(TALK, metadata={"topic": "music"}, **ANN)["results"]
    assert (added["memory"], added["event"]) == ("I play the oboe", "ADD")
    (hit,) = client.search("oboe", filters=ANN)["results"]
    assert 0 < hit["score"] < 1
    listed = client.get_all(filters=ANN)
    assert (listed["count"], listed["next"], listed["previous"]) == (1, None, None)
    memory = client.get(added["id"])
    assert listed["results"] == [memory]
    assert {**memory, "score": hit["score"]} == hit
    assert memory["metadata"] == {"topic": "music"}
    assert (memory["user_id"], memory["agent_id"]) == ("ann", None)

    changed = client.update(added["id"], text="I play the bassoon")
    assert changed["memory"] == "I play the bassoon"
    assert changed["created_at"] == memory["created_at"] < changed["updated_at"]
    assert changed["metadata"] == {"topic": "music"}
    changed = client.update(added["id"], metadata={"topic": 1.5})
    assert (changed["memory"], changed["metadata"]["topic"]) == (
        "I play the bassoon",
        1.5,
    )
    assert find_texts(client, "oboe", **ANN) == []
    history = client.history(added["id"])
    assert [(each["event"], each["new_memory"]) for each in history] == [
        ("ADD", "I play the oboe"),
        ("UPDATE", "I play the bassoon"),
        ("UPDATE", "I play the bassoon"),
    ]
    assert history[1]["old_memory"] == "I play the oboe"

    assert "message" in client.delete(added["id"])
    assert list_texts(client, **ANN) == find_texts(client, "bassoon", **ANN) == []
    assert client.history(added["id"])[-1]["event"] == "DELETE"
    for act in (client.get, client.delete, lambda each: client.update(each, text="x")):
        with pytest.raises(mem0.exceptions.MemoryNotFoundError, match="page_erased"):
            act(added["id"])
        with pytest.raises(mem0.exceptions.MemoryNotFoundError):
            act("3f0b7a9e-0000-4000-8000-000000000000")


def test_messages_are_appended_only_when_facts_are_wanted(
    served: Server, key: str, connect: Connect
) -> None:
    client = connect()
    client.add("I like tea", infer=False, **ANN)
    client.add(TALK, infer=False, **ANN)
    assert list_texts(client, **ANN) == [
        "How lovely: the oboe",
        "I play the oboe",
        "I like tea",
    ]
    (memory, *_) = client.add(TALK, **ANN)["results"]
    thread = memory["id"].partition("~")[0]
    with Hub(served.url, key) as hub:
        messages = hub.send(slots.list_messages(thread))["items"]
    assert [each["content"] for each in messages] == TALK


def test_people_agents_and_runs_are_kept_apart(connect: Connect) -> None:
    client = connect()
    client.add("Ann likes nuts", **ANN)
    client.add("Ann likes nuts on a trip", agent_id="travel", run_id="r1", **ANN)
    client.add("Bob likes nuts", filters=BOB)
    client.add("An agent likes nuts", agent_id="travel")
    assert {*list_texts(client, **ANN)} == {
        "Ann likes nuts",
        "Ann likes nuts on a trip",
    }
    assert find_texts(client, "nuts", **BOB) == list_texts(client, **BOB)
    both: dict[str, Any] = {"AND": [ANN, {"run_id": "r1"}]}
    assert list_texts(client, **both) == ["Ann likes nuts on a trip"]
    assert find_texts(client, "nuts", **both) == ["Ann likes nuts on a trip"]
    assert len(list_texts(client, agent_id="travel")) == 2
    assert list_texts(client, user_id="zoe") == []
    assert find_texts(client, "nuts", user_id="zoe") == []


def test_list_comes_in_pages(connect: Connect) -> None:
    client = connect()
    said = [{"role": "user", "content": f"number {each}"} for each in range(205)]
    client.add(said, **ANN)
    part = client.get_all(filters=ANN, page=2, page_size=100)
    assert [part["count"], len(part["results"])] == [205, 100]
    assert part["results"][0]["memory"] == "number 104"
    assert "page=3" in part["next"]
    assert "page=1" in part["previous"]
    top = client.search("number: 7", filters=ANN, top_k=3)["results"]
    assert len(top) == 3
    assert client.search("number", filters=ANN, threshold=0.9999)["results"] == []
    assert client.search("a long question? " * 500, filters=ANN)["results"] == []


def test_all_memories_of_a_person_are_deleted(mem0: Any, connect: Connect) -> None:
    client = connect()
    for person in (ANN, BOB):
        client.add("I like nuts", **person)
        client.add("I like tea", run_id="r1", **person)
    for act in (client.delete_all, lambda: client.delete_all(app_id="x")):
        with pytest.raises(mem0.exceptions.ValidationError):
            act()
    with pytest.raises(mem0.exceptions.ValidationError, match="unconditional DELETE"):
        client.delete_all()
    options = mem0.client.types.DeleteAllMemoryOptions(filters={**ANN, "run_id": "r1"})
    client.delete_all(options)
    assert list_texts(client, **ANN) == ["I like nuts"]
    client.delete_all(**ANN)
    assert list_texts(client, **ANN) == find_texts(client, "nuts", **ANN) == []
    assert len(list_texts(client, **BOB)) == 2


def test_deleted_memory_takes_its_messages_along(
    served: Server, key: str, connect: Connect
) -> None:
    client = connect()
    code, cat = client.add(
        [
            {"role": "user", "content": "My locker code is ZX-81"},
            {"role": "assistant", "content": "Locker code noted: ZX-81"},
            {"role": "user", "content": "My cat is Mogli"},
        ],
        **ANN,
    )["results"]
    client.add(
        [
            {"role": "user", "content": "Balu and Mogli are pets"},
            {"role": "assistant", "content": "Noted"},
        ],
        **ANN,
    )
    thread = code["id"].partition("~")[0]
    with Hub(served.url, key) as hub:
        person = hub.send(subjects.resolve("ann"))["id"]

        def recall(query: str) -> list[str]:
            found = hub.send(searches.recall_subject(person, query))["items"]
            return sorted(f"{each['kind']}: {each['excerpt']}" for each in found)

        client.update(cat["id"], metadata={"kind": "pet"})
        assert "message: My cat is Mogli" in recall("Mogli")
        client.update(code["id"], text="My locker code is QQ-99")
        assert recall("locker") == ["page: My locker code is QQ-99"]
        pet: Any = {"type": "claim", "modality": "text", "provenance": ["slot-2"]}
        pet = hub.send(pages.create(thread, content={"text": "Ann has a cat"}, **pet))
        client.delete(cat["id"])
        assert "message: My cat is Mogli" in recall("Mogli")
        client.delete(f"{thread}~{pet['page_id']}")
        assert "message: My cat is Mogli" not in recall("Mogli")
        client.delete_all(**ANN)
        assert recall("locker Balu Mogli") == []
        kept = hub.send(slots.list_all(thread, struck="true"))["items"]
    assert [each["struck"] for each in kept] == [True] * 5


def test_updates_of_text_and_metadata_at_once_are_both_kept(connect: Connect) -> None:
    clients = [connect(), connect()]
    (made,) = clients[0].add(TALK[:1], **ANN)["results"]
    for n in range(5):
        changes: list[Any] = [{"text": f"I play {n} oboes"}, {"metadata": {"n": n}}]
        with ThreadPoolExecutor() as pool:
            work = [
                pool.submit(client.update, made["id"], **change)
                for client, change in zip(clients, changes, strict=True)
            ]
        assert [each.result()["id"] for each in work] == [made["id"]] * 2
        found = clients[0].get(made["id"])
        assert (found["memory"], found["metadata"]) == (f"I play {n} oboes", {"n": n})


async def test_async_client_reads_what_it_wrote(
    mem0: Any, served: Server, key: str
) -> None:
    host = f"{served.url}/compat/mem0"
    client = await asyncio.to_thread(mem0.AsyncMemoryClient, api_key=key, host=host)
    async with client:
        (added,) = (await client.add("I like nuts", **ANN))["results"]
        (hit,) = (await client.search("nuts", filters=ANN))["results"]
        (listed,) = (await client.get_all(filters=ANN))["results"]
        assert added["id"] == hit["id"] == listed["id"]
        assert (await client.update(hit["id"], text="I like tea"))["memory"]
        assert len(await client.history(hit["id"])) == 2
        await client.delete(hit["id"])
        await client.delete_all(**ANN)
        assert (await client.get_all(filters=ANN))["count"] == 0


def test_example_runs_on_a_fresh_hub(mem0: Any, served: Server, key: str) -> None:
    env = {**os.environ, "MEMORYHUB_URL": served.url, "MEMORYHUB_KEY": key}
    done = subprocess.run(
        [sys.executable, EXAMPLE], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "window" in done.stdout


# Keys and people


@pytest.mark.parametrize("by_header", [False, True])
def test_client_of_one_person_reaches_no_other_person(
    mem0: Any, connect: Connect, make_key: MakeKey, *, by_header: bool
) -> None:
    (theirs,) = connect().add("Bob likes nuts", **BOB)["results"]
    if by_header:
        client = connect(**{PERSON_HEADER: "ann"})
    else:
        client = connect(make_key(person="ann"))
    client.add("Ann likes nuts")
    assert find_texts(client, "nuts") == list_texts(client) == ["Ann likes nuts"]
    assert find_texts(client, "nuts", **BOB) == list_texts(client, **BOB) == []
    not_found = pytest.raises(mem0.exceptions.MemoryNotFoundError, match="not_found")
    for act in (client.get, client.delete, client.history):
        with not_found:
            act(theirs["id"])
    with not_found:
        client.update(theirs["id"], text="x")
    with not_found:
        client.add("Ann was here", **BOB)
    client.delete_all(**BOB)
    assert list_texts(connect(), **BOB) == ["Bob likes nuts"]
    assert list_texts(connect(), **ANN) == ["Ann likes nuts"]


def test_erased_person_is_gone_from_every_route(
    mem0: Any, served: Server, connect: Connect, make_key: MakeKey
) -> None:
    client = connect()
    (memory,) = client.add(TALK, metadata={"at": "home"}, **ANN)["results"]
    client.add("Bob likes nuts", **BOB)
    officer = make_key("--scopes=subject:export,subject:forget,admin")
    with Hub(served.url, officer) as hub:
        subject = hub.send(subjects.resolve("ann"))["id"]
        plan = hub.send(erasures.plan(subject, "subject", "test"))
        hub.send(erasures.confirm(plan["id"], plan["plan_token"], plan["count"]))
    for act in (client.get, client.history, client.delete):
        with pytest.raises(mem0.exceptions.MemoryError):
            act(memory["id"])
    with pytest.raises(mem0.exceptions.MemoryError, match="subject_erased"):
        client.search("oboe", filters=ANN)
    with pytest.raises(mem0.exceptions.MemoryError, match="subject_erased"):
        client.add("Ann is back", **ANN)
    with pytest.raises(mem0.exceptions.MemoryError, match="subject_erased"):
        list_texts(client, **ANN)
    assert list_texts(client, **BOB) == ["Bob likes nuts"]


# Refusals


def test_key_without_its_scope_is_refused(
    mem0: Any, connect: Connect, make_key: MakeKey
) -> None:
    client = connect(make_key("--scopes=memory:read"))
    assert list_texts(client, **ANN) == []
    with pytest.raises(mem0.exceptions.MemoryError, match="memory:write") as refused:
        client.add("x", **ANN)
    assert refused.value.error_code == "HTTP_403"
    with pytest.raises(ValueError, match="unauthorized"):
        connect("mh_live_nobody")


REFUSED: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/v1/ping/", {"headers": {"authorization": ""}}, 401),
    ("GET", "/v1/ping/", {"headers": {"host": "evil.example"}}, 400),
    ("GET", "/v1/ping/", {"headers": {"host": HOST}}, 200),
    ("PATCH", "/v1/ping/", {"json": {}}, 405),
    ("POST", "/v1/ping/", {"json": {}}, 405),
    ("GET", "/v1/entities/", {}, 404),
    ("DELETE", "/v2/entities/user/ann/", {}, 404),
    ("GET", "/v1/memories/x~y%2F..%2F/", {}, 404),
    ("GET", "/v1/memories/%00~%ff/", {}, 400),
    ("POST", "/v3/memories/add/", {"content": b"x"}, 415),
    ("POST", "/v3/memories/add/", {"json": []}, 400),
    ("POST", "/v3/memories/add/", {"json": {"messages": [{}], **ANN}}, 400),
    ("POST", "/v3/memories/add/", {"json": {"messages": [], **ANN}}, 400),
    ("POST", "/v3/memories/add/", {"json": {"messages": TALK}}, 400),
    ("POST", "/v3/memories/add/", {"json": {"messages": [SILENT], **ANN}}, 400),
    ("POST", "/v3/memories/search/", {"json": {"filters": ANN}}, 400),
    ("POST", "/v3/memories/search/", {"json": {"query": "x"}}, 400),
    ("POST", "/v3/memories/", {"json": {"filters": {"OR": [ANN]}}}, 400),
    ("POST", "/v3/memories/", {"json": {"filters": {"user_id": "*"}}}, 400),
    ("POST", "/v3/memories/", {"json": {"filters": {"user_id": "x\0"}}}, 422),
    ("POST", "/v3/memories/?page=0", {"json": {"filters": ANN}}, 400),
    ("DELETE", "/v1/memories/?filters=((((", {}, 400),
    ("DELETE", "/v1/memories/?filters={}", {}, 400),
    ("DELETE", "/v1/memories/?user_id=", {}, 400),
]


@pytest.mark.parametrize("case", REFUSED)
def test_bad_request_is_refused_in_json(
    served: Server, key: str, case: tuple[str, str, dict[str, Any], int]
) -> None:
    method, path, more, status = case
    answer = send(served, key, method, path, **more)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert status == 200 or {"detail", "error"} == {*answer.json()}


def test_options_that_would_change_what_is_kept_are_refused(
    mem0: Any, connect: Connect
) -> None:
    client = connect()
    off = {"enable_graph": False, "includes": "", "custom_categories": []}
    (memory,) = client.add("I like tea", async_mode=False, **off, **ANN)["results"]
    refused = pytest.raises(mem0.exceptions.ValidationError, match="served")
    for options in (
        {"expiration_date": "2026-12-31"},
        {"custom_instructions": "Be terse"},
        {"agent_custom_instructions": "Be terse"},
        {"custom_categories": [{"food": "meals"}]},
        {"includes": "food"},
        {"excludes": "food"},
        {"enable_graph": True},
    ):
        with refused:
            client.add("x", **options, **ANN)
    with refused:
        client.search("x", filters=ANN, categories=["food"])
    with refused:
        client.get_all(filters=ANN, enable_graph=True)
    with pytest.raises(mem0.exceptions.ValidationError, match="expire"):
        client.update(memory["id"], expiration_date="2026-12-31")
    kept = client.update(memory["id"], expiration_date=None)
    assert kept["memory"] == "I like tea"
    assert len(client.history(memory["id"])) == 1
    assert list_texts(client, **ANN) == ["I like tea"]


def test_pictures_beside_a_text_are_left_out(mem0: Any, connect: Connect) -> None:
    client = connect()
    picture = {"type": "image_url", "image_url": {"url": "https://x.example/y.png"}}
    said = [{"type": "text", "text": "My bike is red"}, picture]
    client.add([{"role": "user", "content": said}], **ANN)
    client.add([{"role": "user", "content": picture}, TALK[0], SILENT], **ANN)
    assert list_texts(client, **ANN) == ["I play the oboe", "My bike is red"]
    with pytest.raises(mem0.exceptions.ValidationError, match="messages: at least one"):
        client.add([{"role": "user", "content": [picture]}], **ANN)
    for field, value in (("run_id", "r/1"), ("agent_id", "ag 1")):
        with pytest.raises(mem0.exceptions.ValidationError, match=f"{field}: at most"):
            client.add("I like tea", **ANN, **{field: value})


def test_text_beyond_the_cap_is_refused(mem0: Any, connect: Connect) -> None:
    with pytest.raises(mem0.exceptions.MemoryError, match="body_too_large"):
        connect().add("x" * 10_000_000, **ANN)
