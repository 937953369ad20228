"""P4 for all changes that databases and ledger folder admit: each one is reported."""

from __future__ import annotations

import io
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.proof import anchors, receipts, signing
from tests.promises.tampering.manipulations import (
    ALL,
    MANIPULATIONS,
    World,
    add_key,
    cut_audit,
    cut_thread,
    make_world,
    restore_world,
    stranger,
)

pytestmark = [
    pytest.mark.promise("P4"),
    pytest.mark.django_db,
    pytest.mark.no_replay,
    pytest.mark.timeout(900),
]

ROUNDS = pytest.mark.parametrize(
    "rounds", [6, pytest.param(200, marks=pytest.mark.nightly)], ids=str
)


@pytest.fixture
def world(agent: Agent) -> World:
    made = make_world(agent)
    assert said("verify", "--all") == ""
    return made


def said(*words: str) -> str:
    """Return why a command ended with 1; "" when it did not."""
    out = io.StringIO()
    with suppress(SystemExit):
        try:
            call_command(*words, stdout=out, stderr=out)
        except CommandError as refused:
            return str(refused)
        return ""
    return out.getvalue()


def drop_last_line() -> None:
    path = anchors.path()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))


def test_cut_tail_with_its_anchor_and_the_last_line_is_named(world: World) -> None:
    first = random.Random(1)  # a seed repeats it
    with restore_world(world):
        cut_thread(world_before(world), first)
        # Its totals as well, so that nothing in the database tells.
        assert said("rebuild") == ""
        drop_last_line()
        assert said("verify", "--all").startswith("line 4 of the anchors")
    assert said("verify", "--all") == ""


def test_cut_audit_log_and_the_last_line_are_named(world: World) -> None:
    with restore_world(world):
        cut_audit(world_before(world), random.Random(1))
        cut = world.stages[-2].audit[0] + 1
        assert f"Entry {cut} is not what was anchored" in said("audit", "verify")
        drop_last_line()
        assert said("verify", "--all").startswith("line 4 of the anchors")
        assert said("audit", "verify").startswith("The anchors: ")
    assert said("audit", "verify") == ""


def test_missing_anchor_file_is_reported(world: World) -> None:
    with restore_world(world):
        anchors.path().unlink()
        assert said("verify", "--all").startswith("line 1 of the anchors: ")
        assert said("audit", "verify").startswith("The anchors: ")


def world_before(world: World) -> World:
    """Return a world with one earlier stage: only that one can be put back."""
    return World(stages=world.stages[-2:])


@pytest.mark.parametrize("vouched", ["itself", "ours"])
def test_own_key_in_the_list_makes_no_receipt_good(
    world: World, tmp_path: Path, vouched: str
) -> None:
    own, ours, file = stranger(), signing.get_signer(), tmp_path / "receipt.json"
    shape = {"v": receipts.RECEIPT, "erasure": "none", "status": "verified"}
    for root in (own.root, ours.root):
        file.write_text(receipts.sign_statement(shape, replace(own, root=root)))
        with restore_world(world):
            add_key(own, by=ours.key_id if vouched == "ours" else None)
            assert said("receipt", "verify", str(file)).startswith("unknown_key")
            named = said("verify", "--all")
            assert named.startswith("the public keys: ")
            assert own.key_id in named


@pytest.mark.promise("P4", load="each manipulation by a holder without keys")
@pytest.mark.parametrize(("target", "name"), ALL, ids=[*map(" ".join, ALL)])
def test_manipulation_is_reported(world: World, target: str, name: str) -> None:
    chance = random.Random(name)  # a seed repeats it
    with restore_world(world):
        MANIPULATIONS[target][name](world, chance)
        assert said("verify", "--all")
    assert said("verify", "--all") == ""


@pytest.mark.promise("P4", load="{rounds} × two manipulations at once")
@ROUNDS
def test_two_manipulations_at_once_are_reported(world: World, rounds: int) -> None:
    missed, done = [], 0
    for number in range(rounds):
        chance = random.Random(f"{rounds} {number}")  # a seed repeats it
        targets = chance.sample(sorted(MANIPULATIONS), 2)
        two = [(each, chance.choice(sorted(MANIPULATIONS[each]))) for each in targets]
        with suppress(DatabaseError), restore_world(world):
            for target, name in two:
                MANIPULATIONS[target][name](world, chance)
            done += 1
            if not said("verify", "--all"):
                missed.append((number, two))
    assert missed == []
    assert done
    assert said("verify", "--all") == ""
