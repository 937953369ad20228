"""Facts: asserted, retracted, their timelines configured. Pure.

Verbs decide, participles fold. Facts themselves are derived on reading.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from memoryhub.errors import FactUnknownError, SubjectFullError, TimelineFullError
from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.parts import Decide, Part
from memoryhub.kernel.state.bodies import Count, Event, Searched
from memoryhub.kernel.state.knowledge import Asserted, Cardinality, Origin
from memoryhub.kernel.state.page_events import PlaceBody
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text.visible import VISIBLE, has_visible

#: Assertions that are kept, retracted ones too: of a subject, and of one timeline.
MAX_ASSERTIONS: Final = 100_000
MAX_OF_TIMELINE: Final = 10_000
#: Characters.
MAX_ENTITY, MAX_PREDICATE, MAX_VALUE = 512, 128, 4_096

Reason = Literal["wrong", "duplicate", "withdrawn"]
#: An entity and a predicate, as they were written.
Timeline = tuple[str, str]


class FactAsserted(Event):
    """A claim about the subject. Payload: what is claimed, and since when it holds."""

    event_type = "fact.asserted"
    sealed = True
    together = ("entity", "predicate", "value")
    searched = Searched("fact", together, sentence=True)

    origin: Origin
    #: What it was learnt from, in another thread of the subject or in this one.
    source: PlaceBody | None = None


class FactRetracted(Event):
    """Assertions do not count any more; what they said is kept."""

    event_type = "fact.retracted"

    seqs: list[Count]
    reason: Reason


class TimelineConfigured(Event):
    """Whether several values hold at once was set by hand. Payload: of which timeline.

    None takes it back.
    """

    event_type = "timeline.configured"
    sealed = True
    together = ("entity", "predicate")

    cardinality: Cardinality | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFact:
    timeline: Timeline
    origin: Origin
    #: One JSON object, UTF-8.
    payload: bytes
    source: PlaceBody | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertFacts(Command):
    facts: tuple[NewFact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractFacts(Command):
    """Take assertions, by their seqs, out of what counts."""

    seqs: tuple[int, ...]
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureTimeline(Command):
    cardinality: Cardinality | None = None
    #: One JSON object, UTF-8.
    payload: bytes


#: What a text of one line has none of, and what one of several has none of.
_CONTROLS, _NUL = r"\x00-\x1f\x7f-\x9f", r"\x00"
#: Texts that say something, as the API documents them: of one line, and of several.
LINE_PATTERN: Final = f"^[^{_CONTROLS}]*{VISIBLE}[^{_CONTROLS}]*$"
LINES_PATTERN: Final = f"^[^{_NUL}]*{VISIBLE}[^{_NUL}]*$"
# One after the other they take linear time, unlike the patterns.
_REFUSED: Final = {
    lines: re.compile(f"[{barred}\ud800-\udfff]")
    for lines, barred in ((False, _CONTROLS), (True, _NUL))
}


def fits(text: str, most: int, *, lines: bool = False) -> bool:
    """Return whether a text says something in `most` characters, and hides nothing.

    With `lines` it may have several, and controls among them.
    """
    if len(text) > most or _REFUSED[lines].search(text):
        return False
    return has_visible(text)


def assert_facts(decision: Decision, command: AssertFacts, pages: PageTable) -> None:
    """Add claims, all or none. Emits fact.asserted each.

    Raises SubjectFullError, TimelineFullError. Asks the rows only where a timeline can
    be full: what others write in the same transaction is not counted there.
    """
    held = len(decision.state.knowledge.assertions)
    if held + len(command.facts) > MAX_ASSERTIONS:
        raise SubjectFullError(max_assertions=MAX_ASSERTIONS)
    if held + len(command.facts) > MAX_OF_TIMELINE:
        fresh = Counter(fact.timeline for fact in command.facts)
        for timeline, there in pages.asserted([*fresh]).items():
            if there + fresh[timeline] > MAX_OF_TIMELINE:
                raise TimelineFullError(max_assertions=MAX_OF_TIMELINE)
    for fact in command.facts:
        event = FactAsserted(origin=fact.origin, source=fact.source)
        decision.emit(event, fact.payload)


def retract_facts(decision: Decision, command: RetractFacts, pages: PageTable) -> None:
    """Take assertions out of what counts. Emits fact.retracted, or nothing.

    Those that were retracted before stay as they are. Raises FactUnknownError.
    """
    assertions = decision.state.knowledge.assertions
    if any(seq not in assertions for seq in command.seqs):
        raise FactUnknownError
    seqs = {n for n in command.seqs if assertions[n].retracted_seq is None}
    if seqs:
        decision.emit(FactRetracted(seqs=sorted(seqs), reason=command.reason))


def configure_timeline(
    decision: Decision, command: ConfigureTimeline, pages: PageTable
) -> None:
    """Set whether several values hold at once. Emits timeline.configured."""
    event = TimelineConfigured(cardinality=command.cardinality)
    decision.emit(event, command.payload)


def asserted(state: ThreadState, event: FactAsserted) -> ThreadState:
    kept = state.knowledge
    assertions = kept.assertions.insert(state.seq + 1, Asserted(event.origin))
    return state._replace(knowledge=kept._replace(assertions=assertions))


def retracted(state: ThreadState, event: FactRetracted) -> ThreadState:
    assertions = state.knowledge.assertions
    wrong = event.reason == "wrong"
    for seq in event.seqs:
        gone = assertions[seq]._replace(retracted_seq=state.seq + 1, wrong=wrong)
        assertions = assertions.insert(seq, gone)
    kept = state.knowledge._replace(assertions=assertions)
    return state._replace(knowledge=kept)


def configured(state: ThreadState, event: TimelineConfigured) -> ThreadState:
    kept = state.knowledge
    words = kept.configured.insert(state.seq + 1, event.cardinality)
    return state._replace(knowledge=kept._replace(configured=words))


_COMMANDS: dict[type[Command], Decide] = {
    AssertFacts: assert_facts,
    RetractFacts: retract_facts,
    ConfigureTimeline: configure_timeline,
}
PART = Part(
    commands=_COMMANDS,
    home=frozenset(_COMMANDS),
    events={
        FactAsserted: asserted,
        FactRetracted: retracted,
        TimelineConfigured: configured,
    },
)
