from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from pytest_django import Settings

from memoryhub.services.forget import ballast

MIB = 1 << 20


@pytest.fixture(autouse=True)
def place(settings: Settings, tmp_path: Path) -> Path:
    settings.BALLAST = tmp_path / "ballast"
    settings.BALLAST_BYTES = 4 * MIB
    return tmp_path / "ballast"


def test_ballast_is_allocated_and_private(place: Path) -> None:
    assert ballast.ensure_ballast()
    found = place.stat()
    assert found.st_size == 4 * MIB
    assert found.st_blocks * 512 >= 4 * MIB
    assert stat.S_IMODE(found.st_mode) == 0o600
    before = found.st_ino
    assert ballast.ensure_ballast()
    assert place.stat().st_ino == before


def test_ballast_is_released_and_made_again(place: Path) -> None:
    assert not ballast.release_ballast()
    assert ballast.ensure_ballast()
    assert ballast.release_ballast()
    assert not place.exists()
    assert not ballast.release_ballast()
    assert ballast.ensure_ballast()
    assert place.stat().st_size == 4 * MIB


def test_ballast_of_wrong_size_or_sparse_is_made_anew(
    place: Path, settings: Settings
) -> None:
    with place.open("wb") as file:
        file.truncate(4 * MIB)
    assert place.stat().st_blocks == 0
    assert not ballast.release_ballast()
    assert ballast.ensure_ballast()
    assert place.stat().st_blocks * 512 >= 4 * MIB
    settings.BALLAST_BYTES = 2 * MIB
    assert ballast.ensure_ballast()
    assert place.stat().st_size == 2 * MIB


def test_ballast_of_zero_bytes_is_removed(place: Path, settings: Settings) -> None:
    assert ballast.ensure_ballast()
    settings.BALLAST_BYTES = 0
    assert ballast.ensure_ballast()
    assert not place.exists()


def test_ballast_larger_than_the_disk_is_not_made(
    place: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = os.statvfs(place.parent)
    settings.BALLAST_BYTES = room.f_blocks * room.f_frsize + MIB
    # A real attempt would fill the disk for other processes.
    monkeypatch.setattr(os, "posix_fallocate", None)
    assert not ballast.ensure_ballast()
    assert not place.exists()


def test_ballast_is_written_when_fallocate_is_missing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    assert ballast.ensure_ballast()
    assert place.stat().st_blocks * 512 >= 4 * MIB
    assert set(place.read_bytes()) == {0}


def test_ballast_is_removed_when_the_disk_fills_up_meanwhile(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, start: int, size: int) -> None:
        os.write(descriptor, b"some of it")
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert not ballast.ensure_ballast()
    assert not place.exists()
