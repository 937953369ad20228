"""P17: with a dependency away a write is refused or durable, and it is said."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.harness.forks import Process
from tests.harness.instances import UNLIMITED, Instance, prepare_instance
from tests.harness.outages import Place, Redis, interruptible
from tests.promises.journal.clients import Answer, Client, percentile
from tests.promises.journal.late_writers import DONE_SECONDS, await_complete

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KEYS = "/threads/t-1/keys"
BACK_SECONDS = 5.0
#: Seconds that a write may lose because nobody hears of it.
SLOWED_SECONDS = 0.25
ALONE = {**UNLIMITED, "REDIS_URL": ""}

Said = tuple[str, str, Any]
WRITES: dict[str, Said] = {
    "key": ("PUT", f"{KEYS}/k", {"value": "lost?"}),
    "new key": ("PUT", f"{KEYS}/new", {"value": 1}),
    "batch": ("POST", f"{KEYS}:batch", {"items": [{"op": "delete", "key": "k"}]}),
    "clear": ("POST", f"{KEYS}:clear", {}),
    "task": ("PUT", "/threads/t-1/task", {}),
    "note": ("POST", "/threads/t-1/notes", {"text": "lost?"}),
    "checkpoint": ("POST", "/threads/t-1/checkpoints", {}),
    "new thread": ("PUT", "/threads/t-2/keys/k", {"value": 1}),
}
READS: dict[str, Said] = {
    "one key": ("GET", f"{KEYS}/k", None),
    "keys": ("GET", KEYS, None),
    "memory": ("GET", "/threads/t-1/working-memory", None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    status: int
    body: dict[str, Any]


def ready(port: int) -> Ready:
    line = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        line.request("GET", "/health/ready")
        answer = line.getresponse()
        return Ready(status=answer.status, body=json.loads(answer.read()))
    finally:
        line.close()


def ask(port: int, key: str, said: Said) -> Answer:
    with Client(port, key) as client:
        return client.send(*said)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with interruptible(tmp_path, monkeypatch) as made:
        yield made


def every(port: int, key: str, said: dict[str, Said]) -> dict[str, Answer]:
    """Send all requests at once: each may wait until the database is surely away."""
    with ThreadPoolExecutor(len(said)) as pool:
        answers = pool.map(lambda each: ask(port, key, each), said.values())
        return dict(zip(said, answers, strict=True))


def assert_refused(answers: dict[str, Answer]) -> None:
    statuses = {name: each.status for name, each in answers.items()}
    assert statuses == dict.fromkeys(answers, 503)
    assert all(int(each.headers["retry-after"]) > 0 for each in answers.values())


def assert_back(port: int, key: str, before: Answer) -> None:
    """Assert service within five seconds, without a restart and without a change."""
    since = time.monotonic()
    while (now := ask(port, key, READS["memory"])).status == 503:
        assert time.monotonic() - since < BACK_SECONDS
    assert now.body == before.body
    while (write := ask(port, key, WRITES["note"])).status == 503:
        assert time.monotonic() - since < BACK_SECONDS
    assert write.status == 201
    assert ready(port).status == 200


@pytest.mark.promise("P17", load="PostgreSQL stopped, writes of every kind")
@pytest.mark.grown
def test_requests_are_refused_without_a_database_never_served_elsewhere(
    place: Place,
) -> None:
    """Reads and writes get 503 with Retry-After, as readiness says, and recover."""
    instance = place.instance
    key = instance.managed("create_key", "acme").strip()
    with instance.serve(**ALONE) as server:
        assert ask(server.port, key, WRITES["key"]).status == 201
        before = ask(server.port, key, READS["memory"])
        with place.without_database():
            refused = every(server.port, key, {**WRITES, **READS})
            away = ready(server.port)
        assert_back(server.port, key, before)
        assert server.stop() in (0, -15)
    assert_refused(refused)
    assert away.status == 503
    assert away.body["parts"]["journal"]["state"] == "away"
    instance.managed("verify", "--all")


@contextmanager
def full_disk(process: Process) -> Iterator[None]:
    """Let no file of the process grow or be written to."""
    limits = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, limits[1]))
    yield
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)


@pytest.mark.promise("P17", load="no file can be written to, writes of every kind")
def test_writes_are_refused_on_a_full_disk_and_reads_go_on(
    sqlite: None, instance: Instance, key: str
) -> None:
    """Writes are refused, reads show stored data, and then the hub recovers."""
    with instance.serve(**ALONE) as server:
        assert ask(server.port, key, WRITES["key"]).status == 201
        before = ask(server.port, key, READS["memory"])
        with full_disk(server.process):
            writes = every(server.port, key, WRITES)
            during = ask(server.port, key, READS["memory"])
        assert_back(server.port, key, before)
        assert server.stop() in (0, -15)
    assert_refused(writes)
    assert during.body == before.body
    instance.managed("verify", "--all")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    made = Redis(tmp_path / "redis.sock")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def wired(tmp_path: Path, redis: Redis) -> Iterator[Instance]:
    """Yield an instance whose processes hear of each other through that Redis."""
    extra = {**UNLIMITED, "REDIS_URL": f"unix://{redis.place}"}
    with prepare_instance(tmp_path / "wired", **extra) as made:
        yield made


@pytest.mark.promise("P17", load="Redis {away}, 50 writes")
@pytest.mark.grown
@pytest.mark.parametrize("away", ["stopped", "suspended"])
def test_dead_channel_layer_is_reported_and_slows_no_write(
    wired: Instance, redis: Redis, away: str
) -> None:
    """Writes stay durable, and readiness is 200 and names the degraded part."""
    key = wired.call("tests.promises.journal.appender:make_key").strip()

    def put(client: Client) -> float:
        answers = [client.put(f"{KEYS}/k", {"value": n}) for n in range(50)]
        assert {answer.status for answer in answers} <= {200, 201}
        return percentile((answer.seconds for answer in answers), 0.9)

    with wired.serve() as server, Client(server.port, key) as client:
        before = put(client)
        assert ready(server.port).body["degraded"] == []
        with getattr(redis, away)():
            slowed = put(client) - before
            said = await_degraded(server.port, ["live"])
            assert client.get(f"{KEYS}/k").body["value"] == 49
        assert_ready_again(server.port, client)
        assert server.stop() in (0, -15)
    assert said.status == 200
    assert said.body["parts"]["live"]["state"] == "degraded"
    assert slowed < SLOWED_SECONDS
    wired.managed("verify", "--all")


def await_degraded(port: int, wanted: list[str]) -> Ready:
    since = time.monotonic()
    while (said := ready(port)).body["degraded"] != wanted:
        assert time.monotonic() - since < BACK_SECONDS, said
    return said


def assert_ready_again(port: int, client: Client) -> None:
    """Assert readiness after a write, whose ring tests the channel again."""
    since = time.monotonic()
    while ready(port).body["degraded"]:
        assert time.monotonic() - since < BACK_SECONDS
        assert client.put(f"{KEYS}/k", {"value": "back"}).status == 200


@pytest.mark.promise("P11", load="2 processes, Redis suspended, {times} keys")
@pytest.mark.grown
@pytest.mark.parametrize(
    "times", [200, pytest.param(10_000, marks=pytest.mark.nightly)]
)
def test_second_process_reads_its_writes(
    wired: Instance, redis: Redis, times: int
) -> None:
    key = wired.call("tests.promises.journal.appender:make_key").strip()
    with ExitStack() as stack:
        one, other = [stack.enter_context(wired.serve()) for _ in range(2)]
        writer = stack.enter_context(Client(one.port, key))
        reader = stack.enter_context(Client(other.port, key))
        stack.enter_context(redis.suspended())
        assert_reads_writes(writer, reader, times)


def assert_reads_writes(writer: Client, reader: Client, times: int) -> None:
    for n in range(times):
        assert writer.put(f"{KEYS}/k", {"value": n}).status in (200, 201)
        assert reader.get(f"{KEYS}/k").body["value"] == n


@pytest.mark.promise("P13", load="Redis {away} from the plan until it waits")
@pytest.mark.grown
@pytest.mark.parametrize("away", ["stopped", "suspended"])
def test_forgetting_waits_for_a_redis_that_is_away(
    wired: Instance, redis: Redis, away: str
) -> None:
    """The subject is unreadable at once; the receipt waits for the full scan."""
    keys = json.loads(wired.call("tests.promises.forget.erasing:make_keys", "acme"))
    with (
        wired.serve() as server,
        Client(server.port, keys[0]) as agent,
        Client(server.port, keys[1]) as officer,
    ):
        assert agent.put("/threads/hers", {"user_id": "ann"}).status == 201
        assert agent.append("hers", "Something of hers.").status == 201
        with getattr(redis, away)():
            erasure = confirmed(officer, "ann")
            await_waiting(officer, erasure)
            assert agent.get("/threads/hers").status == 410
            refused = officer.get(f"/erasures/{erasure}/receipt")
            assert (refused.status, refused.body["code"]) == (409, "not_complete")
        await_complete(officer, [erasure])
        assert officer.get(f"/erasures/{erasure}/receipt").status == 200
    wired.managed("verify", "--all")


def confirmed(officer: Client, user: str) -> str:
    """Confirm the erasure of a person and return its id."""
    subject = officer.post("/subjects:resolve", {"user_id": user}).body["id"]
    wish = {"scope": "subject", "reason": "test"}
    plan = officer.post(f"/subjects/{subject}/erasures", wish).body
    said = {"plan_token": plan["plan_token"], "count": plan["count"]}
    assert officer.post(f"/erasures/{plan['id']}:confirm", said).status == 202
    return str(plan["id"])


def await_waiting(officer: Client, erasure: str) -> None:
    """Wait until only the scan of every store is missing."""
    since = time.monotonic()
    while (told := officer.get(f"/erasures/{erasure}").body)["state"] != "scrubbed" or (
        told["waiting_on"] is None
    ):
        assert told["state"] not in ("verified", "complete"), told
        assert time.monotonic() - since < DONE_SECONDS, told
