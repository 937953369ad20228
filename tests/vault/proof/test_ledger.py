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
from memoryhub.vault.proof.ledger import LedgerKind, Line
from tests.harness.instances import Instance
from tests.promises.tampering.damages import flipped

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 21, 12, 30, 0, 123456, tzinfo=UTC)
PROJECT, SUBJECT = UUID(int=1), UUID(int=2)
WRITERS, LINES = 2, 200


def add(kind: str = LedgerKind.INTENT, erasure: UUID | None = None) -> Line:
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


def test_a_line_is_read_as_it_was_written() -> None:
    written = [add(), add(LedgerKind.DONE), add(LedgerKind.REPLAYED)]
    assert list(ledger.lines()) == written
    assert list(ledger.lines(after=2)) == written[2:]
    assert ledger.head() == ledger.check() == written[-1]
    assert [line.n for line in written] == [1, 2, 3]
    first = written[0]
    assert (first.at, first.subject_ref, first.receipt_sha256) == (AT, b"r" * 32, None)
    assert first.targets == (str(UUID(int=3)), 7)


def test_without_a_file_there_is_nothing() -> None:
    assert ledger.head() is None
    assert ledger.check() is None
    assert list(ledger.lines()) == []


def test_a_line_holds_no_more_than_the_specified_members() -> None:
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


def test_nobody_else_can_read_it() -> None:
    add()
    for path in settings.LEDGER.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(settings.LEDGER.stat().st_mode) == 0o700


def test_any_flipped_bit_is_found() -> None:
    for _ in range(3):
        add()
    path, keys = ledger.path(), signing.public_keys()
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
            assert [line.n for line in ledger.lines()] == [1, 2]
            continue
        with pytest.raises(LedgerBrokenError) as broken:
            ledger.check(keys=keys)
        assert broken.value.detail["n"] == sum(end < place for end in ends) + 1


def lines() -> list[bytes]:
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
    whole = lines()
    ledger.path().write_bytes(b"".join(whole[place] for place in order))
    with pytest.raises(LedgerBrokenError) as broken:
        ledger.check()
    assert broken.value.detail["n"] == wrong


def test_a_line_signed_by_a_stranger_is_found() -> None:
    """Chained as it must be, but by a key that was never ours."""
    add()
    stranger = replace(signing.current(), _key=Ed25519PrivateKey.generate())
    says = dict(next(chained.iter_links(ledger.path())).says)

    def behind(last: Link | None, end: int) -> tuple[ChainPosition, int]:
        assert last
        return ChainPosition(n=last.n, hash=last.hash), end

    chained.append(ledger.path(), says, signer=stranger, place=behind)
    assert len(list(ledger.lines())) == 2
    with pytest.raises(LedgerBrokenError) as broken:
        ledger.check()
    assert broken.value.detail["n"] == 2


def test_another_instances_ledger_is_none_of_ours() -> None:
    add()
    assert ledger.check()
    KeyMeta.objects.using("keys").update(instance=uuid4())
    with pytest.raises(LedgerBrokenError):
        ledger.check()


def test_rotated_keys_keep_it_whole() -> None:
    add()
    signing.rotate(at=clock.now())
    newest = add()
    assert ledger.check() == newest


@contextmanager
def unnoted() -> Iterator[None]:
    """As when a process dies before the keys database knows of what it wrote."""
    rows = NewestLine.objects.using("keys")
    stored = list(rows.all())
    yield
    rows.all().delete()
    rows.bulk_create(stored)


@pytest.mark.parametrize("left", [1, 40, -2, -1])
def test_an_unfinished_line_goes_with_the_next(left: int) -> None:
    """What a crash leaves of a line was told to nobody."""
    first = add()
    with unnoted():
        lost = add()
    path = ledger.path()
    one, two = lines()
    path.write_bytes(one + two[:left])
    assert ledger.head() == ledger.check() == first
    again = add()
    assert again.n == lost.n
    assert list(ledger.lines()) == [first, again]
    assert ledger.check() == again


def test_an_unfinished_first_line_goes_too() -> None:
    with unnoted():
        add()
    (one,) = lines()
    ledger.path().write_bytes(one[:-1])
    assert ledger.head() is None
    assert ledger.check() is None
    assert add().n == 1
    assert ledger.check() is not None


def test_a_finished_line_that_is_damaged_is_no_unfinished_one() -> None:
    add()
    add()
    one, two = lines()
    ledger.path().write_bytes(one + b"\0" * (len(two) - 1) + b"\n")
    for look in (ledger.head, ledger.check, add):
        with pytest.raises(LedgerBrokenError):
            look()
    assert len(lines()) == 2


def test_a_full_disk_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = add()
    before = ledger.path().read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LedgerUnwritableError):
            add()
    assert ledger.path().read_bytes() == before
    assert list(ledger.lines()) == [first]
    assert add().n == 2


def test_a_long_line_is_found_from_the_end() -> None:
    """Longer than what is read at once: the threads of a person who has very many."""
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
    assert ledger.head() == long
    assert ledger.append(**common, targets=[]).n == 3
    assert ledger.check() is not None


@pytest.fixture
def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "LEDGER_MIRROR", tmp_path / "mirror")
    return tmp_path / "mirror" / "erasures.jsonl"


def test_the_mirror_is_the_same(mirrored: Path) -> None:
    for _ in range(3):
        add()
        assert mirrored.read_bytes() == ledger.path().read_bytes()
    assert stat.S_IMODE(mirrored.stat().st_mode) == 0o600
    assert ledger.mirror()


def test_a_mirror_that_was_away_is_brought_up(mirrored: Path) -> None:
    add()
    mirrored.unlink()
    mirrored.mkdir()
    newest = add()
    assert ledger.head() == newest
    assert not ledger.mirror()
    mirrored.rmdir()
    assert ledger.mirror()
    assert mirrored.read_bytes() == ledger.path().read_bytes()


def test_the_longer_of_the_two_counts(mirrored: Path) -> None:
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


def test_a_mirror_that_says_something_else_is_not_taken(mirrored: Path) -> None:
    with unnoted():
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
    """Runs in a process of its own."""
    for _ in range(count):
        add()


def check_all() -> None:
    """Runs in the instance."""
    newest = ledger.check()
    assert newest is not None
    erasures = {line.erasure for line in ledger.lines()}
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
