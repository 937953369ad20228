from __future__ import annotations

import json

import pytest

from memoryhub.vault.keys import backup, ring_file
from memoryhub.vault.keys.ring_file import Ring, RingRefusedError

PASSPHRASE = "correct horse battery staple"


@pytest.fixture(scope="module")
def ring() -> Ring:
    return ring_file.make_ring().add_kek(ring_file.make_kek())


@pytest.fixture(scope="module")
def saved(ring: Ring) -> bytes:
    return backup.seal_ring(ring, passphrase=PASSPHRASE)


def require_refusal(data: bytes, passphrase: str = PASSPHRASE) -> str:
    with pytest.raises(RingRefusedError) as refused:
        backup.open_ring(data, passphrase=passphrase)
    return refused.value.reason


def test_backup_opens_with_its_passphrase(ring: Ring, saved: bytes) -> None:
    assert backup.open_ring(saved, passphrase=PASSPHRASE) == ring


def test_no_key_and_no_id_shows_in_a_backup(ring: Ring, saved: bytes) -> None:
    for kek_id in ring.ids:
        assert kek_id.encode() not in saved
        assert ring.get(kek_id).key not in saved
        assert ring.get(kek_id).key.hex().encode() not in saved


@pytest.mark.parametrize("wrong", ["", "correct horse battery stapl", "CORRECT"])
def test_backup_does_not_open_with_another_passphrase(saved: bytes, wrong: str) -> None:
    assert "passphrase is wrong" in require_refusal(saved, wrong)


@pytest.mark.parametrize("part", ["salt", "nonce", "sealed"])
def test_damaged_backup_is_refused(saved: bytes, part: str) -> None:
    shape = json.loads(saved)
    value = shape[part]
    shape[part] = ("0" if value[0] != "0" else "1") + value[1:]
    assert require_refusal(json.dumps(shape).encode()).startswith("backup:")
    shape[part] = value[:-2]
    assert require_refusal(json.dumps(shape).encode()).startswith("backup:")


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"\xff\xfe", b'{"format": 1}', b"[" * 100_000],
    ids=["empty", "object", "list", "binary", "format", "nested"],
)
def test_file_that_is_no_backup_is_refused(data: bytes) -> None:
    assert "not a backup" in require_refusal(data)


def test_backup_of_a_later_format_is_refused(saved: bytes) -> None:
    later = saved.replace(b"kek-backup/1", b"kek-backup/2")
    assert "format" in require_refusal(later)


def test_short_passphrase_is_refused(ring: Ring) -> None:
    with pytest.raises(RingRefusedError):
        backup.seal_ring(ring, passphrase="x" * (backup.MIN_PASSPHRASE - 1))


def test_two_backups_share_no_salt(ring: Ring, saved: bytes) -> None:
    again = json.loads(backup.seal_ring(ring, passphrase=PASSPHRASE))
    assert again["salt"] != json.loads(saved)["salt"]
