"""Looks for plaintext in every byte of every file, in every dress it may wear.

It is believed only if it finds what is planted: see `planted`.
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

#: What may begin a zlib stream: the usual window sizes, all four levels.
_ZLIB_HEAD = re.compile(rb"[\x08\x18\x28\x38\x48\x58\x68\x78](?=[\x01-\xff])")
#: Of a stream that is inflated while looking; more is not ours.
_INFLATED_BYTES = 1 << 20
#: Shorter ones are met by chance, above all in base64 and hex of random bytes.
SHORTEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A needle was found: where, and how it was written there."""

    needle: str
    place: str
    dress: str


def _aligned_base64(text: str) -> list[bytes]:
    """The part of the base64 text that is the same whatever stands beside it."""
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


def _escaped(text: str) -> list[bytes]:
    r"""JSON with every character as \uXXXX, and with only those beyond ASCII."""
    units = text.encode("utf-16-be")
    every = "".join(
        f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)
    )
    upper = re.sub(r"\\u(....)", lambda found: "\\u" + found[1].upper(), every)
    usual = json.dumps(text)[1:-1]
    doubled = json.dumps(usual)[1:-1]
    return [form.encode() for form in (every, upper, usual, doubled)]


#: How a text may be written without being the text; every one is proved by planting.
DRESSES: dict[str, Encoder] = {
    "raw": lambda text: [text.encode()],
    "utf-16-le": lambda text: [text.encode("utf-16-le")],
    "utf-16-be": lambda text: [text.encode("utf-16-be")],
    "base64": _aligned_base64,
    "hex": _hex,
    "json": _escaped,
}


class Scanner:
    """Looks for the same needles in many bytes.

    First for what begins many of them, then for each: needles with a common beginning
    cost one.
    """

    def __init__(self, needles: Iterable[str], *, shortest: int = SHORTEST) -> None:
        self.stems: dict[str, list[str]] = {}
        for needle in sorted(set(needles)):
            assert len(needle) >= shortest
            self.stems.setdefault(needle[:SHORTEST], []).append(needle)

    def files(self, *folders: Path) -> Iterator[Hit]:
        """Hits in every file below these, in their names as well."""
        for folder in folders:
            for path in sorted(folder.rglob("*")):
                yield from self.content(str(path).encode(), place="a file's name")
                if path.is_file():
                    yield from self.content(path.read_bytes(), place=path.name)

    def content(self, data: bytes, *, place: str) -> Iterator[Hit]:
        """Hits in these bytes and in what they inflate to."""
        yield from self._plain(data, place=place, inside="")
        inflated = b"\n".join(_inflated(data))
        yield from self._plain(inflated, place=place, inside="zlib, ")

    def _plain(self, data: bytes, *, place: str, inside: str) -> Iterator[Hit]:
        for stem, needles in self.stems.items():
            for dress in dressed(data, stem):
                for needle in needles:
                    if dress in dressed(data, needle):
                        yield Hit(needle=needle, place=place, dress=inside + dress)


def dressed(data: bytes, text: str) -> list[str]:
    """The dresses in which the text stands there."""
    # One search a form: one pattern of all forms would be a hundred times slower.
    return [
        dress
        for dress, forms in _forms(text).items()
        if any(form in data for form in forms)
    ]


@lru_cache(maxsize=10_000)
def _forms(text: str) -> dict[str, list[bytes]]:
    """Each form that a text may have, once: under the first dress that makes it."""
    first = {
        form: dress
        for dress, encode in reversed(DRESSES.items())
        for form in encode(text)
    }
    return {
        dress: [form for form, its in first.items() if its == dress]
        for dress in DRESSES
    }


def _inflated(data: bytes) -> Iterator[bytes]:
    """What each place that looks like a zlib stream inflates to."""
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


def planted(text: str) -> dict[str, list[bytes]]:
    """The text as each dress would leave it in a file, neighbours included."""
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
