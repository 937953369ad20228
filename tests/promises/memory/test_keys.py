"""P7 and P8: each key is one register, whichever process is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.harness.instances import UNLIMITED, Instance, Server, prepare_instance
from tests.promises.journal.clients import Client, at_once
from tests.promises.journal.linearizability import Operation, order
from tests.promises.journal.registers import Histories, play

pytestmark = pytest.mark.timeout(7_200)

#: The two processes hear of each other by the database alone.
ALONE = {**UNLIMITED, "REDIS_URL": ""}
SEED = 20_261_121
CLIENTS, EACH = 12, 30


class Pair:
    """Two servers of one instance; one may be killed, and is started again."""

    def __init__(self, instance: Instance, stack: ExitStack) -> None:
        self.instance, self.stack = instance, stack
        self.key = instance.call("tests.promises.journal.appender:make_key").strip()
        self.steady = self.start()
        self.doomed = self.start()

    def start(self) -> Server:
        return self.stack.enter_context(self.instance.serve(**ALONE))

    @property
    def ports(self) -> list[int]:
        if self.doomed.process.poll() is not None:
            self.doomed = self.start()
        return [self.steady.port, self.doomed.port]

    def client(self) -> Client:
        return self.stack.enter_context(Client(self.steady.port, self.key))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Start the pair that all tests here share; each test has threads of its own."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("pair")
        made = stack.enter_context(prepare_instance(folder / "instance"))
        yield Pair(made, stack)
        made.managed("verify", "--all")


def list_unexplained_keys(found: Histories) -> list[tuple[str, str]]:
    """Return keys whose history has no order."""
    return [place for place, history in found.items() if order(history) is None]


def lost(history: list[Operation]) -> int:
    return sum(each.open for each in history)


@pytest.mark.promise(
    "P8", load="{histories} histories, 12 clients × 30 operations, half with a kill"
)
@pytest.mark.parametrize(
    ("histories", "at_a_time"),
    [
        (6, 3),
        pytest.param(200, 5, marks=pytest.mark.nightly),
        pytest.param(1_000, 20, marks=pytest.mark.nightly),
    ],
)
def test_key_operations_are_linearizable(
    pair: Pair, histories: int, at_a_time: int
) -> None:
    """A history is a thread's, over 2 processes; one kill is in all of its round."""
    kills = opened = operations = 0
    for number in range(histories // at_a_time):
        ports = pair.ports
        found = play(
            ports,
            pair.key,
            threads=[f"r-{histories}-{number}-{each}" for each in range(at_a_time)],
            seed=f"{SEED}/{number}",
            clients=CLIENTS,
            each=EACH,
            kill=pair.doomed.kill if number % 2 else None,
        )
        assert list_unexplained_keys(found) == []
        kills += number % 2
        opened += sum(map(lost, found.values()))
        operations += sum(map(len, found.values()))
    assert operations == histories * CLIENTS * EACH
    # Each client of a server that dies loses what it was about.
    assert opened <= kills * CLIENTS * 2


@pytest.mark.promise("P8", load="2 processes, 12 clients × {keys} keys to create")
@pytest.mark.parametrize("keys", [20, pytest.param(500, marks=pytest.mark.nightly)])
def test_create_only_set_has_one_winner(pair: Pair, keys: int) -> None:
    def create(client: Client, number: int) -> list[str]:
        """Create keys and return those acknowledged as made."""
        won = []
        for each in range(keys):
            path = f"/threads/created/keys/k-{each}"
            answer = client.send("PUT", path, {"value": number}, If_None_Match="*")
            assert (answer.status, answer.body.get("code")) in {
                (201, None),
                (409, "key_exists"),
            }
            won += [f"k-{each}"] if answer.status == 201 else []
        return won

    ports = pair.ports * (CLIENTS // 2)
    won = at_once(create, clients=CLIENTS, ports=ports, key=pair.key)
    winners = {name: number for number, names in enumerate(won) for name in names}
    client = pair.client()
    for name, number in winners.items():
        found = client.get(f"/threads/created/keys/{name}").body
        assert found["value"] == number
    assert set(Counter(name for names in won for name in names).values()) == {1}
    assert len(winners) == keys


@pytest.mark.promise("P7", load="2 processes, {clients} clients × {each} increments")
@pytest.mark.parametrize(
    ("clients", "each"), [(8, 20), pytest.param(8, 500, marks=pytest.mark.nightly)]
)
def test_compare_and_set_counter_loses_no_increment(
    pair: Pair, clients: int, each: int
) -> None:
    """The sum is the number of successes, whichever process each client asks."""
    path = f"/threads/counted-{each}/keys/counter"

    def increment(client: Client, number: int) -> int:
        successes = 0
        for _ in range(each):
            seen = client.get(path).body
            condition = {"If_Match": str(seen["seq"])}
            answer = client.send("PUT", path, {"value": seen["value"] + 1}, **condition)
            assert answer.status in (200, 409), answer
            assert answer.status == 200 or answer.body["code"] == "stale"
            successes += answer.status == 200
        return successes

    ports = pair.ports * (clients // 2)
    assert pair.client().put(path, {"value": 0}).status == 201
    successes = sum(at_once(increment, clients=clients, ports=ports, key=pair.key))
    assert pair.client().get(path).body["value"] == successes


@pytest.mark.promise("P7", load="2 processes, {clients} clients × {each} notes")
@pytest.mark.parametrize(
    ("clients", "each"),
    [(50, 1), pytest.param(8, 500, marks=pytest.mark.nightly)],
)
def test_concurrent_notes_are_all_kept(pair: Pair, clients: int, each: int) -> None:
    thread = f"/threads/notes-{each}"

    def add(client: Client, number: int) -> list[int]:
        answers = [
            client.post(f"{thread}/notes", {"text": f"{number}/{n}"})
            for n in range(each)
        ]
        assert {answer.status for answer in answers} == {201}
        return [answer.body["seq"] for answer in answers]

    config = {"config": {"max_notes": 10_000}}
    assert pair.client().put(thread, config).status == 201
    ports = pair.ports * (clients // 2)
    told = at_once(add, clients=clients, ports=ports, key=pair.key)
    # A line of its own: the server closes one that is idle.
    stored = notes(pair.client(), thread)
    assert len(stored) == clients * each
    for number, seqs in enumerate(told):
        assert [stored[seq] for seq in seqs] == [f"{number}/{n}" for n in range(each)]
        # In the order in which it sent them.
        assert seqs == sorted(seqs)


def notes(client: Client, thread: str) -> dict[int, str]:
    """Return all notes by seq."""
    found: dict[int, str] = {}
    path = f"{thread}/notes?limit=200"
    after = ""
    while True:
        batch = client.get(path + after).body
        found |= {item["seq"]: item["text"] for item in batch["items"]}
        if batch["next"] is None:
            return found
        after = f"&after={batch['next']}"


@pytest.mark.promise("P7", load="2 writers of different task fields × {each}")
@pytest.mark.parametrize("each", [20, pytest.param(500, marks=pytest.mark.nightly)])
def test_progress_of_two_writers_is_not_lost(pair: Pair, each: int) -> None:
    path = f"/threads/progress-{each}/task"

    def update(client: Client, number: int) -> None:
        """Move the step or the progress, over and over."""
        for n in range(1, each + 1):
            said = {"current_step": n} if number else {"progress_percent": n / 10}
            answer = client.send("PATCH", path, said)
            assert answer.status == 200, answer
            for name, value in said.items():
                assert answer.body[name] == value

    assert pair.client().put(path, {"status": "running"}).status in (200, 201)
    at_once(update, clients=2, ports=pair.ports, key=pair.key)
    task = pair.client().get(path).body
    assert (task["current_step"], task["progress_percent"]) == (each, each / 10)
    assert task["status"] == "running"


@pytest.mark.promise("P11", load="2 processes, no notice, {times} keys")
@pytest.mark.parametrize(
    "times", [200, pytest.param(10_000, marks=pytest.mark.nightly)]
)
def test_second_process_reads_its_writes(pair: Pair, times: int) -> None:
    ports, path = pair.ports, f"/threads/both-{times}/keys/k"
    with Client(ports[0], pair.key) as one, Client(ports[1], pair.key) as other:
        for n in range(times):
            writer, reader = (one, other) if n % 2 else (other, one)
            assert writer.put(path, {"value": n}).status in (200, 201)
            assert reader.get(path).body["value"] == n
