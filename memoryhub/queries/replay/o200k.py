"""The tokenizer `o200k_base`: tiktoken over vendored ranks, without a download.

The only module that imports the extra `tokens`; loaded by name.
"""

from __future__ import annotations

import hashlib
import lzma
import re
from base64 import b64decode
from itertools import pairwise
from pathlib import Path

import tiktoken

from memoryhub.kernel.context.tokens import Count

NAME = "o200k_base"
RANKS = (
    Path(__file__).resolve().parent.parent.parent / "vendor/tiktoken-0.14.0/o200k_base"
).with_suffix(".tiktoken.xz")
#: Digest of the unpacked ranks, as in tiktoken's own check.
SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
#: Pattern that cuts a text before bytes are merged (source: tiktoken, o200k_base).
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
#: tiktoken panics at some 400,000 spaces in a row; longer runs are cut far below that.
_SPACES = re.compile(r"\s{65536}")


class DamagedError(ValueError):
    """The vendored ranks are corrupt."""


def load(path: Path = RANKS) -> Count:
    """Load a counter of `o200k_base` tokens. Half a second and 75 MiB: keep the result.

    Raises DamagedError if the ranks do not have their digest, OSError without the file.
    """
    encoding = tiktoken.Encoding(
        NAME, pat_str=PATTERN, mergeable_ranks=_read_ranks(path), special_tokens={}
    )

    def count(text: str) -> int:
        cuts = [found.end() for found in _SPACES.finditer(text)]
        if not cuts:
            return len(encoding.encode_ordinary(text))
        parts = (text[start:end] for start, end in pairwise([0, *cuts, len(text)]))
        return sum(len(encoding.encode_ordinary(part)) for part in parts)

    return count


def _read_ranks(path: Path) -> dict[bytes, int]:
    try:
        text = lzma.decompress(path.read_bytes())
    except lzma.LZMAError:
        raise DamagedError from None
    if hashlib.sha256(text).hexdigest() != SHA256:
        raise DamagedError
    pairs = (line.split() for line in text.splitlines())
    return {b64decode(token): int(rank) for token, rank in pairs}
