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


def test_it_is_really_allocated_and_nobody_elses(place: Path) -> None:
    assert ballast.make()
    found = place.stat()
    assert found.st_size == 4 * MIB
    assert found.st_blocks * 512 >= 4 * MIB
    assert stat.S_IMODE(found.st_mode) == 0o600
    before = found.st_ino
    assert ballast.make()
    assert place.stat().st_ino == before


def test_its_room_is_given_up_and_taken_again(place: Path) -> None:
    assert not ballast.release()
    assert ballast.make()
    assert ballast.release()
    assert not place.exists()
    assert not ballast.release()
    assert ballast.make()
    assert place.stat().st_size == 4 * MIB


def test_one_of_another_size_or_without_room_is_made_anew(
    place: Path, settings: Settings
) -> None:
    with place.open("wb") as file:
        file.truncate(4 * MIB)
    assert place.stat().st_blocks == 0
    assert not ballast.release()
    assert ballast.make()
    assert place.stat().st_blocks * 512 >= 4 * MIB
    settings.BALLAST_BYTES = 2 * MIB
    assert ballast.make()
    assert place.stat().st_size == 2 * MIB


def test_without_any_nothing_is_made(place: Path, settings: Settings) -> None:
    assert ballast.make()
    settings.BALLAST_BYTES = 0
    assert ballast.make()
    assert not place.exists()


def test_where_there_is_no_room_it_says_so_and_takes_none(
    place: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = os.statvfs(place.parent)
    settings.BALLAST_BYTES = room.f_blocks * room.f_frsize + MIB
    # Others would find the disk full while it is tried.
    monkeypatch.setattr(os, "posix_fallocate", None)
    assert not ballast.make()
    assert not place.exists()


def test_where_nothing_can_be_allocated_it_is_written(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    assert ballast.make()
    assert place.stat().st_blocks * 512 >= 4 * MIB
    assert set(place.read_bytes()) == {0}


def test_a_disk_that_fills_up_meanwhile_leaves_none(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, start: int, size: int) -> None:
        os.write(descriptor, b"some of it")
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert not ballast.make()
    assert not place.exists()
