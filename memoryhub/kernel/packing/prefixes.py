"""The prefix lens: the part that a request shares with the one before, from its start.

Pure. Providers charge less for the shared prefix. The refs alone tell which part broke
the prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.context.contexts import ContextRecord, Ref, Section, Texts
from memoryhub.kernel.context.tokens import Count, estimate_tokens
from memoryhub.kernel.packing import packers

#: Tokens per cache block of providers: a prefix counts in whole blocks.
BLOCKS = (1, 128, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A recorded request, and the texts of its refs."""

    record: ContextRecord
    texts: Texts
    #: The thread that packed it.
    thread: UUID
    #: Bytes of the request, if they are at hand.
    made: bytes | None = None

    def list_refs(self, section: Section) -> tuple[Ref, ...]:
        """List a section's refs with their threads, so that forks can be compared."""
        return tuple(
            ref._replace(thread=ref.thread or self.thread) for ref in section.refs
        )


class PrefixBreak(NamedTuple):
    """The place where two requests part."""

    section: str
    #: Index among the section's refs; 0 for a section without refs.
    place: int
    #: Ref that stood there, and ref that stands there now; None where a section ends.
    before: Ref | None = None
    after: Ref | None = None


class CommonPrefix(NamedTuple):
    """Size of the prefix that two requests share."""

    bytes: int
    tokens: int


def find_break(
    previous: RecordedRequest, request: RecordedRequest
) -> PrefixBreak | None:
    """Find where two requests part, judged by refs; None if they never do."""
    pairs = zip_longest(previous.record.sections, request.record.sections)
    for before, after in pairs:
        if before and after and before.name == after.name:
            if (
                found := _find_section_break(previous, request, before, after)
            ) is not None:
                return found
            continue
        return _build_joint_break(previous, request, before, after)
    return None


def _find_section_break(
    previous: RecordedRequest, request: RecordedRequest, before: Section, after: Section
) -> PrefixBreak | None:
    pairs = zip_longest(previous.list_refs(before), request.list_refs(after))
    for index, (old, new) in enumerate(pairs):
        if old != new:
            return PrefixBreak(after.name, index, old, new)
    if _has_same_sides(after.name, previous.record, request.record):
        return None
    return PrefixBreak(after.name, 0)


def _has_same_sides(name: str, previous: ContextRecord, record: ContextRecord) -> bool:
    """Return whether the parts of a section that no ref identifies are the same."""
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


def _build_joint_break(
    previous: RecordedRequest,
    request: RecordedRequest,
    before: Section | None,
    after: Section | None,
) -> PrefixBreak:
    """Build the break where a section was inserted or left out."""
    later = {section.name for section in request.record.sections}
    if before is not None and before.name not in later:
        return PrefixBreak(
            before.name, 0, next(iter(previous.list_refs(before)), None), None
        )
    assert after is not None
    return PrefixBreak(after.name, 0, None, next(iter(request.list_refs(after)), None))


def measure_common_prefix(
    previous: RecordedRequest,
    request: RecordedRequest,
    *,
    count: Count = estimate_tokens,
) -> CommonPrefix:
    """Measure exactly how much two requests share.

    Raises KeyError when a text of either request is gone.
    """
    ours, theirs = (_assemble_request(each) for each in (request, previous))
    shared = ours[: _measure_common_length(ours, theirs)]
    # The shared bytes may end inside a character.
    return CommonPrefix(len(shared), count(shared.decode(errors="ignore")))


def _assemble_request(request: RecordedRequest) -> bytes:
    if request.made is not None:
        return request.made
    packer = packers.PACKERS[request.record.packer]
    return packer.assemble(request.record, request.texts, thread=request.thread)


def _measure_common_length(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix; compares halves, at the speed of C."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def round_to_blocks(tokens: int, block: int) -> int:
    """Round tokens down to whole blocks."""
    return tokens - tokens % block


def compute_cost(
    tokens: int, cached: int, *, price: float, cached_price: float
) -> float:
    """Compute a request's cost with `cached` tokens; prices are per million."""
    return (cached * cached_price + (tokens - cached) * price) / 1e6
