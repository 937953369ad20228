"""Limits of a real server: who goes beyond one is told so, and others are served."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from threading import Event, Thread

import pytest

from memoryhub.models.access.api_keys import MEMORY_SCOPES
from memoryhub.services.forget import erasures
from memoryhub.services.people import subjects
from tests.cast import factories, graves
from tests.harness.instances import Instance, Server, prepare_instance
from tests.promises.journal.clients import Answer, Client, build_slot, percentile

PLACE = "tests.api.http.test_neighbours"
PATIENCE = 20
#: Within which a refusal is told; the rest is a busy machine's.
TOLD_SECONDS, SLACK_SECONDS = 1.0, 1.0
#: A quiet key's writes and their rate, and the connections of a flood. Other work of
#: the machine only slows down, so that the best of a few rounds counts.
WRITES, PER_SECOND, FLOODERS, ROUNDS = 140, 35, 4, 3

#: So low that a test reaches each of them, and no other before it.
LOWERED = {
    "MEMORYHUB_KEY_REQUESTS_PER_SECOND": "1",
    "MEMORYHUB_KEY_BURST": "30",
    "MEMORYHUB_ANONYMOUS_REQUESTS_PER_SECOND": "5",
    "MEMORYHUB_KEY_BYTES_PER_DAY": "40000",
    "MEMORYHUB_KEY_STREAMS": "1",
    "MEMORYHUB_BODY_BYTES": "60000",
    "MEMORYHUB_QUEUE_BYTES": "10000",
    "MEMORYHUB_EXPORTS_PER_DAY": "1",
}
#: Far below what the server can do, and above what the quiet one asks of it.
SLOW = {
    "MEMORYHUB_KEY_REQUESTS_PER_SECOND": "40",
    "MEMORYHUB_KEY_BURST": "40",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of a key: how to exceed it, and the refusal that follows."""

    beyond: Callable[[Client, str], Answer]
    status: int = 429
    code: str = "rate"
    scopes: tuple[str, ...] = MEMORY_SCOPES

    @property
    def passes(self) -> bool:
        """Whether it is worth while to come back: the answer says when."""
        return self.status in {429, 503}


def until_refused(ask: Callable[..., Answer], *arguments: object) -> Answer:
    """Return the first refusal among more requests than any limit allows."""
    answers = (ask(*arguments) for _ in range(100))
    return next(each for each in answers if each.status >= 400)


def guess(client: Client, ann: str) -> Answer:
    """Send an invalid key from the address that all other clients use."""
    with Client(client.line.port, "mh_live_guess") as guesser:
        answers = (guesser.get("/threads") for _ in range(100))
        return next(each for each in answers if each.status != 401)


def stream_twice(client: Client, ann: str) -> Answer:
    accept = {"Accept": "text/event-stream"}
    client.append("t-1", "x")
    stream = HTTPConnection("127.0.0.1", client.line.port, timeout=PATIENCE)
    path = "/api/v1/threads/t-1/events"
    stream.request("GET", path, headers={**client.headers, **accept})
    assert stream.getresponse().status == 200
    refused = client.send("GET", "/threads/t-1/events", **accept)
    stream.close()
    return refused


def forget(client: Client, ann: str) -> Answer:
    whole = {"scope": "subject", "reason": "test"}
    plan = client.post(f"/subjects/{ann}/erasures", whole).body
    confirmation = {"plan_token": plan["plan_token"], "count": plan["count"]}
    return client.post(f"/erasures/{plan['id']}:confirm", confirmation)


def append(content: object) -> Callable[[Client, str], Answer]:
    return lambda client, ann: client.append("t-1", content)


def append_batch(client: Client, ann: str) -> Answer:
    return client.post("/threads/t-1/slots:batch", {"items": [build_slot(0)] * 201})


def get(path: str) -> Callable[[Client, str], Answer]:
    return lambda client, ann: client.get(path)


LIMITS = {
    "requests per key": Limit(lambda key, ann: until_refused(key.get, "/threads")),
    "requests without a valid key": Limit(guess),
    "bytes per key and day": Limit(
        lambda key, ann: until_refused(key.append, "t-1", "x" * 8_000)
    ),
    "body": Limit(append("x" * 70_000), 413, "body_too_large"),
    "depth": Limit(append(json.loads("[" * 33 + "]" * 33)), 422, "too_deep"),
    "nodes": Limit(append([0] * 10_001), 422, "too_many_nodes"),
    "batch": Limit(append_batch, 422, "batch_size"),
    "limit": Limit(get("/threads?limit=201"), 422, "limit"),
    "header block": Limit(
        lambda key, ann: key.send("GET", "/threads", X_A="x" * 16_384),
        431,
        "headers_too_large",
    ),
    "URL": Limit(get(f"/threads/{'x' * 8_192}"), 414, "uri_too_long"),
    "open streams per key": Limit(stream_twice),
    "exports of a day": Limit(
        lambda key, ann: until_refused(key.post, f"/subjects/{ann}/export", {}),
        scopes=("subject:export",),
    ),
    "erasures of a day": Limit(
        forget, code="forget_budget", scopes=("subject:forget",)
    ),
    "writer queue": Limit(append("x" * 12_000), 503, "queue_full"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """A server with low limits, and by limit who goes beyond it and who does not."""

    server: Server
    greedy: dict[str, str]
    quiet: dict[str, str]
    ann: str


def print_cast() -> None:
    """Print two keys for each limit, of different projects. Runs in the instance."""
    acme, zeta = factories.make_project("acme"), factories.make_project("zeta")
    ann = subjects.find_or_create(acme.id, "ann")
    greedy = {
        name: factories.make_key(acme, scopes=limit.scopes)
        for name, limit in LIMITS.items()
    }
    factories.make_thread(factories.make_agent(acme), "hers", user_id="ann")
    for _ in range(erasures.A_DAY):
        graves.make_erasure(ann, actor=greedy["erasures of a day"][0].actor)
    cast = {
        "greedy": {name: key for name, (_, key) in greedy.items()},
        "quiet": {name: factories.make_key(zeta)[1] for name in LIMITS},
        "ann": str(ann.id),
    }
    sys.stdout.write(json.dumps(cast))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with prepare_instance(tmp_path_factory.mktemp("neighbours") / "instance") as made:
        cast = json.loads(made.call(f"{PLACE}:print_cast"))
        with made.serve(**LOWERED) as server:
            yield Hub(server=server, **cast)


def introduce(client: Client) -> None:
    """Use a key once: a new one shares the limit of wrong keys."""
    until = time.monotonic() + PATIENCE
    while client.get("/stats").status in {401, 429}:
        assert time.monotonic() < until


@pytest.mark.promise("P19", load="each limit of a key, and others served beside it")
@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_refuses_in_time(hub: Hub, name: str) -> None:
    limit, port = LIMITS[name], hub.server.port
    with Client(port, hub.quiet[name]) as quiet, Client(port, hub.greedy[name]) as loud:
        for client in (quiet, loud):
            introduce(client)
        refused = limit.beyond(loud, hub.ann)
        assert quiet.append("t-1", "x").status == 201
    assert (refused.status, refused.body["code"]) == (limit.status, limit.code)
    assert refused.seconds < TOLD_SECONDS + SLACK_SECONDS
    assert ("retry-after" in refused.headers) == limit.passes
    assert not limit.passes or int(refused.headers["retry-after"]) > 0


# Quiet clients beside flooding ones


def flood(port: int, key: str, per_second: float) -> None:
    """Write at this rate until told to stop; print the outcome. Runs beside."""
    statuses: Counter[int] = Counter()
    refused = [0.0]
    over, stop = Event(), Event()

    def write() -> None:
        with Client(port, key) as client:
            while not stop.is_set():
                answer = client.append("t-1", "x")
                statuses[answer.status] += 1
                if answer.status == 429:
                    refused.append(answer.seconds)
                    over.set()
                stop.wait(FLOODERS / per_second - answer.seconds)

    threads = [Thread(target=write) for _ in range(FLOODERS)]
    for thread in threads:
        thread.start()
    over.wait(PATIENCE)
    sys.stdout.write("over\n")
    sys.stdout.flush()
    sys.stdin.readline()
    stop.set()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({"statuses": statuses, "slowest": max(refused)}))


def print_keys() -> None:
    keys = [factories.make_key(factories.make_project(it))[1] for it in ("a", "b")]
    sys.stdout.write(json.dumps(keys))


@pytest.mark.promise("P19", load="{per_second} writes a second where 40 are allowed")
@pytest.mark.parametrize(
    ("per_second", "share", "slowed"),
    [pytest.param(200, 0.99, 3, id="steady"), pytest.param(10**6, 0.5, 20, id="all")],
)
def test_quiet_tenant_stays_fast(
    instance: Instance, per_second: int, share: float, slowed: float
) -> None:
    """Its p99 beside 200 writes a second, its median beside as many as there can be."""
    loud, quiet = json.loads(instance.call(f"{PLACE}:print_keys"))
    ratios: list[float] = []
    with instance.serve(**SLOW) as server, Client(server.port, quiet) as client:
        while not ratios or min(ratios) >= slowed:
            alone = time_writes(client)
            flooded = instance.start(f"{PLACE}:flood", server.port, loud, per_second)
            with flooded as flooding:
                assert flooding.stdout is not None
                assert flooding.stdout.readline() == "over\n"
                loaded = time_writes(client)
                printed, _ = flooding.communicate("stop\n", timeout=PATIENCE)
            told = json.loads(printed)
            assert told["statuses"].keys() == {"201", "429"}
            assert told["statuses"]["429"] > told["statuses"]["201"]
            assert told["slowest"] < TOLD_SECONDS + SLACK_SECONDS
            ratios.append(percentile(loaded, share) / percentile(alone, share))
            assert len(ratios) < ROUNDS or min(ratios) < slowed, ratios


def time_writes(client: Client) -> list[float]:
    """Return the seconds of each write of a steady few, none of which is refused."""
    answers = []
    for _ in range(WRITES):
        answers.append(client.append("t-1", "x"))
        time.sleep(max(0.0, 1 / PER_SECOND - answers[-1].seconds))
    assert {answer.status for answer in answers} == {201}
    return [answer.seconds for answer in answers]
