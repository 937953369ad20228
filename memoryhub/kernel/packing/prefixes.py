"""The prefix lens: what a request has in common with the one before, from its start.

Pure. Providers charge less for it. Which part broke it is told by the refs alone; bytes
are compared only from the first part on that differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.levels.contexts import Record, Ref, Section, Texts
from memoryhub.kernel.levels.tokens import Count, estimate
from memoryhub.kernel.packing import assembling, packers
from memoryhub.kernel.packing.assembling import BLANK_LINE, DEVELOPER, SECTIONS
from memoryhub.kernel.packing.packing import PACKER
from memoryhub.kernel.text.json_text import in_string

#: Tokens that providers cache by: a prefix counts in whole blocks.
BLOCKS = (1, 128, 1024)
_MESSAGES, _TOOLS = '"messages":[', '"tools":'


class OrderError(ValueError):
    """No order of sections: a name is unknown or repeated, or tools are in between."""


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


def ordered(record: Record, order: Sequence[str]) -> Record:
    """Reorder the record's sections; those not named keep their place.

    Raises OrderError.
    """
    if len({*order}) < len(order) or not {*order} <= {*SECTIONS}:
        raise OrderError
    if record.packer != PACKER:
        # Messages have one order: it is what a conversation is.
        if order:
            raise OrderError
        return record
    ranks = {name: rank for rank, name in enumerate(order)}
    # Tools stand beside the messages, so before all of them or after.
    if ranks.get("tools", 0) not in (0, len(order) - 1):
        raise OrderError
    last = len(SECTIONS)
    if ranks.get("tools"):
        ranks["tools"] = last + 1
    sections = sorted(record.sections, key=lambda each: ranks.get(each.name, last))
    if "tools" not in ranks:
        sections.sort(key=lambda each: each.name == "tools")
    return replace(record, sections=tuple(sections))


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
    if assembling.same_sides(after.name, previous.record, request.record):
        return None
    return Break(after.name, 0)


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
    """Measure exactly how much two requests share. Linear in what they share.

    Raises KeyError when a text that is needed for it is gone.
    """
    if {request.record.packer, previous.record.packer} != {PACKER}:
        ours, theirs = (_assembled(each) for each in (request, previous))
        shared = ours[: _length(ours, theirs)]
        return Common(len(shared), count(shared.decode(errors="ignore")))
    return _common(previous, request, count)


def _assembled(request: Request) -> bytes:
    if request.made is not None:
        return request.made
    assemble = packers.ASSEMBLE[request.record.packer]
    return assemble(request.record, request.texts, thread=request.thread)


def _common(previous: Request, request: Request, count: Count) -> Common:
    same = _equal_sections(previous, request)
    sections = request.record.sections
    text = "".join(_parts(request, sections[:same], after=""))
    after = sections[same - 1].name if same else ""
    ours, theirs = (
        _rest(each, each.record.sections[same:], after=after)
        for each in (request, previous)
    )
    shared = text.encode() + _shared(ours, theirs)
    # It may end inside a character.
    return Common(len(shared), count(shared.decode(errors="ignore")))


def _equal_sections(previous: Request, request: Request) -> int:
    """How many sections at the start are the same by their refs."""
    same = 0
    for before, after in zip(
        previous.record.sections, request.record.sections, strict=False
    ):
        if before.name != after.name or _within(previous, request, before, after):
            break
        same += 1
    return same


def _shared(ours: Iterator[str], theirs: Iterator[str]) -> bytes:
    """The common prefix of two texts, reading on only while they are the same."""
    shared, left, right = b"", b"", b""
    while True:
        left = left or next(ours, "").encode()
        right = right or next(theirs, "").encode()
        length = _length(left, right)
        shared, left, right = shared + left[:length], left[length:], right[length:]
        if (left and right) or not length:
            return shared


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


def _rest(
    request: Request, sections: Sequence[Section], *, after: str
) -> Iterator[str]:
    """The request from these sections on to its end."""
    names = [section.name for section in request.record.sections]
    if not names:
        yield assembling.HEAD
    yield from _parts(request, sections, after=after)
    last = names[-1] if names else ""
    open_list = last != "tools" or names[0] == "tools"
    yield _closing(last) + ("]}" if open_list else "}")


def _parts(
    request: Request, sections: Iterable[Section], *, after: str
) -> Iterator[str]:
    """Each section with what stands before it: by default, as the packer has it."""
    for section in sections:
        text = assembling.written(
            request.record, section, request.texts, thread=request.thread
        )
        yield _opening(section.name, after=after) + text
        after = section.name


def _opening(name: str, *, after: str) -> str:
    if name == "tools":
        return _closing(after) + "]," + _TOOLS if after else "{" + _TOOLS
    start = {"": "{" + _MESSAGES, "tools": "," + _MESSAGES}.get(after)
    if name in DEVELOPER:
        if after in DEVELOPER:
            return in_string(BLANK_LINE)
        return ("," if start is None else start) + assembling.DEVELOPER_HEAD
    return _closing(after) + "," if start is None else start


def _closing(name: str) -> str:
    return assembling.DEVELOPER_END if name in DEVELOPER else ""


def whole(request: Request) -> bytes:
    """Return the request with its sections in the order of its record."""
    return "".join(_rest(request, request.record.sections, after="")).encode()


def in_blocks(tokens: int, block: int) -> int:
    """Round tokens down to whole blocks."""
    return tokens - tokens % block


def cost(tokens: int, cached: int, *, price: float, cached_price: float) -> float:
    """Return a request's cost with `cached` tokens; prices are per million."""
    return (cached * cached_price + (tokens - cached) * price) / 1e6
