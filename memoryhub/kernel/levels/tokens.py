"""Token counts by `est/1`, an estimate that needs no vocabulary. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_letters, digits
from typing import NamedTuple

from memoryhub.kernel.state.paging_config import ESTIMATED

#: How a text's tokens are counted; 0 for the empty text only.
Count = Callable[[str], int]


class Tokenizer(NamedTuple):
    """A way of counting, and the name that threads know it by."""

    name: str
    count: Count


#: Weights in 1/24 token, so that sums stay exact (source: the paging document).
_LETTER, _DIGIT, _OTHER_ASCII, _NARROW, _WIDE, _ASTRAL = 3, 12, 15, 8, 24, 48
_PER_TOKEN = 24
_LETTERS, _ASCII = ascii_letters.encode(), bytes(range(0x80))
_NOT_OTHER = digits.encode() + b"\n" + bytes(range(0x80, 0x100))
#: Of UTF-8: what begins a character below U+3000, beyond the BMP, and nothing.
_NARROW_LEADS, _ASTRAL_LEADS = bytes(range(0xC2, 0xE3)), bytes(range(0xF0, 0xF5))
_CONTINUING = bytes(range(0x80, 0xC0))
#: U+2E80 to U+2FFF.
_WIDE_OF_E2 = re.compile(rb"\xe2[\xba-\xbf]")
_CHUNK = 16_384


def estimate(text: str) -> int:
    """Count the tokens of `text` by est/1; at least 1 unless it is empty."""
    return max(1, -(-weigh(text) // _PER_TOKEN)) if text else 0


EST = Tokenizer(ESTIMATED, estimate)


def weigh(text: str) -> int:
    """Return est/1's sum before rounding, in 1/24 token.

    Exact for any split of a text. Linear, at the speed of C.
    """
    raw = text.encode("utf-8", "surrogatepass")
    rest = raw.translate(None, _LETTERS)
    beyond = b"" if text.isascii() else rest.translate(None, _ASCII)
    others = rest.translate(None, _NOT_OTHER)
    figures = len(rest) - len(others) - len(beyond) - raw.count(b"\n")
    total = (len(raw) - len(rest)) * _LETTER
    total += figures * _DIGIT + len(others) * _OTHER_ASCII
    return total + _beyond_ascii(beyond) if beyond else total


def _beyond_ascii(raw: bytes) -> int:
    """Weight of the other characters, told by the bytes they begin with."""
    leads = raw.translate(None, _CONTINUING)
    astral = len(leads) - len(leads.translate(None, _ASTRAL_LEADS))
    narrow = len(leads) - len(leads.translate(None, _NARROW_LEADS))
    narrow -= len(_WIDE_OF_E2.findall(raw))
    wide = len(leads) - astral - narrow
    return astral * _ASTRAL + narrow * _NARROW + wide * _WIDE


def fitting(
    text: str,
    room: int,
    *,
    count: Count = estimate,
    through: Callable[[str], str] = str,
    last: bool = False,
) -> int:
    """Count the leading, or trailing, characters of `text` that `room` tokens hold.

    `through` is what becomes of the text before it is counted. Counts in chunks, each
    rounded up, so the answer errs to the short side. One pass, however long the text.
    """

    done = 0
    while done < len(text):
        ahead = min(done + _CHUNK, len(text))
        part = text[len(text) - ahead : len(text) - done] if last else text[done:ahead]
        tokens = count(through(part))
        if tokens > room:
            return done + _most(
                part, room, lambda kept: count(through(kept)), last=last
            )
        room, done = room - tokens, ahead
    return done


def _most(part: str, room: int, cost: Count, *, last: bool) -> int:
    """The same of a part that does not fit, by halving."""
    low, high = 0, len(part)
    while high - low > 1:
        middle = (low + high) // 2
        kept = part[len(part) - middle :] if last else part[:middle]
        low, high = (middle, high) if cost(kept) <= room else (low, middle)
    return low
