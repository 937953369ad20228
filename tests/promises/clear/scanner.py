"""Scanner for plaintext in every byte of every file, in every encoding.

Only a scanner that finds planted texts is believed: see `planted`.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

Encoder = Callable[[str], list[bytes]]

#: Beginnings of a zlib stream: the usual window sizes, all four levels.
_ZLIB_HEAD = re.compile(rb"[\x08\x18\x28\x38\x48\x58\x68\x78](?=[\x01-\xff])")
#: Of a stream that is inflated while looking; more is not ours.
_INFLATED_BYTES = 1 << 20
#: Shorter ones are met by chance, above all in base64 and hex of random bytes.
SHORTEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Needle found, with its place and its encoding."""

    needle: str
    place: str
    dress: str


def _aligned_base64(text: str) -> list[bytes]:
    """Return the part of the base64 text that no neighbouring byte changes."""
    found = []
    raw = text.encode()
    for before in range(3):
        whole = base64.b64encode(bytes(before) + raw)
        # A digit that a neighbour's bits are mixed into is not ours.
        first = -(-before * 8 // 6) if before else 0
        found.append(whole[first : (before + len(raw)) * 8 // 6])
    return found + [each.translate(_URL_SAFE) for each in found]


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def _hex(text: str) -> list[bytes]:
    digits = text.encode().hex()
    return [digits.encode(), digits.upper().encode()]


def _list_escapes(text: str) -> list[bytes]:
    r"""Return JSON with every character as \uXXXX, and with only those beyond ASCII."""
    units = text.encode("utf-16-be")
    every = "".join(
        f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)
    )
    upper = re.sub(r"\\u(....)", lambda found: "\\u" + found[1].upper(), every)
    usual = json.dumps(text)[1:-1]
    doubled = json.dumps(usual)[1:-1]
    return [form.encode() for form in (every, upper, usual, doubled)]


#: Encodings of a text; every one is proved by planting.
DRESSES: dict[str, Encoder] = {
    "raw": lambda text: [text.encode()],
    "utf-16-le": lambda text: [text.encode("utf-16-le")],
    "utf-16-be": lambda text: [text.encode("utf-16-be")],
    "base64": _aligned_base64,
    "hex": _hex,
    "json": _list_escapes,
}


class Scanner:
    """Scanner for the same needles in many byte strings.

    It looks first for common beginnings, then for each needle: needles with a common
    beginning cost one.
    """

    def __init__(self, needles: Iterable[str], *, shortest: int = SHORTEST) -> None:
        self.stems: dict[str, list[str]] = {}
        for needle in sorted(set(needles)):
            assert len(needle) >= shortest
            self.stems.setdefault(needle[:SHORTEST], []).append(needle)

    def files(self, *folders: Path) -> Iterator[Hit]:
        """Yield hits in every file below these folders, file names included."""
        for folder in folders:
            for path in sorted(folder.rglob("*")):
                yield from self.iter_hits(str(path).encode(), place="a file's name")
                if path.is_file():
                    yield from self.iter_hits(path.read_bytes(), place=path.name)

    def iter_hits(self, data: bytes, *, place: str) -> Iterator[Hit]:
        """Yield hits in these bytes and in what they inflate to."""
        yield from self._iter_plain_hits(data, place=place, inside="")
        inflated = b"\n".join(_iter_inflated(data))
        yield from self._iter_plain_hits(inflated, place=place, inside="zlib, ")

    def _iter_plain_hits(
        self, data: bytes, *, place: str, inside: str
    ) -> Iterator[Hit]:
        for stem, needles in self.stems.items():
            for dress in list_encodings(data, stem):
                for needle in needles:
                    if dress in list_encodings(data, needle):
                        yield Hit(needle=needle, place=place, dress=inside + dress)


def list_encodings(data: bytes, text: str) -> list[str]:
    """Return the encodings in which the text occurs."""
    # One search a form: one pattern of all forms would be a hundred times slower.
    return [
        dress
        for dress, forms in _forms(text).items()
        if any(form in data for form in forms)
    ]


@lru_cache(maxsize=10_000)
def _forms(text: str) -> dict[str, list[bytes]]:
    """Return each form of a text once, under the first encoding that makes it."""
    first = {
        form: dress
        for dress, encode in reversed(DRESSES.items())
        for form in encode(text)
    }
    return {
        dress: [form for form, its in first.items() if its == dress]
        for dress in DRESSES
    }


def _iter_inflated(data: bytes) -> Iterator[bytes]:
    """Yield the inflated bytes of each place that looks like a zlib stream."""
    for found in _ZLIB_HEAD.finditer(data):
        start = found.start()
        # RFC 1950: the two bytes are a multiple of 31.
        if int.from_bytes(data[start : start + 2]) % 31:
            continue
        inflate = zlib.decompressobj()
        try:
            plain = inflate.decompress(data[start : start + 65_536], _INFLATED_BYTES)
        except zlib.error:
            continue
        if len(plain) >= SHORTEST:
            yield plain


def build_planted_forms(text: str) -> dict[str, list[bytes]]:
    """Return by encoding the forms of a text in a file, with neighbours."""
    plain = text.encode()
    return {
        "raw": [b"a" + plain + b"z"],
        "utf-16-le": [f"<{text}>".encode("utf-16-le")],
        "utf-16-be": [f"<{text}>".encode("utf-16-be")],
        "base64": [
            encode(b"\xff" * before + plain + b"\xff" * after)
            for encode in (base64.b64encode, base64.urlsafe_b64encode)
            for before in range(3)
            for after in range(3)
        ],
        "hex": [plain.hex().encode(), plain.hex().upper().encode()],
        "json": [
            "".join(map(_each_escaped, text)).encode(),
            json.dumps({"a": text}).encode(),
            json.dumps(json.dumps([text])).encode(),
        ],
        "zlib": [
            zlib.compress(b"some text before " + plain + b" and after", level)
            for level in (1, 6, 9)
        ],
    }


def _each_escaped(character: str) -> str:
    if character.isascii():
        return f"\\u{ord(character):04x}"
    return json.dumps(character)[1:-1]
