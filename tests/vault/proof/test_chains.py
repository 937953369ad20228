"""Ends of signed files: the keys database knows each, so that a cut is noticed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings
from django.db.models import Model

from memoryhub.errors import LedgerBrokenError
from memoryhub.models.keys import NewestLine
from memoryhub.models.server.clock import clock
from memoryhub.vault.keys import keyring, ring_file, rotation
from memoryhub.vault.keys.ring_file import Ring
from memoryhub.vault.keys.wrapping import KeyPurpose, wrap
from memoryhub.vault.proof import signing
from memoryhub.vault.proof.chained import Link
from memoryhub.vault.proof.chains import AHEAD, BEHIND, MIRROR, Chain

pytestmark = pytest.mark.django_db

CHAIN = Chain(file="erasures.jsonl", format="memoryhub.ledger/1")
AT = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def add(count: int = 1) -> Link:
    return [CHAIN.write({"at": AT.isoformat()}) for _ in range(count)][-1]


def read_lines() -> list[bytes]:
    return CHAIN.get_path().read_bytes().splitlines(keepends=True)


def leave(*left: bytes) -> None:
    CHAIN.get_path().write_bytes(b"".join(left))


def copies(model: type[Model]) -> list[Model]:
    return list(model._default_manager.using("keys").all())


def put_back(rows: list[Model]) -> None:
    for row in rows:
        row.save()


def get_defect() -> tuple[object, object]:
    """Return the line and the defect that both checks name; no append may go on."""
    found = []
    for look in (CHAIN.check, CHAIN.get_newest, add):
        with pytest.raises(LedgerBrokenError) as broken:
            look()
        assert broken.value.detail["file"] == "erasures.jsonl"
        found.append((broken.value.detail["n"], broken.value.detail.get("what")))
    assert len(set(found)) == 1, found
    return found[0]


@pytest.mark.parametrize("left", range(4))
def test_cut_file_is_reported_as_behind(left: int) -> None:
    add(4)
    leave(*read_lines()[:left])
    assert get_defect() == (left + 1, BEHIND)


def test_missing_file_is_reported_as_behind() -> None:
    add(2)
    CHAIN.get_path().unlink()
    assert get_defect() == (1, BEHIND)


def test_ledger_file_of_equal_length_is_refused_when_not_the_noted_one() -> None:
    """The file is signed by us, in one chain, and is not the one that was noted."""
    rows = copies(NewestLine)
    add(2)
    other = read_lines()
    NewestLine.objects.using("keys").all().delete()
    put_back(rows)
    CHAIN.get_path().unlink()
    CHAIN.write({"at": clock.now().isoformat()})
    add()
    leave(*other)
    assert get_defect() == (2, None)


def test_unnoted_line_counts_and_is_noted_with_the_next() -> None:
    add()
    before = copies(NewestLine)
    left = add()
    put_back(before)
    assert CHAIN.check() == CHAIN.get_newest() == left
    assert CHAIN.get_noted().n == 1
    assert add().n == 3
    assert CHAIN.get_noted().n == 3
    assert CHAIN.check() is not None


def test_foreign_line_ahead_is_refused() -> None:
    add()
    before = copies(NewestLine)
    add()
    put_back(before)
    one, two = read_lines()
    sig = CHAIN.get_newest().sig.hex()  # type: ignore[union-attr]  # there are two
    leave(one, two.replace(sig.encode(), b"00" * 64))
    assert get_defect() == (2, None)


def test_restored_keys_database_is_reported() -> None:
    add()
    before = copies(NewestLine)
    newest = add(3)
    put_back(before)
    assert get_defect() == (4, AHEAD)
    assert CHAIN.check(restored=True) == newest
    CHAIN.note(newest)
    assert CHAIN.check() == newest


def test_chain_note_never_decreases_unless_begun_anew() -> None:
    add(3)
    first = next(CHAIN.iter_links())
    CHAIN.note(first)
    assert CHAIN.get_noted().n == 3
    CHAIN.note(first, anew=True)
    assert CHAIN.get_noted().n == 1


def test_draft_line_counts_once_it_is_noted() -> None:
    add()
    CHAIN.draft({"at": "a"})
    again = CHAIN.draft({"at": "b"})
    assert again.n == 2
    assert len(read_lines()) == 2
    assert CHAIN.get_noted().n == 1
    CHAIN.note(again)
    assert CHAIN.draft({"at": "c"}).n == 3
    assert CHAIN.check() is not None


@pytest.mark.parametrize("forged", ["n", "wrapped", "kek"])
def test_chain_note_without_the_ring_is_refused(forged: str) -> None:
    """A forger without the ring can write the keys database."""
    add(3)
    leave(*read_lines()[:2])
    second = list(CHAIN.iter_links())[1]
    row = NewestLine.objects.using("keys").get()
    row.n = 2
    if forged == "wrapped":
        row.wrapped = bytes(60)
    if forged == "kek":
        other = ring_file.make_kek()
        row.kek_id = other.id
        row.wrapped = wrap(other, second.hash, purpose=KeyPurpose.LINE, owner=row.place)
    row.save()
    assert get_defect() == (2, None)


def test_chain_note_is_rewrapped_by_a_rotation(ring: Ring) -> None:
    newest = add(2)
    rotation.begin(at=clock.now())
    while rotation.step():
        pass
    row = NewestLine.objects.using("keys").get()
    assert row.kek_id == keyring.get_ring().current_id
    assert CHAIN.check() == newest
    assert CHAIN.get_noted().hash == newest.hash


def test_longer_mirror_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Database and file may both be from an earlier day; the mirror tells."""
    monkeypatch.setattr(settings, "LEDGER_MIRROR", tmp_path / "mirror")
    add()
    before = copies(NewestLine)
    newest = add(2)
    put_back(before)
    leave(read_lines()[0])
    with pytest.raises(LedgerBrokenError) as broken:
        CHAIN.check()
    assert broken.value.detail["what"] == MIRROR
    assert CHAIN.recover()
    assert CHAIN.check(restored=True) == newest


def test_key_of_a_line_leads_back_to_the_root() -> None:
    add()
    signing.rotate(at=clock.now())
    newest = add()
    assert CHAIN.check() == newest
    keys = signing.list_public_keys()
    del keys[newest.key_id]
    with pytest.raises(LedgerBrokenError):
        CHAIN.check(keys=keys)
