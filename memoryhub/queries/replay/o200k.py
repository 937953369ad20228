"""The tokenizer `o200k_base`: tiktoken over ranks that are vendored, never fetched.

The one module that imports the extra `tokens`; loaded by name.
"""

from __future__ import annotations

import hashlib
import lzma
import re
from base64 import b64decode
from itertools import pairwise
from pathlib import Path

import tiktoken

from memoryhub.kernel.levels.tokens import Count

NAME = "o200k_base"
RANKS = (
    Path(__file__).resolve().parent.parent.parent / "vendor/tiktoken-0.14.0/o200k_base"
).with_suffix(".tiktoken.xz")
#: Of the unpacked ranks, as tiktoken itself checks them.
SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
#: What a text is cut up by before its bytes are merged (source: tiktoken, o200k_base).
_LETTERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS[0]}*{_LETTERS[1]}+{_ENDING}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS[0]}+{_LETTERS[1]}*{_ENDING}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
#: tiktoken panics at some 400,000 spaces in a row; far below that, they are parted.
_SPACES = re.compile(r"\s{65536}")


class DamagedError(ValueError):
    """The vendored ranks are not what they were."""


def load(path: Path = RANKS) -> Count:
    """Count as `o200k_base` does. Half a second and 75 MiB: keep what it returns.

    Raises DamagedError unless the ranks have their digest, OSError without them.
    """
    encoding = tiktoken.Encoding(
        NAME, pat_str=PATTERN, mergeable_ranks=_ranks(path), special_tokens={}
    )

    def count(text: str) -> int:
        cuts = [found.end() for found in _SPACES.finditer(text)]
        if not cuts:
            return len(encoding.encode_ordinary(text))
        parts = (text[start:end] for start, end in pairwise([0, *cuts, len(text)]))
        return sum(len(encoding.encode_ordinary(part)) for part in parts)

    return count


def _ranks(path: Path) -> dict[bytes, int]:
    try:
        text = lzma.decompress(path.read_bytes())
    except lzma.LZMAError:
        raise DamagedError from None
    if hashlib.sha256(text).hexdigest() != SHA256:
        raise DamagedError
    pairs = (line.split() for line in text.splitlines())
    return {b64decode(token): int(rank) for token, rank in pairs}
