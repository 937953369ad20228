"""The prefix lens: what a request has in common with the one before, from its start.

Pure. Providers charge less for it. Which part broke it is told by the refs alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.levels.contexts import Record, Ref, Section, Texts
from memoryhub.kernel.levels.tokens import Count, estimate
from memoryhub.kernel.packing import packers

#: Tokens that providers cache by: a prefix counts in whole blocks.
BLOCKS = (1, 128, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A recorded request, and the texts it refers to."""

    record: Record
    texts: Texts
    #: The thread that packed it.
    thread: UUID
    #: Its bytes, if they are at hand.
    made: bytes | None = None

    def refs(self, section: Section) -> tuple[Ref, ...]:
        """Return a section's refs with their threads, so that forks can be compared."""
        return tuple(
            ref._replace(thread=ref.thread or self.thread) for ref in section.refs
        )


class Break(NamedTuple):
    """Where two requests part."""

    section: str
    #: Of the refs in it; 0 for what has none.
    place: int
    #: What stood there, and what stands there now; None where a section ends.
    before: Ref | None = None
    after: Ref | None = None


class Common(NamedTuple):
    """What two requests have in common from their first byte on."""

    bytes: int
    tokens: int


def parting(previous: Request, request: Request) -> Break | None:
    """Return where two requests part, judged by refs; None if they never do."""
    pairs = zip_longest(previous.record.sections, request.record.sections)
    for before, after in pairs:
        if before and after and before.name == after.name:
            if (found := _within(previous, request, before, after)) is not None:
                return found
            continue
        return _joint(previous, request, before, after)
    return None


def _within(
    previous: Request, request: Request, before: Section, after: Section
) -> Break | None:
    pairs = zip_longest(previous.refs(before), request.refs(after))
    for index, (old, new) in enumerate(pairs):
        if old != new:
            return Break(after.name, index, old, new)
    if _same_sides(after.name, previous.record, request.record):
        return None
    return Break(after.name, 0)


def _same_sides(name: str, previous: Record, record: Record) -> bool:
    """Whether the rest of a section is the same, which no ref identifies."""
    if name == "rules":
        return previous.rules == record.rules
    if name == "manifest":
        return previous.manifest == record.manifest
    if name == "recall":
        return previous.recall == record.recall
    return name != "tools" or (previous.tools, previous.own_tools) == (
        record.tools,
        record.own_tools,
    )


def _joint(
    previous: Request, request: Request, before: Section | None, after: Section | None
) -> Break:
    """A section came in between or fell out."""
    later = {section.name for section in request.record.sections}
    if before is not None and before.name not in later:
        return Break(before.name, 0, next(iter(previous.refs(before)), None), None)
    assert after is not None
    return Break(after.name, 0, None, next(iter(request.refs(after)), None))


def common(previous: Request, request: Request, *, count: Count = estimate) -> Common:
    """Measure exactly how much two requests share.

    Raises KeyError when a text of either is gone.
    """
    ours, theirs = (_assembled(each) for each in (request, previous))
    shared = ours[: _length(ours, theirs)]
    # It may end inside a character.
    return Common(len(shared), count(shared.decode(errors="ignore")))


def _assembled(request: Request) -> bytes:
    if request.made is not None:
        return request.made
    packer = packers.PACKERS[request.record.packer]
    return packer.assemble(request.record, request.texts, thread=request.thread)


def _length(one: bytes, other: bytes) -> int:
    """Of the common prefix of two texts; compares halves, at the speed of C."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def in_blocks(tokens: int, block: int) -> int:
    """Round tokens down to whole blocks."""
    return tokens - tokens % block


def cost(tokens: int, cached: int, *, price: float, cached_price: float) -> float:
    """Return a request's cost with `cached` tokens; prices are per million."""
    return (cached * cached_price + (tokens - cached) * price) / 1e6
