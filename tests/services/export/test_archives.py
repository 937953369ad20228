"""Archives: what is no ZIP of ours is refused before anything in it is read."""

from __future__ import annotations

import io
import pickle
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile, ZipInfo

import pytest

from memoryhub.errors import BadBundleError
from memoryhub.kernel.formats.bundles import MOST_BYTES, MOST_ENTRIES
from memoryhub.services.export import archives

MIB = 2**20
Fill = Callable[[ZipFile], None]


def made(path: Path, fill: Fill) -> Path:
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        fill(archive)
    return path


def read(path: Path) -> None:
    with archives.opened(path) as archive:
        for name in archive.sizes:
            for _ in archive.lines(name):
                pass


def what(path: Path) -> str:
    with pytest.raises(BadBundleError) as refusal:
        read(path)
    return str(refusal.value.detail["what"])


def plain(archive: ZipFile) -> None:
    archive.writestr("a.txt", b"one\ntwo\nthree")


def test_a_sound_one_is_read(tmp_path: Path) -> None:
    with archives.opened(made(tmp_path / "a.zip", plain)) as archive:
        assert archive.sizes == {"a.txt": 13}
        assert archive.read("a.txt", most=13) == b"one\ntwo\nthree"
        assert [*archive.lines("a.txt")] == [b"one\n", b"two\n", b"three"]
        with pytest.raises(BadBundleError):
            archive.read("a.txt", most=12)
        with pytest.raises(BadBundleError):
            archive.read("b.txt", most=12)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        pickle.dumps({"a": 1}),
        b"format: memoryhub.subject/2\n",
        b"\x81\xa1a\x01",
        b"SQLite format 3\0" + bytes(84),
        b"<!doctype html><p>",
        b'[{"task_id": 0}]',
    ],
    ids=["empty", "two", "pickle", "yaml", "msgpack", "sqlite", "html", "runs"],
)
def test_what_is_no_zip_is_unknown(tmp_path: Path, data: bytes) -> None:
    """Row 138 of the bad inputs."""
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    assert what(path) == "unknown_format"


def test_a_cut_one_is_damaged(tmp_path: Path) -> None:
    data = made(tmp_path / "a.zip", plain).read_bytes()
    cut = tmp_path / "cut.zip"
    for size in range(4, len(data)):
        cut.write_bytes(data[:size])
        assert what(cut) == "damaged", size


def test_a_flipped_one_is_refused(tmp_path: Path) -> None:
    data = made(tmp_path / "a.zip", plain).read_bytes()
    path = tmp_path / "flipped.zip"
    at = data.index(b"a.txt") + 6
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert what(path) == "damaged"


def encrypted(archive: ZipFile) -> None:
    plain(archive)
    archive.infolist()[0].flag_bits |= 1


def symlink(archive: ZipFile) -> None:
    info = ZipInfo("a")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(info, "/etc/passwd")


def device(archive: ZipFile) -> None:
    info = ZipInfo("a")
    info.external_attr = (stat.S_IFCHR | 0o600) << 16
    archive.writestr(info, "")


def folder(archive: ZipFile) -> None:
    archive.writestr(ZipInfo("a/"), "")


def named(name: str) -> Fill:
    def fill(archive: ZipFile) -> None:
        archive.writestr(ZipInfo(name), "a")

    return fill


def twice(archive: ZipFile) -> None:
    archive.writestr("a", "1")
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("a", "2")


def squeezed(archive: ZipFile) -> None:
    archive.writestr(ZipInfo("a"), "a", ZIP_BZIP2)


def many(archive: ZipFile) -> None:
    for n in range(MOST_ENTRIES + 1):
        archive.writestr(ZipInfo(f"{n}"), "")


def bomb(archive: ZipFile) -> None:
    with archive.open("a", "w") as file:
        for _ in range(64):
            file.write(bytes(MIB))


def huge(archive: ZipFile) -> None:
    plain(archive)
    info = archive.infolist()[0]
    info.file_size = MOST_BYTES + 1
    info.compress_size = MOST_BYTES // 50


@pytest.mark.parametrize(
    ("fill", "word"),
    [
        (encrypted, "encrypted"),
        (symlink, "not_a_file"),
        (device, "not_a_file"),
        (folder, "not_a_file"),
        (named("/etc/passwd"), "path"),
        (named("../a"), "path"),
        (named("a/../../b"), "path"),
        (named("a\\..\\b"), "path"),
        (named("C:/a"), "path"),
        (twice, "duplicate_path"),
        (squeezed, "unsupported"),
        (many, "entries"),
        (bomb, "ratio"),
        (huge, "size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_unsafe_is_refused(tmp_path: Path, fill: Fill, word: str) -> None:
    """Row 135 of the bad inputs."""
    path = made(tmp_path / "a.zip", fill)
    before = {each.name for each in tmp_path.iterdir()}
    assert what(path) == word
    assert {each.name for each in tmp_path.iterdir()} == before


def test_a_directory_that_claims_too_much_is_not_even_read(tmp_path: Path) -> None:
    data = bytearray(made(tmp_path / "a.zip", plain).read_bytes())
    at = data.rindex(b"PK\5\6")
    struct.pack_into("<H", data, at + 10, MOST_ENTRIES + 1)
    path = tmp_path / "b.zip"
    path.write_bytes(data)
    assert what(path) == "entries"


def test_a_large_directory_counts_as_well(tmp_path: Path) -> None:
    """ZIP64 has its own count, which is the one that holds."""
    path = tmp_path / "a.zip"
    with ZipFile(path, "w") as archive:
        for n in range(70_000):
            archive.writestr(ZipInfo(f"{n}"), "")
    assert what(path) == "entries"


def test_a_file_longer_than_told_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        archive.writestr("a", b"x" * 100)
    data = bytearray(out.getvalue())
    for mark, offset in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
        struct.pack_into("<L", data, data.index(mark) + offset, 50)
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    assert what(path) in ("damaged", "size")
