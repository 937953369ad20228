"""Citations: page ids that a text names as `[ref: id]`. Pure, bounded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

#: Text without which a message cites nothing, in the JSON of its content.
SIGN = b"[ref:"
#: Most ids of one message, and characters of an id; a page's id has no more.
IDS, CHARS = 32, 128
#: Most unknown ids that an answer names.
MOST_NAMED = 10

_CITATION = re.compile(r"\[ref:([^\[\]\n]+)\]")
_FENCES = ("```", "~~~")


def list_cited_ids(text: str) -> tuple[str, ...]:
    """List the ids that a text cites, each once; several stand between commas.

    Lines of fenced code are left out: they quote what somebody else wrote.
    """
    found: dict[str, None] = {}
    for line in _list_prose(text):
        for match in _CITATION.finditer(line):
            for each in match[1].split(","):
                if name := each.strip():
                    # One character too many keeps a long id from becoming another id.
                    found[name[: CHARS + 1]] = None
    return tuple(found)[:IDS]


def _list_prose(text: str) -> list[str]:
    """List the lines of a text outside fenced code."""
    prose, fence = [], ""
    for line in text.split("\n"):
        start = line.lstrip()[:3]
        if start in _FENCES and start == (fence or start):
            fence = "" if fence else start
        elif not fence:
            prose.append(line)
    return prose


def list_unknown(cites: Iterable[str], pages: Collection[str]) -> list[str]:
    """List the first ten cited ids that name none of these pages, cut to bounds."""
    return [each[:CHARS] for each in cites if each not in pages][:MOST_NAMED]
