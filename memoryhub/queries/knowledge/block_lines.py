"""Lines of a person's blocks that say facts: current ones, and outdated ones.

The blocks stand in front of every request, so a line that says an outdated fact undoes
its correction. Found by the words of a fact's value, thus a hint. Never writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from memoryhub.journal import texts
from memoryhub.journal.texts import OpenedEvent
from memoryhub.kernel.knowledge.mentions import TextLines
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.blocks import BlockView
from memoryhub.queries.knowledge.timelines import Timeline, iter_timelines, select_rows

#: Newest assertions whose facts are looked for in blocks.
NEWEST = 500
#: Most lines that are listed because they name a property.
NAMING = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLine:
    """A line of a block that says a value of a fact."""

    block: str
    #: Number of the line, from 1 on.
    line: int
    entity: str
    predicate: str
    #: The value that the line says.
    value: str
    #: Seq of an assertion of that value.
    seq: int
    #: Whether the value holds no longer.
    outdated: bool
    #: The values that hold instead of an outdated value.
    instead: tuple[str, ...]
    #: Whether a word of the property's name stands in the line, too. Without one the
    #: line may say the value of something else.
    names_property: bool


class NamingLine(NamedTuple):
    """A line of a block that names a property, but says no known value of it."""

    block: str
    #: Number of the line, from 1 on.
    line: int
    text: str


class _ClaimedValue(NamedTuple):
    """A value of a property, by its newest assertion."""

    seq: int
    outdated: bool


class _ClaimedProperty(NamedTuple):
    """Values of a property: those that hold, then those that hold no longer."""

    home: UUID
    #: Whether one value holds at a time.
    single: bool
    values: Sequence[_ClaimedValue]


def list_lines_of_fact(
    home: Thread, views: Iterable[BlockView], timeline: Timeline, *, at: datetime
) -> list[BlockLine]:
    """List the lines that say a value of one property, current or outdated.

    One query.
    """
    return _find_lines(home, views, [_build_property(home, timeline, at)])


def list_naming_lines(
    views: Iterable[BlockView], predicate: str, saying: Collection[tuple[str, int]]
) -> list[NamingLine]:
    """List at most NAMING lines that name a property, without the `saying` ones.

    `saying` are lines, each as (block, number), that say a known value of the property.
    The others may say a value that no statement ever held. No query.
    """
    found = [
        NamingLine(view.block, number, rows[number - 1])
        for view in views
        if view.text
        for rows in (view.text.splitlines(),)
        for number in TextLines(view.text).find_naming(predicate)
        if (view.block, number) not in saying
    ]
    return found[:NAMING]


def list_outdated_lines(
    home: Thread, views: Iterable[BlockView], *, at: datetime
) -> list[BlockLine]:
    """List the lines that say an outdated value of the facts asserted last.

    Two queries, two for fifty properties, and one for 500 of their values.
    """
    claims = select_rows(home).filter(cardinality=None).order_by("-seq")
    newest = {*claims.values_list("timeline", flat=True)[:NEWEST]}
    timelines = iter_timelines(select_rows(home).filter(timeline__in=newest))
    claimed = (_build_property(home, each, at) for each in timelines)
    changed = [each for each in claimed if any(value.outdated for value in each.values)]
    return [line for line in _find_lines(home, views, changed) if line.outdated]


def _build_property(home: Thread, timeline: Timeline, at: datetime) -> _ClaimedProperty:
    held = {fact.value for fact in timeline.facts if fact.is_valid_at(at)}
    newest = {each.value: each for each in timeline.assertions}
    current = [_ClaimedValue(newest[value].seq, outdated=False) for value in held]
    earlier = [
        _ClaimedValue(each.seq, outdated=True)
        for value, each in newest.items()
        if value not in held and timeline.find_outdated(each, at) is not None
    ]
    single = timeline.cardinality == "single"
    return _ClaimedProperty(home.id, single, current + earlier)


def _find_lines(
    home: Thread, views: Iterable[BlockView], properties: Sequence[_ClaimedProperty]
) -> list[BlockLine]:
    lines = {view.block: TextLines(view.text) for view in views if view.text}
    seqs = [each.seq for of in properties for each in of.values] if lines else []
    opened = texts.open_events_at(home, [(home.id, seq) for seq in seqs])
    return [
        line
        for block, of_block in lines.items()
        for each in properties
        for line in _match_values(block, of_block, each, opened)
    ]


def _match_values(
    block: str,
    lines: TextLines,
    claimed: _ClaimedProperty,
    opened: Mapping[tuple[UUID, int], OpenedEvent],
) -> Iterator[BlockLine]:
    """Yield the lines of one block that say values of one property."""
    events = ((each, opened[claimed.home, each.seq]) for each in claimed.values)
    values = [(each, event.content) for each, event in events if event.content]
    found = lines.find_values([content["value"] for _, content in values])
    instead: tuple[str, ...] = ()
    current: set[int] = set()
    for (value, content), numbers in zip(values, found, strict=True):
        text = content["value"]
        if not value.outdated:
            instead = (*instead, text)
            current.update(numbers)
        for number in numbers:
            # A line may say that the only value has changed from one to the other.
            if not (value.outdated and claimed.single and number in current):
                yield BlockLine(
                    block=block,
                    line=number,
                    entity=content["entity"],
                    predicate=content["predicate"],
                    value=text,
                    seq=value.seq,
                    outdated=value.outdated,
                    instead=instead if value.outdated else (),
                    names_property=lines.has_word(number, content["predicate"]),
                )
