"""Forgetting: final, exact, and true to its receipt whatever happens meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget.erasures import A_DAY
from memoryhub.services.people import subjects
from tests.cast import bundled
from tests.cast.factories import append, get_thread, make_page, make_thread
from tests.cast.forgetting import confirm, finish, plan
from tests.harness.instances import UNLIMITED, Instance, prepare_instance
from tests.promises.journal.clients import Client
from tests.promises.journal.late_writers import Race, await_complete

pytestmark = pytest.mark.slow
NIGHTLY = pytest.mark.nightly

NIGHT_SECONDS = 1_800
RECOUNTS = "tests.promises.journal.recounts"


@pytest.mark.promise(
    "P13", load="scope {scope}, {memory} events, killed around one commit in {every}"
)
@pytest.mark.parametrize(
    ("scope", "every", "memory"),
    [
        pytest.param("subject", 17, "some", id="subject"),
        pytest.param("thread", 23, "some", id="thread"),
        pytest.param("subject", 23, "all", id="subject-types"),
        pytest.param("subject", 1, "some", id="subject-all", marks=NIGHTLY),
        pytest.param("thread", 1, "some", id="thread-all", marks=NIGHTLY),
        pytest.param("record", 1, "some", id="record-all", marks=NIGHTLY),
        pytest.param("before", 1, "some", id="before-all", marks=NIGHTLY),
        pytest.param("subject", 1, "all", id="subject-types-all", marks=NIGHTLY),
    ],
)
@pytest.mark.timeout(NIGHT_SECONDS)
def test_erasure_killed_at_every_step_resumes(
    instance: Instance, scope: str, every: int, memory: str
) -> None:
    """No receipt comes too early, one comes in the end, and the twin is untouched."""
    with instance.start(
        "tests.promises.forget.erasing:kill_everywhere", scope, every, memory
    ) as process:
        out, errors = process.communicate(timeout=NIGHT_SECONDS)
    assert process.returncode == 0, errors
    # The command tells how far it is before that.
    found = json.loads(out.splitlines()[-1])
    told, ends = found["told"], found["ends"]
    whole = told.pop("whole")
    assert whole["state"] == "complete"
    assert len(whole["twin"]) == 6
    assert len(told) >= 2
    # The first erasure of an instance makes its signing key, so it commits more often.
    killed = [slug for slug in told if ends[slug] == -signal.SIGKILL]
    assert len(killed) >= len(told) - 2
    for slug, one in told.items():
        assert ends[f"{slug}-again"] == 0, (slug, errors)
        assert (one["state"], one["receipts"], one["left"]) == ("complete", 1, 0), slug
        assert one["erased"] == one["fenced"] == whole["fenced"], slug
        assert one["ledger"] == ["done", "intent"], slug
        assert one["twin"] == whole["twin"], slug
        assert one["twin_counts"] == whole["twin_counts"], slug
    assert "every chain is whole" in instance.managed("verify", "--all")


@pytest.mark.promise("P14", load="{rounds} races × {writers} writers, a kill half-way")
@pytest.mark.parametrize(
    ("rounds", "writers"),
    [
        # Enough to see a fault.
        pytest.param(4, 8, id="few"),
        pytest.param(15, 8, id="some", marks=pytest.mark.nightly),
        pytest.param(200, 8, id="many", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(NIGHT_SECONDS)
def test_forget_is_final(instance: Instance, rounds: int, writers: int) -> None:
    """After the erasure no process takes a write, and no write comes back."""
    told = instance.call("tests.promises.forget.erasing:make_keys", "acme", str(rounds))
    writing, *forgetting = json.loads(told)
    instance.call(f"{RECOUNTS}:install")
    races: dict[str, Race] = {}
    half = rounds // 2
    for part in (range(half), range(half, rounds)):
        with instance.serve(**UNLIMITED) as server, instance.serve(**UNLIMITED) as two:
            for n in part:
                race = Race(
                    ports=(server.port, two.port),
                    keys=(writing, forgetting[n // A_DAY]),
                    name=f"ann-{n}",
                    writers=writers,
                    restrict=bool(n % 2),
                )
                races[race.run()] = race
                assert race.late == []
            if part.stop < rounds:
                # Whatever is half-way goes on when a server is back.
                server.kill()
                two.kill()
            else:
                with Client(server.port, forgetting[0]) as client:
                    await_complete(client, races)
    left = json.loads(instance.call("tests.promises.forget.erasing:show_left", "acme"))
    assert len(left) == rounds
    for row in left.values():
        assert (row["state"], row["left"], row["threads"]) == ("erased", 0, ["erased"])
    assert_recounted(instance)
    with instance.serve() as server, Client(server.port, writing) as client:
        for race in races.values():
            twin = client.get(f"/threads/twin-of-{race.name}").body
            assert twin["slots"] == race.twin > 0
            again = client.put("/threads/back", {"user_id": race.name})
            assert (again.status, again.body["code"]) == (410, "subject_erased")
    verified = instance.awaited("verify", "--all", seconds=NIGHT_SECONDS)
    assert "every chain is whole" in verified


def assert_recounted(instance: Instance) -> None:
    """Assert that the receipts' counts, place by place, are all that is gone."""
    found = json.loads(instance.call(f"{RECOUNTS}:show"))
    told = json.loads(
        instance.call("tests.promises.forget.erasing:show_receipts", "acme")
    )
    assert found.keys() == told.keys()
    for subject, erased in told.items():
        # In the other database, and what is no record of hers.
        assert erased.pop("subject_keys") == 1
        assert erased.pop("totals") > 0
        # Refusals are counted in memory and written late, on a busy machine after the
        # recount.
        found[subject].pop("refusal_counts", None)
        erased.pop("refusal_counts", None)
        assert found[subject] == erased


@contextmanager
def small_disk(place: Path, mib: int) -> Iterator[None]:
    """Mount a file system in memory of exactly that size."""
    place.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs"]
    if subprocess.run([*words, str(place)], check=False, stderr=-3).returncode:
        pytest.skip("only who may mount can make a disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.nightly  # It needs the right to mount.
@pytest.mark.promise("P18", load="a disk without a byte left, without a server")
def test_forget_begins_on_a_full_disk(sqlite: None, tmp_path: Path) -> None:
    """A forget on a full disk begins by the erasure's parts alone."""
    folder = tmp_path / "small"
    with (
        small_disk(folder, 32),
        prepare_instance(folder, MEMORYHUB_BALLAST_MIB="4") as instance,
    ):
        said = instance.call("tests.promises.journal.full_disk:forget", "acme")
    # What fails meanwhile is logged there, too.
    told = json.loads(said.splitlines()[-1])
    assert told == {
        "confirmed": "fenced",
        "ballast": False,
        "answer": "subject_erased",
        "early": False,
        "state": "complete",
        "receipts": 1,
        "keys": 0,
        "twin": True,
        "broken": 0,
    }


@pytest.mark.promise("P18", load="a disk without a byte left")
@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_full_disk_forget_completes(sqlite: None, tmp_path: Path) -> None:
    """Ballast is released, the subject is unreadable, the receipt waits for room."""
    folder = tmp_path / "small"
    with (
        small_disk(folder, 64),
        prepare_instance(folder, MEMORYHUB_BALLAST_MIB="8") as instance,
    ):
        keys = json.loads(
            instance.call("tests.promises.forget.erasing:make_keys", "acme")
        )
        with instance.serve(**UNLIMITED) as server:
            with Client(server.port, keys[0]) as client:
                for name in ("ann", "bob"):
                    client.put(f"/threads/{name}-1", {"user_id": name})
                    assert client.append(f"{name}-1", "seat 12A").status == 201
                subject = client.post("/subjects:resolve", {"user_id": "ann"}).body
            with Client(server.port, keys[1]) as client:
                told = on_a_full_disk(instance.data, client, subject["id"])
                while told["state"] != "complete":
                    told = client.get(f"/erasures/{told['id']}").body
            with Client(server.port, keys[0]) as client:
                assert client.get("/threads/ann-1").status == 410
                assert client.get("/threads/bob-1/slots/0").status == 200
        assert "every chain is whole" in instance.managed("verify", "--all")


def on_a_full_disk(data: Path, client: Client, subject: str) -> Any:
    """Plan with room, confirm without; return the erasure's state then."""
    body = {"scope": "subject", "reason": "test"}
    plan = client.post(f"/subjects/{subject}/erasures", body).body
    ballast = data / "ballast"
    while not ballast.exists():
        client.get("/erasures")
    filling = data.parent / "filling"
    with filling.open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
        with suppress(OSError):
            while True:
                file.write(bytes(1 << 9))
    answer = client.post(
        f"/erasures/{plan['id']}:confirm",
        {"plan_token": plan["plan_token"], "count": plan["count"]},
    )
    assert answer.status == 202, answer.body
    assert answer.body["state"] == "fenced"
    assert not ballast.exists()
    filling.unlink()
    return answer.body


@pytest.mark.promise("P15", load="{people} people with equal texts, every scope")
@pytest.mark.parametrize(
    "people",
    [pytest.param(12, id="some"), pytest.param(500, marks=pytest.mark.nightly)],
)
@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(900)
def test_forget_is_exact(agent: Agent, people: int) -> None:
    """Every other export stays the same to the byte, whatever is forgotten of one."""
    names = [f"user-{n}" for n in range(people)]
    live = names[:4]
    for name in names:
        if name in live:
            bundled.live_in_threads(agent, name, prefix=f"{name}-")
        else:
            make_thread(agent, f"{name}-t-1", user_id=name, labels={"tier": "gold"})
            append(agent, f"{name}-t-1", "hello", bundled.WORDS)
            make_page(agent, "fares", thread=f"{name}-t-1")
    before = exports(agent, names)
    for name, scope in zip(
        live, ("record", "before", "thread", "subject"), strict=True
    ):
        row = forgotten(agent, name, scope)
        assert (row.state, row.waiting_on) == ("complete", "")
        assert ErasureLine.from_row(row).count > 0
        others = [each for each in live if each != name]
        after = exports(agent, others)
        assert [each for each in others if after[each] != before[each]] == []
        if scope == "subject":
            break
        # What is left of her is what the next ones must leave alone.
        now = exports(agent, [name])
        assert now[name] != before[name]
        before |= now
    others = names[len(live) :]
    after = exports(agent, others)
    assert [each for each in others if after[each] != before[each]] == []


def forgotten(agent: Agent, name: str, scope: str) -> Erasure:
    subject = subjects.find_or_create(agent.project, name)
    thread = get_thread(agent, f"{name}-t-1")
    sealed = Event.objects.filter(thread=thread, payload__isnull=False)
    asked: dict[str, dict[str, Any]] = {
        "subject": {},
        "thread": {"thread": thread},
        "before": {"before": timezone.now()},
        "record": {"thread": thread, "seq": sealed.order_by("seq")[1].seq},
    }
    return finish(confirm(plan(subject, scope, **asked[scope])))


def exports(agent: Agent, names: list[str]) -> dict[str, dict[str, bytes]]:
    """Return everyone's exports without the time they were made."""
    found = {}
    for name in names:
        subject = subjects.find_or_create(agent.project, name)
        bundle = bundled.open_bundle(bundled.export(subject))
        found[name] = {
            each: bundle.read(each)
            for each in bundle.namelist()
            if each not in ("manifest.json", "README.md")
        }
    return found
