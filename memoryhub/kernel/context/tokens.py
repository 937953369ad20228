"""Token counts by `est/1`, an estimate that needs no vocabulary. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_letters, digits
from typing import NamedTuple

from memoryhub.kernel.state.paging_config import ESTIMATED

#: Function that counts a text's tokens; 0 for the empty text only.
Count = Callable[[str], int]


class Tokenizer(NamedTuple):
    """A tokenizer's counting function, and its name in threads."""

    name: str
    count: Count


#: Weights in 1/24 token, so that sums stay exact (source: the paging document).
_LETTER, _DIGIT, _OTHER_ASCII, _NARROW, _WIDE, _ASTRAL = 3, 12, 15, 8, 24, 48
_PER_TOKEN = 24
_LETTERS, _ASCII = ascii_letters.encode(), bytes(range(0x80))
_NOT_OTHER = digits.encode() + b"\n" + bytes(range(0x80, 0x100))
#: UTF-8 lead bytes of a character below U+3000 and of one beyond the BMP, and
#: continuation bytes.
_NARROW_LEADS, _ASTRAL_LEADS = bytes(range(0xC2, 0xE3)), bytes(range(0xF0, 0xF5))
_CONTINUING = bytes(range(0x80, 0xC0))
#: U+2E80 to U+2FFF, which are wide.
_WIDE_OF_E2 = re.compile(rb"\xe2[\xba-\xbf]")
_CHUNK = 16_384


def estimate_tokens(text: str) -> int:
    """Count the tokens of `text` by est/1; at least 1 unless it is empty."""
    return max(1, -(-weigh_text(text) // _PER_TOKEN)) if text else 0


EST = Tokenizer(ESTIMATED, estimate_tokens)


def weigh_text(text: str) -> int:
    """Return the sum of est/1 before rounding, in 1/24 token.

    Exact for any split of a text. Linear, at the speed of C.
    """
    raw = text.encode("utf-8", "surrogatepass")
    rest = raw.translate(None, _LETTERS)
    beyond = b"" if text.isascii() else rest.translate(None, _ASCII)
    others = rest.translate(None, _NOT_OTHER)
    figures = len(rest) - len(others) - len(beyond) - raw.count(b"\n")
    total = (len(raw) - len(rest)) * _LETTER
    total += figures * _DIGIT + len(others) * _OTHER_ASCII
    return total + _weigh_beyond_ascii(beyond) if beyond else total


def _weigh_beyond_ascii(raw: bytes) -> int:
    """Weigh the characters beyond ASCII by their lead bytes, in 1/24 token."""
    leads = raw.translate(None, _CONTINUING)
    astral = len(leads) - len(leads.translate(None, _ASTRAL_LEADS))
    narrow = len(leads) - len(leads.translate(None, _NARROW_LEADS))
    narrow -= len(_WIDE_OF_E2.findall(raw))
    wide = len(leads) - astral - narrow
    return astral * _ASTRAL + narrow * _NARROW + wide * _WIDE


def count_fitting(
    text: str,
    room: int,
    *,
    count: Count = estimate_tokens,
    through: Callable[[str], str] = str,
    last: bool = False,
) -> int:
    """Count the leading, or trailing, characters of `text` that `room` tokens hold.

    `through` transforms the text before it is counted. Chunks are counted one by one
    and each is rounded up, so the answer errs to the short side. One pass, however long
    the text.
    """

    done = 0
    while done < len(text):
        ahead = min(done + _CHUNK, len(text))
        part = text[len(text) - ahead : len(text) - done] if last else text[done:ahead]
        tokens = count(through(part))
        if tokens > room:
            return done + _halve_to_fit(
                part, room, lambda kept: count(through(kept)), last=last
            )
        room, done = room - tokens, ahead
    return done


def _halve_to_fit(part: str, room: int, cost: Count, *, last: bool) -> int:
    """Count the characters of a chunk that fit `room`, by halving."""
    low, high = 0, len(part)
    while high - low > 1:
        middle = (low + high) // 2
        kept = part[len(part) - middle :] if last else part[:middle]
        low, high = (middle, high) if cost(kept) <= room else (low, middle)
    return low
