"""Where a signed file ends: the keys database knows, so nothing is cut off unseen."""

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


def lines() -> list[bytes]:
    return CHAIN.path().read_bytes().splitlines(keepends=True)


def leave(*left: bytes) -> None:
    CHAIN.path().write_bytes(b"".join(left))


def copies(model: type[Model]) -> list[Model]:
    return list(model._default_manager.using("keys").all())


def put_back(rows: list[Model]) -> None:
    for row in rows:
        row.save()


def wrong() -> tuple[object, object]:
    """What both looks say of the file, and that nobody goes on from there."""
    found = []
    for look in (CHAIN.check, CHAIN.newest, add):
        with pytest.raises(LedgerBrokenError) as broken:
            look()
        assert broken.value.detail["file"] == "erasures.jsonl"
        found.append((broken.value.detail["n"], broken.value.detail.get("what")))
    assert len(set(found)) == 1, found
    return found[0]


@pytest.mark.parametrize("left", range(4))
def test_a_file_that_was_cut_is_behind(left: int) -> None:
    add(4)
    leave(*lines()[:left])
    assert wrong() == (left + 1, BEHIND)


def test_a_file_that_is_gone_is_behind() -> None:
    add(2)
    CHAIN.path().unlink()
    assert wrong() == (1, BEHIND)


def test_another_file_of_that_length_is_none_of_ours() -> None:
    """Signed by us, in one chain, and not what was noted."""
    rows = copies(NewestLine)
    add(2)
    other = lines()
    NewestLine.objects.using("keys").all().delete()
    put_back(rows)
    CHAIN.path().unlink()
    CHAIN.write({"at": clock.now().isoformat()})
    add()
    leave(*other)
    assert wrong() == (2, None)


def test_a_line_that_nobody_came_to_note_counts_and_is_noted_by_the_next() -> None:
    add()
    before = copies(NewestLine)
    left = add()
    put_back(before)
    assert CHAIN.check() == CHAIN.newest() == left
    assert CHAIN.noted().n == 1
    assert add().n == 3
    assert CHAIN.noted().n == 3
    assert CHAIN.check() is not None


def test_a_line_ahead_that_we_did_not_sign_is_none_of_ours() -> None:
    add()
    before = copies(NewestLine)
    add()
    put_back(before)
    one, two = lines()
    sig = CHAIN.newest().sig.hex()  # type: ignore[union-attr]  # there are two
    leave(one, two.replace(sig.encode(), b"00" * 64))
    assert wrong() == (2, None)


def test_a_keys_database_that_was_restored_is_named() -> None:
    add()
    before = copies(NewestLine)
    newest = add(3)
    put_back(before)
    assert wrong() == (4, AHEAD)
    assert CHAIN.check(restored=True) == newest
    CHAIN.note(newest)
    assert CHAIN.check() == newest


def test_what_is_noted_never_gets_less_but_anew() -> None:
    add(3)
    first = next(CHAIN.links())
    CHAIN.note(first)
    assert CHAIN.noted().n == 3
    CHAIN.note(first, anew=True)
    assert CHAIN.noted().n == 1


def test_a_draft_counts_once_it_is_noted() -> None:
    add()
    CHAIN.draft({"at": "a"})
    again = CHAIN.draft({"at": "b"})
    assert again.n == 2
    assert len(lines()) == 2
    assert CHAIN.noted().n == 1
    CHAIN.note(again)
    assert CHAIN.draft({"at": "c"}).n == 3
    assert CHAIN.check() is not None


@pytest.mark.parametrize("forged", ["n", "wrapped", "kek"])
def test_who_has_no_ring_notes_nothing(forged: str) -> None:
    """The keys database can be written by who can't open what stands in it."""
    add(3)
    leave(*lines()[:2])
    second = list(CHAIN.links())[1]
    row = NewestLine.objects.using("keys").get()
    row.n = 2
    if forged == "wrapped":
        row.wrapped = bytes(60)
    if forged == "kek":
        other = ring_file.new_kek()
        row.kek_id = other.id
        row.wrapped = wrap(other, second.hash, purpose=KeyPurpose.LINE, owner=row.place)
    row.save()
    assert wrong() == (2, None)


def test_a_rotated_ring_takes_it_along(ring: Ring) -> None:
    newest = add(2)
    rotation.begin(at=clock.now())
    while rotation.step():
        pass
    row = NewestLine.objects.using("keys").get()
    assert row.kek_id == keyring.ring().current_id
    assert CHAIN.check() == newest
    assert CHAIN.noted().hash == newest.hash


def test_a_longer_mirror_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else may have been put back to an earlier day; the mirror tells."""
    monkeypatch.setattr(settings, "LEDGER_MIRROR", tmp_path / "mirror")
    add()
    before = copies(NewestLine)
    newest = add(2)
    put_back(before)
    leave(lines()[0])
    with pytest.raises(LedgerBrokenError) as broken:
        CHAIN.check()
    assert broken.value.detail["what"] == MIRROR
    assert CHAIN.recover()
    assert CHAIN.check(restored=True) == newest


def test_the_key_of_a_line_leads_back_to_the_root() -> None:
    add()
    signing.rotate(at=clock.now())
    newest = add()
    assert CHAIN.check() == newest
    keys = signing.public_keys()
    del keys[newest.key_id]
    with pytest.raises(LedgerBrokenError):
        CHAIN.check(keys=keys)
