"""Lines of blocks that a correction of a fact can change, or has changed.

Never writes. See decision 100.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

import orjson

from memoryhub.kernel.knowledge.facts import FactAsserted, FactRetracted
from memoryhub.kernel.knowledge.mentions import split_line
from memoryhub.kernel.state.page_events import PageUpdated
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import block_lines, blocks
from memoryhub.queries.knowledge.blocks import BlockView
from memoryhub.queries.knowledge.facts import FactStory

#: Reason why a line is not offered: its block is read-only, the line says a value that
#: the correction does not replace, or the line has the value's words, but not as they
#: are written in the fact.
Obstacle = Literal["read_only", "outdated", "otherwise"]


class LineChoice(NamedTuple):
    """A line of one version of a block."""

    block: str
    version: int
    #: Number of the line, from 1 on.
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectableLine:
    """A line of a block that says the value of a fact, or an earlier value."""

    place: LineChoice
    value: str
    #: Whether the value holds no longer.
    outdated: bool
    #: Whether a word of the property's name stands in the line, too.
    names_property: bool
    #: Texts of the line; every second is the value as it stands there.
    pieces: tuple[str, ...]
    obstacle: Obstacle | None

    @property
    def is_sure(self) -> bool:
        """Tell whether the line is about the property, not only has a value's words.

        It names the property, or the value is all that it says.
        """
        around = "".join(self.pieces[::2])
        return self.names_property or not any(map(str.isalnum, around))


@dataclass(slots=True, kw_only=True)
class CorrectionCommit:
    """Events of one commit that corrected a fact, or undid a correction."""

    asserted: list[int] = field(default_factory=list)
    retracted: set[int] = field(default_factory=set)
    #: Blocks' page ids, each with the event that wrote the block.
    written: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedLine:
    """A line of a block that a correction changed."""

    block: str
    #: Number of the line in the correction; None if a text of the block is erased.
    line: int | None
    before: str
    #: Number of the present line that is as the correction left it; None without one.
    stands: int | None
    #: Whether the block has the line of before.
    undone: bool


def list_correctable_lines(
    story: FactStory, views: Sequence[BlockView], *, at: datetime
) -> list[CorrectableLine]:
    """List the lines that say a fact's value, or an outdated value of its property.

    An outdated value is replaced with the fact's own if the fact is the only one that
    holds. One query.
    """
    claims = {each.seq: each.value for each in story.unopened.assertions}
    values = {claims[seq] for seq in story.rests_on}
    single = story.fact.cardinality == "single" and story.fact.is_valid_at(at)
    named = {view.block: view for view in views}
    found = dict[LineChoice, CorrectableLine]()
    for line in block_lines.list_lines_of_fact(
        story.home, views, story.unopened, at=at
    ):
        if claims[line.seq] not in values and not line.outdated:
            continue
        view = named[line.block]
        text = (view.text or "").splitlines()[line.line - 1]
        pieces = tuple(split_line(text, line.value))
        obstacle: Obstacle | None = None
        if view.read_only:
            obstacle = "read_only"
        elif line.outdated and not single:
            obstacle = "outdated"
        elif len(pieces) == 1:
            obstacle = "otherwise"
        place = LineChoice(line.block, view.version, line.line)
        # A line that says two values is one choice.
        found.setdefault(
            place,
            CorrectableLine(
                place=place,
                value=line.value,
                outdated=line.outdated,
                names_property=line.names_property,
                pieces=pieces,
                obstacle=obstacle,
            ),
        )
    return [*found.values()]


def find_commit(home: Thread, seq: int) -> CorrectionCommit:
    """Find the events of the commit that ends at `seq`. One query."""
    rows = Event.objects.filter(thread=home, seq__lte=seq).order_by("-seq")
    rows = rows.only("seq", "type", "at", "actor", "body", "page")
    commit = CorrectionCommit()
    last: Event | None = None
    for row in rows.iterator(chunk_size=10):
        last = last or row
        if (row.at, row.actor) != (last.at, last.actor):
            break
        if row.type == FactAsserted.event_type:
            commit.asserted.append(row.seq)
        elif row.type == FactRetracted.event_type:
            commit.retracted.update(orjson.loads(row.body)["seqs"])
        elif row.type == PageUpdated.event_type and row.page is not None:
            commit.written.insert(0, (row.page, row.seq))
    return commit


def list_corrected_lines(
    home: Thread, commit: CorrectionCommit, views: Sequence[BlockView]
) -> list[CorrectedLine]:
    """List the lines that a commit changed, beside the present blocks.

    One query for each block of the commit.
    """
    there = {view.page_id: view for view in views}
    return [
        line
        for page_id, seq in commit.written
        for line in _iter_changed(home, page_id, seq, there.get(page_id))
    ]


def _iter_changed(
    home: Thread, page_id: str, seq: int, view: BlockView | None
) -> Iterator[CorrectedLine]:
    after, before = blocks.list_versions(home, page_id, seq=seq, limit=2)
    name = view.block if view else after.name
    if before.text is None or after.text is None:
        yield CorrectedLine(block=name, line=None, before="", stands=None, undone=False)
        return
    present = ((view and view.text) or "").splitlines()
    pairs = zip(before.text.splitlines(), after.text.splitlines(), strict=False)
    for number, (was, now) in enumerate(pairs, start=1):
        if was != now:
            yield CorrectedLine(
                block=name,
                line=number,
                before=was,
                stands=_find_line(present, now, number),
                undone=_find_line(present, was, number) is not None,
            )


def _find_line(lines: Sequence[str], text: str, number: int) -> int | None:
    """Find the line at its number, else the only line of this text."""
    if lines[number - 1 : number] == [text]:
        return number
    return lines.index(text) + 1 if lines.count(text) == 1 else None
