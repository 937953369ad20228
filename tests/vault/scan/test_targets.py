from __future__ import annotations

import base64
import gzip
import io
import json
import random
import zipfile
import zlib
from collections.abc import Callable, Iterator

import pytest

from memoryhub.vault.scan import targets
from memoryhub.vault.scan.sources import RATIO, TargetSearch
from memoryhub.vault.scan.targets import ScanTarget, TargetKind

TEXT = "cnryж漢\U0001f600 \\\"x of Mia's fare"
NONCE = bytes(range(200, 212))


def zipped(plain: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("a-member.txt", b"before " * 9 + plain)
    return file.getvalue()


def utf16(plain: bytes, order: str) -> bytes:
    return f"<{plain.decode()}>".encode(f"utf-16-{order}")


#: Each decoder of the scan, and bytes as whoever writes them would leave them.
DRESSES: dict[str, Callable[[bytes], bytes]] = {
    "raw": lambda plain: b"a" + plain + b"z",
    "base64 at 0": lambda plain: base64.b64encode(plain + b"after"),
    "base64 at 1": lambda plain: base64.b64encode(b"x" + plain),
    "base64 at 2": lambda plain: base64.urlsafe_b64encode(
        b"\xff\xff" + plain + b"\xff"
    ),
    "hex": lambda plain: (b"<" + plain).hex().encode(),
    "HEX": lambda plain: plain.hex().upper().encode(),
    "zlib": lambda plain: zlib.compress(b"some text before " + plain, 1),
    "zlib small window": lambda plain: _deflated(b"some text " + plain, 10),
    "gzip": lambda plain: gzip.compress(plain + b" and after"),
    "zip": zipped,
    "zip stored": lambda plain: zipped(plain, zipfile.ZIP_STORED),
    # Of its specification: an array of one, bytes or a text of up to 255.
    "msgpack": lambda plain: b"\x91\xc4" + bytes([len(plain)]) + plain,
    "cut zlib": lambda plain: zlib.compress(plain + random.Random(1).randbytes(900))[
        :-99
    ],
    "damaged gzip": lambda plain: gzip.compress(plain + bytes(99))[:-12] + b"\xff" * 99,
}
OF_TEXT: dict[str, Callable[[bytes], bytes]] = {
    "utf-16-le": lambda plain: utf16(plain, "le"),
    "utf-16-be": lambda plain: utf16(plain, "be"),
    "json": lambda plain: json.dumps({"a": plain.decode()}).encode(),
    "json every": lambda plain: "".join(
        f"\\u{unit:04X}" for unit in _units(plain.decode())
    ).encode(),
    "json twice": lambda plain: json.dumps(json.dumps([plain.decode()])).encode(),
    "msgpack text": lambda plain: b"\x91\xd9" + bytes([len(plain)]) + plain,
    "utf-16 in zlib": lambda plain: zlib.compress(utf16(plain, "le")),
}


def _deflated(plain: bytes, window_bits: int) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, window_bits)
    return deflate.compress(plain) + deflate.flush()


def _units(text: str) -> Iterator[int]:
    encoded = text.encode("utf-16-be")
    return (int.from_bytes(encoded[at : at + 2]) for at in range(0, len(encoded), 2))


def iter_chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def list_found_targets(
    data: bytes, *wanted: ScanTarget, size: int = 1 << 20
) -> set[ScanTarget]:
    return {
        hit.target
        for hit in TargetSearch(wanted).search_stream(iter_chunks(data, size))
    }


text = ScanTarget(kind=TargetKind.PLAINTEXT, data=TEXT.encode())
nonce = ScanTarget(kind=TargetKind.NONCE, data=NONCE)
CASES = [(name, dress, text) for name, dress in (DRESSES | OF_TEXT).items()]
CASES += [(name, dress, nonce) for name, dress in DRESSES.items()]


@pytest.mark.parametrize(
    ("dress", "needle"),
    [case[1:] for case in CASES],
    ids=[f"{name}, {needle.kind}" for name, _, needle in CASES],
)
def test_scan_target_is_found_in_every_encoding_and_alignment(
    dress: Callable[[bytes], bytes], needle: ScanTarget
) -> None:
    chance = random.Random(7)  # a seed repeats it
    for at in range(16):
        noise = chance.randbytes(3_000)
        data = noise[: 1_000 + at] + b"\0" + dress(needle.data) + b"\0" + noise[1_000:]
        assert list_found_targets(data, needle, nonce, text) == {needle}
        # Whatever is cut where: by chunks that are shorter than the needle as well.
        for size in (7, 64, 1_009, 2_000):
            assert list_found_targets(data, needle, size=size) == {needle}, size
        assert list_found_targets(noise, needle) == set()


def test_stream_over_many_chunks_is_followed_to_its_end() -> None:
    chance = random.Random(3)
    long = " ".join(f"{chance.random()}" for _ in range(40_000)).encode() + text.data
    for data in (zlib.compress(long), gzip.compress(long), zipped(long)):
        hits = TargetSearch([text]).search_stream(
            iter_chunks(b"before" + data, 64 << 10)
        )
        assert {(hit.target, hit.at) for hit in hits} == {(text, 6)}


def test_zip_bomb_is_cut_and_counted() -> None:
    bomb = zlib.compress(bytes(200 << 20), 9)
    assert len(bomb) * RATIO < 100 << 20
    search = TargetSearch([text])
    assert search.search_stream([bomb]) == []
    assert search.cut == 1
    # Text beside the bomb is scanned all the same.
    assert [hit.target for hit in search.search_stream([bomb, text.data])] == [text]


def test_thousands_of_scan_targets_are_told_apart() -> None:
    chance = random.Random(5)
    many = [
        ScanTarget(kind=TargetKind.NONCE, data=chance.randbytes(12))
        for _ in range(2_000)
    ]
    planted = chance.sample(many, 50)
    parts = [chance.randbytes(chance.randrange(900)) + each.data for each in planted]
    assert list_found_targets(b"".join(parts), *many) == set(planted)


def test_scan_targets_that_share_words_are_told_apart() -> None:
    near = [targets.build_name_target(f"a common beginning {n}") for n in range(20)]
    data = b"xxx a common beginning 17 and a common"
    # The one is the beginning of the other.
    assert list_found_targets(data, *near) == {near[17], near[1]}


def test_scan_target_that_is_too_short_is_not_searched() -> None:
    short, long = (
        targets.build_user_id_target("bob"),
        targets.build_user_id_target("bob-and-more"),
    )
    assert short.is_too_short
    assert not long.is_too_short
    assert list_found_targets(b"bob and bob-and-more", short, long) == {long}


def test_scan_target_repr_hides_its_text() -> None:
    for needle in (text, targets.build_user_id_target("mia@example.com"), nonce):
        assert "example" not in repr(needle)
        assert "fare" not in repr(needle)
        assert repr(needle) == f"<{needle.kind} of {len(needle.data)} bytes>"


def test_random_scan_targets_are_the_only_ones_kept_and_are_masked() -> None:
    key = targets.build_wrapped_nonce_target(bytes(range(60)))
    sealed = targets.build_nonce_target(b"\x01\x00\x01" + NONCE + bytes(99))
    assert sealed == nonce
    assert key.data == bytes(range(12))
    kept = targets.pack_targets(
        [sealed, text, key, targets.build_name_target("a-name-of-hers")]
    )
    assert targets.unpack_targets(kept) == [sealed, key]
    # The scan looks at the row that keeps them, too.
    assert list_found_targets(kept, sealed, key) == set()


@pytest.mark.parametrize(
    ("plain", "count"),
    [
        (b"", 0),
        (b"too short a text", 1),
        (b"too short a one", 0),
        (b"Mia Li 1987-05-01", 1),
        (b"seat 12A by the window", 1),
        (b"ann.smith@example.com", 1),
        (b"4111 1111 1111 1111", 1),
        (b"4242 4581 9036 1177", 1),
        # Ours, or nobody's.
        (b"0197f3a2-466f-7185-a83c-e30bc6f90e5a", 0),
        (b"operator:0197f3a2-466f-7185-a83c-e30bc6f90e5a", 0),
        (b"2026-11-21T15:52:01.123456+00:00", 0),
        (b"upgrade_budget_tokens.of_a_config", 0),
        (b"--------------------------------", 0),
        (b"exactly as long as one w", 1),
        (b"A plain sentence of hers that is long enough for two.", 2),
        ("жж жж жж жж жж жж жж жж жж жж жж жж жж жж жж жж жж жж".encode(), 2),
        (b"a-name-without-a-space-which-may-be-one-in-the-clear", 2),
    ],
)
def test_scan_windows_are_cut_from_content(plain: bytes, count: int) -> None:
    made = targets.cut_windows(plain)
    assert len(made) == count
    for window in made:
        assert window.kind is TargetKind.PLAINTEXT
        assert 16 <= len(window.data) <= 32
        assert window.data in plain
        assert window.data.decode()


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("dob", "1987-05-01", '"dob":"1987-05-01"'),
        ("guest", "Mia Li", '"guest":"Mia Li"'),
        ("město", "Dvůr Krá", '"město":"Dvůr Krá"'),
        ("a", "12A", None),
        # Our bodies and receipts contain these words.
        ("role", "assistant", None),
        ("until", "2026-12-21", None),
    ],
)
def test_short_text_is_told_with_its_key(
    key: str, value: str, found: str | None
) -> None:
    made = [needle.data.decode() for needle in targets.build_member_targets(key, value)]
    assert made == ([found] if found else [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("of-ann-smith", True),
        ("birth_date", True),
        ("ann@home.example", True),
        ("assistant", False),
        ("ann-1", False),
    ],
)
def test_single_word_is_no_telling_name(text: str, told: bool) -> None:
    assert targets.is_identifying_name(text) is told
