"""Archives: files other than our ZIPs are refused before any entry is read."""

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


def make_zip(path: Path, fill: Fill) -> Path:
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        fill(archive)
    return path


def read(path: Path) -> None:
    with archives.open_archive(path) as archive:
        for name in archive.sizes:
            for _ in archive.iter_lines(name):
                pass


def get_refusal_word(path: Path) -> str:
    with pytest.raises(BadBundleError) as refusal:
        read(path)
    return str(refusal.value.detail["what"])


def write_plain(archive: ZipFile) -> None:
    archive.writestr("a.txt", b"one\ntwo\nthree")


def test_sound_archive_is_read(tmp_path: Path) -> None:
    with archives.open_archive(make_zip(tmp_path / "a.zip", write_plain)) as archive:
        assert archive.sizes == {"a.txt": 13}
        assert archive.read("a.txt", most=13) == b"one\ntwo\nthree"
        assert [*archive.iter_lines("a.txt")] == [b"one\n", b"two\n", b"three"]
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
def test_file_that_is_no_zip_is_unknown(tmp_path: Path, data: bytes) -> None:
    """Cover row 138 of the bad inputs."""
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    assert get_refusal_word(path) == "unknown_format"


def test_truncated_archive_is_damaged(tmp_path: Path) -> None:
    data = make_zip(tmp_path / "a.zip", write_plain).read_bytes()
    cut = tmp_path / "cut.zip"
    for size in range(4, len(data)):
        cut.write_bytes(data[:size])
        assert get_refusal_word(cut) == "damaged", size


def test_archive_with_a_flipped_bit_is_damaged(tmp_path: Path) -> None:
    data = make_zip(tmp_path / "a.zip", write_plain).read_bytes()
    path = tmp_path / "flipped.zip"
    at = data.index(b"a.txt") + 6
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert get_refusal_word(path) == "damaged"


def test_file_without_a_path_is_refused(tmp_path: Path) -> None:
    """A name ends at its first NUL."""
    data = make_zip(tmp_path / "a.zip", write_plain).read_bytes()
    path = tmp_path / "b.zip"
    path.write_bytes(data.replace(b"a.txt", b"\0.txt"))
    assert get_refusal_word(path) == "path"


def test_place_before_the_archive_is_damage(tmp_path: Path) -> None:
    data = bytearray(make_zip(tmp_path / "a.zip", write_plain).read_bytes())
    at = data.rindex(b"PK\5\6")
    (start,) = struct.unpack_from("<L", data, at + 16)
    struct.pack_into("<L", data, at + 16, start + 50)
    path = tmp_path / "b.zip"
    path.write_bytes(data)
    assert get_refusal_word(path) == "damaged"


def encrypted(archive: ZipFile) -> None:
    write_plain(archive)
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


def build_fill(name: str) -> Fill:
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
    write_plain(archive)
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
        (build_fill("/etc/passwd"), "path"),
        (build_fill("../a"), "path"),
        (build_fill("a/../../b"), "path"),
        (build_fill("a\\..\\b"), "path"),
        (build_fill("C:/a"), "path"),
        (build_fill("."), "path"),
        (twice, "duplicate_path"),
        (squeezed, "unsupported"),
        (many, "entries"),
        (bomb, "ratio"),
        (huge, "size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unsafe_archive_is_refused(tmp_path: Path, fill: Fill, word: str) -> None:
    """Cover row 135 of the bad inputs."""
    path = make_zip(tmp_path / "a.zip", fill)
    before = {each.name for each in tmp_path.iterdir()}
    assert get_refusal_word(path) == word
    assert {each.name for each in tmp_path.iterdir()} == before


def test_directory_with_too_many_entries_is_not_read(tmp_path: Path) -> None:
    data = bytearray(make_zip(tmp_path / "a.zip", write_plain).read_bytes())
    at = data.rindex(b"PK\5\6")
    struct.pack_into("<H", data, at + 10, MOST_ENTRIES + 1)
    path = tmp_path / "b.zip"
    path.write_bytes(data)
    assert get_refusal_word(path) == "entries"


def test_zip64_directory_with_too_many_entries_is_refused(tmp_path: Path) -> None:
    """Check ZIP64's own count of entries, which is the valid one."""
    path = tmp_path / "a.zip"
    with ZipFile(path, "w") as archive:
        for n in range(70_000):
            archive.writestr(ZipInfo(f"{n}"), "")
    assert get_refusal_word(path) == "entries"


def test_entry_longer_than_declared_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        archive.writestr("a", b"x" * 100)
    data = bytearray(out.getvalue())
    for mark, offset in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
        struct.pack_into("<L", data, data.index(mark) + offset, 50)
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    assert get_refusal_word(path) in ("damaged", "size")
