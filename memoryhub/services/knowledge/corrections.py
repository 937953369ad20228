"""Correction of a fact by an operator, and its undo, each in one commit.

See decision 90, and decision 100 for the lines of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from memoryhub.errors import (
    ContentErasedError,
    FactUnknownError,
    InvalidError,
    StaleError,
)
from memoryhub.kernel.knowledge.blocks import WriteBlock
from memoryhub.kernel.knowledge.corrections import CorrectFacts
from memoryhub.kernel.knowledge.facts import (
    AssertFacts,
    NewFact,
    Reason,
    RetractFacts,
)
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks as block_reading
from memoryhub.queries.knowledge import corrected_lines, period_changes
from memoryhub.queries.knowledge import facts as reading
from memoryhub.queries.knowledge.corrected_lines import CorrectionCommit, LineChoice
from memoryhub.queries.knowledge.facts import (
    AssertionLine,
    AssertionSource,
    FactStory,
)
from memoryhub.queries.knowledge.timelines import find_timeline
from memoryhub.services.knowledge import blocks, facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A new value of a fact."""

    value: str
    #: Since when the new value is true; None: the old value was never true.
    since: datetime | None
    #: Lines of blocks that get the new value.
    lines: tuple[LineChoice, ...] = ()
    #: Begins of other periods of the old value in which it was never true either.
    periods: frozenset[datetime] = frozenset()


def build_correction(
    subject: Subject, story: FactStory, correction: Correction, *, now: datetime
) -> CorrectFacts:
    """Build the command that corrects a fact, and the chosen lines of blocks.

    A value that was never true is retracted, and the new value takes its time. If no
    other period of the value is left, it is retracted as wrong, which bars models from
    it. A value that has changed ends where the new one begins. `preview_changes` tells
    what else would change. Raises InvalidError of
    `value` for the same value, of `since` for a time before the old value was true, of
    `lines` for lines of a change that lies ahead, StaleError if a chosen line or period
    has changed or is not offered, ValueTooLargeError.
    """
    was, since = story.fact, correction.since
    if correction.value == was.value:
        raise InvalidError(loc="value")
    many = was.cardinality == "multi"
    old = NewFact(was.entity, was.predicate, was.value, "operator", many=many)
    new = old._replace(value=correction.value)
    gone: RetractFacts | None
    if since is None:
        claims, gone = _replace_periods(new, story, correction.periods)
    else:
        if since <= was.valid_from:
            raise InvalidError(loc="since")
        claims, gone = [new._replace(valid_from=since)], None
        if many:
            # Other values of the property are no reason for this value to end.
            ended = old._replace(valid_from=was.valid_from, valid_until=since)
            claims.insert(0, ended)
    command = facts.build_assertion(
        subject, [(claim, None) for claim in claims], now=now
    )
    return CorrectFacts(
        claims=replace(command, replaced=gone),
        blocks=_build_edits(story, correction, now=now) if correction.lines else (),
    )


def _build_edits(
    story: FactStory, correction: Correction, *, now: datetime
) -> tuple[WriteBlock, ...]:
    """Build the commands that put the new value into the chosen lines. Nine queries."""
    if correction.since is not None and correction.since > now:
        # Blocks say what holds now.
        raise InvalidError(loc="lines")
    views = block_reading.list_blocks(story.home)
    lines = corrected_lines.list_correctable_lines(story, views, at=now)
    offered = {each.place: each.pieces for each in lines if each.obstacle is None}
    # A value of several lines stays in the line.
    value = " ".join(correction.value.split())
    edits = dict[str, dict[int, str]]()
    for place in correction.lines:
        if place not in offered:
            raise StaleError
        edits.setdefault(place.block, {})[place.line] = value.join(offered[place][::2])
    return tuple(
        blocks.build_lines_edit(view, edits[view.block])
        for view in views
        if view.block in edits
    )


def _replace_periods(
    claim: NewFact, story: FactStory, begins: frozenset[datetime]
) -> tuple[list[NewFact], RetractFacts]:
    """Put a claim in the place of the fact, and of the periods that begin at `begins`.

    The claim is made once for each time of the replaced assertions, in their order:
    another value that began between two of them has its time as before.
    """
    chosen = period_changes.list_chosen(story, {*begins})
    if not begins <= {each.begin for each in chosen}:
        raise StaleError
    times = dict[tuple[datetime, datetime | None], int]()
    seqs = []
    for period in chosen:
        own = period_changes.list_statements(story, period)
        seqs += [each.seq for each in own]
        # An assertion may have been hidden at first by another value.
        for each in own:
            time = max(each.valid_from, period.begin), each.valid_until
            times.setdefault(time, each.seq)
        if all(begin != period.begin for begin, _ in times):
            # The period goes on from an earlier one, which stays.
            times[period.begin, period.end] = period.seq
    ordered = sorted(times, key=lambda time: times[time])
    claims = [
        claim._replace(valid_from=begin, valid_until=until) for begin, until in ordered
    ]
    is_left = len(chosen) <= len(period_changes.list_others(story))
    reason: Reason = "withdrawn" if is_left else "wrong"
    return claims, RetractFacts(seqs=tuple(sorted(seqs)), reason=reason)


def build_undo(home: Thread, seq: int, *, now: datetime) -> CorrectFacts:
    """Build the command that undoes the correction whose last event is `seq`.

    Its claims are withdrawn, and what they replaced is asserted again, with its source.
    Lines of blocks that are as the correction left them get their text of before. Nine
    queries, and nine for the blocks. Raises FactUnknownError for an event by which no
    operator asserted a fact, StaleError if the property has changed since,
    ContentErasedError if what was there before is erased.
    """
    edit, timeline = reading.find_edit(home, seq), find_timeline(home, seq)
    if edit is None or timeline is None:
        raise FactUnknownError
    if not edit.standing:
        raise StaleError
    commit = corrected_lines.find_commit(home, seq)
    claims = AssertFacts(
        facts=(),
        replaced=RetractFacts(seqs=tuple(commit.asserted), reason="withdrawn"),
    )
    if commit.retracted:
        gone = [each for each in timeline.assertions if each.seq in commit.retracted]
        lines = [*reading.iter_assertion_lines(home, [(timeline, a) for a in gone])]
        if not lines:
            raise ContentErasedError
        built = dict.fromkeys(map(_build_claim, lines))
        asserted = facts.build_assertion(home.subject, [*built], now=now)
        claims = replace(asserted, replaced=claims.replaced)
    return CorrectFacts(claims=claims, blocks=_build_restores(home, commit))


def _build_restores(home: Thread, commit: CorrectionCommit) -> tuple[WriteBlock, ...]:
    """Build the commands that bring back the lines that a commit changed."""
    if not commit.written:
        return ()
    views = block_reading.list_blocks(home)
    edits = dict[str, dict[int, str]]()
    for line in corrected_lines.list_corrected_lines(home, commit, views):
        if line.stands is not None:
            edits.setdefault(line.block, {})[line.stands] = line.before
    return tuple(
        blocks.build_lines_edit(view, edits[view.block])
        for view in views
        if view.block in edits
    )


def _build_claim(line: AssertionLine) -> tuple[NewFact, AssertionSource | None]:
    claim = NewFact(
        entity=line.entity,
        predicate=line.predicate,
        value=line.value,
        origin="operator",
        confidence=line.confidence,
        valid_from=line.valid_from,
        valid_until=line.valid_until,
        many=line.many,
    )
    return claim, line.source
