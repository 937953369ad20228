"""Periods of a property that a correction would change, before it is made.

Never writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from memoryhub.journal import texts
from memoryhub.journal.rows.knowledge import assertion_rows
from memoryhub.kernel.knowledge.derivation import Fact, TimelineAssertion
from memoryhub.kernel.knowledge.facts import AssertFacts
from memoryhub.queries.knowledge.facts import FactStory
from memoryhub.queries.knowledge.timelines import Timeline
from memoryhub.vault.keys import keys

#: Other periods of a value that a correction may change along, the newest.
OFFERED = 50


class FactPeriod(NamedTuple):
    """A time in which a value is true."""

    value: str
    valid_from: datetime
    #: None: until something else is known.
    valid_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodChanges:
    """Periods that are no longer as they were, and those in their place, by begin."""

    before: tuple[FactPeriod, ...]
    after: tuple[FactPeriod, ...]
    #: Whether more changes than the chosen periods, within their time.
    beyond: bool


def list_others(story: FactStory) -> list[Fact]:
    """List the other periods of a fact's value, by begin. No query."""
    own = _find_own(story)
    facts = story.unopened.facts
    return [each for each in facts if each.value == own.value and each != own]


def list_chosen(story: FactStory, begins: set[datetime]) -> list[Fact]:
    """List the fact's own period and those OFFERED that begin at `begins`."""
    offered = list_others(story)[-OFFERED:]
    others = [each for each in offered if each.begin in begins]
    return sorted([_find_own(story), *others], key=lambda each: each.begin)


def list_statements(story: FactStory, period: Fact) -> list[TimelineAssertion]:
    """List the assertions that belong to a period of a fact's value.

    In the order in which they were made. An assertion that carries several periods
    belongs to the first of them.
    """
    facts = story.unopened.facts
    earlier = [
        each for each in facts if each.value == period.value and each.end is not None
    ]
    since = [each.end for each in earlier if each.end and each.end <= period.begin]
    return sorted(
        each
        for each in story.unopened.list_supports(period)
        if not since or each.valid_from >= max(since)
    )


def preview_changes(
    story: FactStory, command: AssertFacts, chosen: list[Fact]
) -> PeriodChanges:
    """Tell which periods of a fact's property the command of a correction changes.

    `chosen` are those that the operator knows to change. One query.
    """
    timeline = _apply_command(story, command)
    facts = story.unopened.facts
    before, after = {*map(_to_key, facts)}, {*map(_to_key, timeline.facts)}
    gone = [each for each in facts if _to_key(each) not in after]
    made = [each for each in timeline.facts if _to_key(each) not in before]
    opened = _open_values(story, command, timeline, [*gone, *made])
    inside = all(any(_is_within(new, old) for old in chosen) for new in made)
    expected = {*map(_to_key, chosen)}
    return PeriodChanges(
        before=tuple(
            FactPeriod(opened[each.value], each.begin, each.end) for each in gone
        ),
        after=tuple(
            FactPeriod(opened[each.value], each.begin, each.end) for each in made
        ),
        beyond=not inside or any(_to_key(each) not in expected for each in gone),
    )


def _find_own(story: FactStory) -> Fact:
    return story.unopened.facts[story.timeline.index(story.fact)]


def _to_key(fact: Fact) -> tuple[bytes, datetime, datetime | None]:
    return fact.value, fact.begin, fact.end


def _is_within(new: Fact, old: Fact) -> bool:
    ends = old.end is None or (new.end is not None and new.end <= old.end)
    return old.begin <= new.begin and ends


def _apply_command(story: FactStory, command: AssertFacts) -> Timeline:
    timeline = story.unopened
    if command.replaced is not None:
        wrong = command.replaced.reason == "wrong"
        timeline = timeline.retract_assertions(command.replaced.seqs, wrong=wrong)
    subject, seq = story.home.subject, timeline.next_seq
    opened = keys.get_subject_keys(subject.id, epoch=subject.epoch)
    claims = [
        TimelineAssertion(
            seq + number,
            assertion_rows.digest_word(opened, "value", claim.value),
            claim.valid_from,
            claim.valid_until,
            many=claim.many,
        )
        for number, claim in enumerate(command.facts)
        if claim.valid_from is not None
    ]
    return Timeline(
        timeline.digest, (*timeline.assertions, *claims), timeline.configured
    )


def _open_values(
    story: FactStory, command: AssertFacts, timeline: Timeline, needed: list[Fact]
) -> dict[bytes, str]:
    """Open the values of these facts."""
    written = len(timeline.assertions) - len(story.unopened.assertions)
    claims = zip(timeline.assertions[-written:], command.facts, strict=True)
    found = {each.value: claim.value for each, claim in claims}
    seqs = {each.value: each.seq for each in story.unopened.assertions}
    missing = {each.value for each in needed} - {*found}
    places = [(story.home.id, seqs[value]) for value in missing]
    events = texts.open_events_at(story.home, places)
    for value in missing:
        content = events[story.home.id, seqs[value]].content or {}
        found[value] = content.get("value", "")
    return found
