from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from memoryhub.errors import KeyMissingError, StartRefusedError
from memoryhub.vault.keys import ring_file
from memoryhub.vault.keys.ring_file import RingRefusedError


def missing(path: Path) -> None:
    path.unlink(missing_ok=True)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def short(path: Path) -> None:
    path.write_bytes(b"k" * 31)


def short_key(path: Path) -> None:
    text = path.read_text()
    key = next(iter(ring_file.read(path).keks.values())).key.hex()
    path.write_text(text.replace(key, key[:-2]))


def not_json(path: Path) -> None:
    path.write_bytes(b"\xff" * 64)


def nested(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


def a_list(path: Path) -> None:
    path.write_bytes(b"[" + b" " * 64 + b"]")


def other_format(path: Path) -> None:
    path.write_text(path.read_text().replace(ring_file.FORMAT, "memoryhub.kek/9"))


def no_current(path: Path) -> None:
    current = ring_file.read(path).current_id
    path.write_text(
        path.read_text().replace(f'"current": "{current}"', '"current": ""')
    )


def current_is_a_list(path: Path) -> None:
    current = ring_file.read(path).current_id
    path.write_text(
        path.read_text().replace(f'"current": "{current}"', '"current": []')
    )


def not_hexadecimal(path: Path) -> None:
    key = ring_file.read(path).current.key.hex()
    path.write_text(path.read_text().replace(key, "z" * 64))


def readable_by_group(path: Path) -> None:
    path.chmod(0o640)


def readable_by_others(path: Path) -> None:
    path.chmod(0o604)


def executable_by_others(path: Path) -> None:
    path.chmod(0o601)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def below_a_file(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.write_bytes(b"")


REFUSED: dict[Callable[[Path], None], str] = {
    missing: "kek_missing",
    empty: "kek_short",
    short: "kek_short",
    short_key: "kek_short",
    not_json: "kek_broken",
    nested: "kek_broken",
    a_list: "kek_broken",
    other_format: "kek_broken",
    no_current: "kek_broken",
    current_is_a_list: "kek_broken",
    not_hexadecimal: "kek_broken",
    readable_by_group: "kek_mode",
    readable_by_others: "kek_mode",
    executable_by_others: "kek_mode",
    a_folder: "kek_not_a_file",
    a_fifo: "kek_not_a_file",
    below_a_file: "kek_unreadable",
}


@pytest.fixture
def made(kek_file: Path) -> ring_file.Ring:
    ring = ring_file.make_ring()
    ring_file.create(kek_file, ring)
    return ring


@pytest.mark.parametrize("spoil", REFUSED, ids=[spoil.__name__ for spoil in REFUSED])
def test_unusable_ring_is_refused_in_one_line_without_its_keys(
    spoil: Callable[[Path], None], kek_file: Path, made: ring_file.Ring
) -> None:
    spoil(kek_file)
    with pytest.raises(StartRefusedError) as refused:
        ring_file.read(kek_file)
    reason = refused.value.reason
    assert reason.startswith(REFUSED[spoil] + ":")
    assert "\n" not in reason
    assert made.current.key.hex()[:8] not in reason


def test_made_ring_is_read_back_and_is_its_owners_alone(
    kek_file: Path, made: ring_file.Ring
) -> None:
    assert ring_file.read(kek_file) == made
    assert stat.S_IMODE(kek_file.stat().st_mode) == 0o600
    assert len(made.current.key) == 32
    assert [entry.name for entry in kek_file.parent.iterdir()] == [kek_file.name]


def test_mode_does_not_depend_on_the_umask(kek_file: Path) -> None:
    before = os.umask(0)
    try:
        ring_file.create(kek_file, ring_file.make_ring())
    finally:
        os.umask(before)
    assert stat.S_IMODE(kek_file.stat().st_mode) == 0o600


def test_ring_is_never_made_over_another(kek_file: Path, made: ring_file.Ring) -> None:
    with pytest.raises(FileExistsError):
        ring_file.create(kek_file, ring_file.make_ring())
    assert ring_file.read(kek_file) == made
    assert [entry.name for entry in kek_file.parent.iterdir()] == [kek_file.name]


def test_replacing_keeps_the_old_keys_and_leaves_no_draft(
    kek_file: Path, made: ring_file.Ring
) -> None:
    added = ring_file.make_kek()
    ring_file.replace(kek_file, made.add_kek(added))
    ring = ring_file.read(kek_file)
    assert ring.current == added
    assert ring.get(made.current_id) == made.current
    assert stat.S_IMODE(kek_file.stat().st_mode) == 0o600
    assert [entry.name for entry in kek_file.parent.iterdir()] == [kek_file.name]


def test_ring_without_an_id_says_that_the_key_is_missing(
    made: ring_file.Ring,
) -> None:
    two = made.add_kek(ring_file.make_kek())
    with pytest.raises(KeyMissingError):
        two.remove_kek(made.current_id).get(made.current_id)


def test_no_representation_shows_a_key(made: ring_file.Ring) -> None:
    for shown in (repr(made), str(made), repr(made.current), f"{made.keks}"):
        assert repr(made.current.key) not in shown
        assert made.current.key.hex() not in shown


def test_decoding_what_was_encoded_gives_the_ring_back(made: ring_file.Ring) -> None:
    two = made.add_kek(ring_file.make_kek())
    assert ring_file.decode_ring(ring_file.encode_ring(two)) == two
    with pytest.raises(RingRefusedError):
        ring_file.decode_ring(ring_file.encode_ring(two)[:-4])
