"""The ledger: signed lines in one chain, whatever happens while one is written."""

from __future__ import annotations

import errno
import json
import os
import random
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from memoryhub.errors import LedgerBrokenError, LedgerUnwritableError
from memoryhub.models.keys import KeyMeta, NewestLine
from memoryhub.models.server.clock import clock
from memoryhub.vault.proof import chained, ledger, signing
from memoryhub.vault.proof.chained import ChainPosition, Link
from memoryhub.vault.proof.ledger import LedgerKind, LedgerLine
from tests.harness.instances import Instance
from tests.promises.tampering.damages import flipped

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 21, 12, 30, 0, 123456, tzinfo=UTC)
PROJECT, SUBJECT = UUID(int=1), UUID(int=2)
WRITERS, LINES = 2, 200


def add(kind: str = LedgerKind.INTENT, erasure: UUID | None = None) -> LedgerLine:
    return ledger.append(
        kind=kind,
        erasure=erasure or uuid4(),
        project=PROJECT,
        subject=SUBJECT,
        subject_ref=b"r" * 32,
        scope="record",
        reason="test",
        ticket="LEGAL-42",
        targets=[str(UUID(int=3)), 7],
        receipt_sha256=None if kind == LedgerKind.INTENT else b"d" * 32,
        at=AT,
    )


def test_line_is_read_as_it_was_written() -> None:
    written = [add(), add(LedgerKind.DONE), add(LedgerKind.REPLAYED)]
    assert list(ledger.iter_lines()) == written
    assert list(ledger.iter_lines(after=2)) == written[2:]
    assert ledger.get_newest() == ledger.check() == written[-1]
    assert [line.n for line in written] == [1, 2, 3]
    first = written[0]
    assert (first.at, first.subject_ref, first.receipt_sha256) == (AT, b"r" * 32, None)
    assert first.targets == (str(UUID(int=3)), 7)


def test_ledger_without_a_file_is_empty() -> None:
    assert ledger.get_newest() is None
    assert ledger.check() is None
    assert list(ledger.iter_lines()) == []


def test_line_holds_no_more_than_the_specified_members() -> None:
    add(LedgerKind.DONE)
    (text,) = ledger.path().read_text().splitlines()
    assert set(json.loads(text)) == {
        *("n", "at", "kind", "erasure", "project", "subject", "subject_ref", "scope"),
        *(
            "reason",
            "ticket",
            "targets",
            "receipt_sha256",
            "prev",
            "hash",
            "key_id",
            "sig",
        ),
    }


def test_ledger_is_readable_by_its_owner_only() -> None:
    add()
    for path in settings.LEDGER.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(settings.LEDGER.stat().st_mode) == 0o700


def test_flipped_bit_in_the_ledger_is_found() -> None:
    for _ in range(3):
        add()
    path, keys = ledger.path(), signing.list_public_keys()
    good = path.read_bytes()
    assert ledger.check(keys=keys) is not None
    chance = random.Random(7)  # a seed repeats it
    ends = [place for place, byte in enumerate(good) if byte == 10]
    for _ in range(600):
        changed = flipped(good, chance)
        path.write_bytes(changed)
        place = next(i for i in range(len(good)) if good[i] != changed[i])
        if place == ends[-1]:
            # Without its end the last line is one that was never finished.
            assert [line.n for line in ledger.iter_lines()] == [1, 2]
            continue
        with pytest.raises(LedgerBrokenError) as broken:
            ledger.check(keys=keys)
        assert broken.value.detail["n"] == sum(end < place for end in ends) + 1


def read_lines() -> list[bytes]:
    return ledger.path().read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("order", "wrong"),
    [
        ((0, 2), 2),
        ((1, 2), 1),
        ((0, 0, 1, 2), 2),
        ((1, 0, 2), 1),
        ((0, 2, 1), 2),
    ],
)
def test_lines_dropped_repeated_or_swapped_are_found(
    order: tuple[int, ...], wrong: int
) -> None:
    for _ in range(3):
        add()
    whole = read_lines()
    ledger.path().write_bytes(b"".join(whole[place] for place in order))
    with pytest.raises(LedgerBrokenError) as broken:
        ledger.check()
    assert broken.value.detail["n"] == wrong


def test_line_signed_by_a_stranger_is_found() -> None:
    """The line is chained correctly, but signed by a foreign key."""
    add()
    stranger = replace(signing.get_signer(), _key=Ed25519PrivateKey.generate())
    says = dict(next(chained.iter_links(ledger.path())).says)

    def stay_behind(last: Link | None, end: int) -> tuple[ChainPosition, int]:
        assert last
        return ChainPosition(n=last.n, hash=last.hash), end

    chained.append(ledger.path(), says, signer=stranger, place=stay_behind)
    assert len(list(ledger.iter_lines())) == 2
    with pytest.raises(LedgerBrokenError) as broken:
        ledger.check()
    assert broken.value.detail["n"] == 2


def test_ledger_of_another_instance_is_refused() -> None:
    add()
    assert ledger.check()
    KeyMeta.objects.using("keys").update(instance=uuid4())
    with pytest.raises(LedgerBrokenError):
        ledger.check()


def test_ledger_verifies_after_key_rotation() -> None:
    add()
    signing.rotate(at=clock.now())
    newest = add()
    assert ledger.check() == newest


@contextmanager
def forgetting_notes() -> Iterator[None]:
    """Take back the notes, as when a process dies before the keys database has them."""
    rows = NewestLine.objects.using("keys")
    stored = list(rows.all())
    yield
    rows.all().delete()
    rows.bulk_create(stored)


@pytest.mark.parametrize("left", [1, 40, -2, -1])
def test_unfinished_line_goes_with_the_next(left: int) -> None:
    """Nobody was told of a line that a crash left unfinished."""
    first = add()
    with forgetting_notes():
        lost = add()
    path = ledger.path()
    one, two = read_lines()
    path.write_bytes(one + two[:left])
    assert ledger.get_newest() == ledger.check() == first
    again = add()
    assert again.n == lost.n
    assert list(ledger.iter_lines()) == [first, again]
    assert ledger.check() == again


def test_unfinished_first_line_goes_too() -> None:
    with forgetting_notes():
        add()
    (one,) = read_lines()
    ledger.path().write_bytes(one[:-1])
    assert ledger.get_newest() is None
    assert ledger.check() is None
    assert add().n == 1
    assert ledger.check() is not None


def test_finished_line_that_is_damaged_is_no_unfinished_one() -> None:
    add()
    add()
    one, two = read_lines()
    ledger.path().write_bytes(one + b"\0" * (len(two) - 1) + b"\n")
    for look in (ledger.get_newest, ledger.check, add):
        with pytest.raises(LedgerBrokenError):
            look()
    assert len(read_lines()) == 2


def test_full_disk_adds_no_ledger_line(monkeypatch: pytest.MonkeyPatch) -> None:
    first = add()
    before = ledger.path().read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LedgerUnwritableError):
            add()
    assert ledger.path().read_bytes() == before
    assert list(ledger.iter_lines()) == [first]
    assert add().n == 2


def test_long_line_is_found_from_the_end() -> None:
    """The line of a person with many threads is longer than one read."""
    targets = [os.urandom(32).hex() for _ in range(100_000)]
    common: dict[str, Any] = {
        "kind": "intent",
        "erasure": uuid4(),
        "project": PROJECT,
        "subject": SUBJECT,
        "subject_ref": None,
        "scope": "before",
        "reason": "test",
        "at": AT,
    }
    ledger.append(**common, targets=[])
    long = ledger.append(**common, targets=targets)
    assert ledger.get_newest() == long
    assert ledger.append(**common, targets=[]).n == 3
    assert ledger.check() is not None


@pytest.fixture
def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "LEDGER_MIRROR", tmp_path / "mirror")
    return tmp_path / "mirror" / "erasures.jsonl"


def test_mirror_equals_the_ledger(mirrored: Path) -> None:
    for _ in range(3):
        add()
        assert mirrored.read_bytes() == ledger.path().read_bytes()
    assert stat.S_IMODE(mirrored.stat().st_mode) == 0o600
    assert ledger.mirror()


def test_absent_mirror_is_brought_up_to_date(mirrored: Path) -> None:
    add()
    mirrored.unlink()
    mirrored.mkdir()
    newest = add()
    assert ledger.get_newest() == newest
    assert not ledger.mirror()
    mirrored.rmdir()
    assert ledger.mirror()
    assert mirrored.read_bytes() == ledger.path().read_bytes()


def test_recovery_takes_the_longer_of_ledger_and_mirror(mirrored: Path) -> None:
    add()
    kept = ledger.path().read_bytes()
    newest = add()
    ledger.path().write_bytes(kept)
    assert ledger.recover()
    assert ledger.check() == newest
    ledger.path().unlink()
    assert ledger.recover()
    assert ledger.check() == newest
    mirrored.write_bytes(kept)
    assert not ledger.recover()
    assert ledger.check() == newest


def test_mirror_of_another_history_is_not_used_for_recovery(mirrored: Path) -> None:
    with forgetting_notes():
        shorter = add()
    assert ledger.mirror()
    other = mirrored.read_bytes()
    ledger.path().unlink()
    add()
    add()
    own = ledger.path().read_bytes()
    assert not own.startswith(other)
    assert shorter.n == 1
    mirrored.write_bytes(other)
    assert not ledger.mirror()
    # And the other way round.
    ledger.path().write_bytes(other)
    mirrored.write_bytes(own)
    with pytest.raises(LedgerBrokenError):
        ledger.recover()


def append_many(count: int) -> None:
    """Append lines, in a process of its own."""
    for _ in range(count):
        add()


def check_all() -> None:
    """Check both files, in the instance."""
    newest = ledger.check()
    assert newest is not None
    erasures = {line.erasure for line in ledger.iter_lines()}
    sys.stdout.write(f"{newest.n} {len(erasures)}")


@pytest.mark.timeout(300)
def test_two_processes_append_to_one_chain(instance: Instance) -> None:
    here = "tests.vault.proof.test_ledger"
    with (
        instance.start(f"{here}:append_many", LINES) as one,
        instance.start(f"{here}:append_many", LINES) as other,
    ):
        for process in (one, other):
            _, errors = process.communicate(timeout=200)
            assert process.returncode == 0, errors
    total = str(WRITERS * LINES)
    assert instance.call(f"{here}:check_all").split() == [total, total]
