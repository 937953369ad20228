"""Assertions: deciding and folding assertion, retraction and cardinality. Pure.

Facts are derived from assertions on reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from memoryhub.errors import FactUnknownError, SubjectFullError, TimelineFullError
from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.parts import Decide, KernelPart
from memoryhub.kernel.state.bodies import Count, EventBody, SearchSpec
from memoryhub.kernel.state.knowledge import AssertionState, Cardinality, Origin
from memoryhub.kernel.state.page_events import PlaceBody
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.visible import VISIBLE, has_visible

#: Most assertions, retracted too, of a subject and of one timeline.
MAX_ASSERTIONS: Final = 100_000
MAX_OF_TIMELINE: Final = 10_000
#: Most characters of each text of an assertion.
MAX_ENTITY, MAX_PREDICATE, MAX_VALUE = 512, 128, 4_096

Reason = Literal["wrong", "duplicate", "withdrawn"]
#: Entity and predicate as written.
Timeline = tuple[str, str]


class FactAsserted(EventBody):
    """A claim about the subject was asserted. Payload: the claim and its valid time."""

    event_type = "fact.asserted"
    sealed = True
    together = ("entity", "predicate", "value")
    searched = SearchSpec("fact", together, sentence=True)

    origin: Origin
    #: Place of the text that the claim was learnt from, in any thread of the subject.
    source: PlaceBody | None = None


class FactRetracted(EventBody):
    """Assertions were retracted: they count no more, but their payloads stay."""

    event_type = "fact.retracted"

    seqs: list[Count]
    reason: Reason


class TimelineConfigured(EventBody):
    """An operator set a timeline's cardinality. Payload: entity and predicate.

    A cardinality of None removes the setting.
    """

    event_type = "timeline.configured"
    sealed = True
    together = ("entity", "predicate")

    cardinality: Cardinality | None = None


class NewFact(NamedTuple):
    """Claim to be asserted, with texts within their bounds."""

    entity: str
    predicate: str
    value: str
    origin: Origin
    confidence: float | None = None
    #: None until the time of the claim's source, or of the write, is filled in.
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    many: bool = False
    source: PlaceBody | None = None

    @property
    def timeline(self) -> Timeline:
        return self.entity, self.predicate

    @property
    def payload(self) -> bytes:
        """Content of the event: one JSON object, UTF-8."""
        plain: dict[str, Any] = {
            "entity": self.entity,
            "predicate": self.predicate,
            "value": self.value,
            "confidence": self.confidence,
            "many": self.many or None,
            "valid_from": self.valid_from and self.valid_from.isoformat(),
            "valid_until": self.valid_until and self.valid_until.isoformat(),
        }
        kept = {name: each for name, each in plain.items() if each is not None}
        return strict_json.dump_stored(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractFacts(Command):
    """Retract assertions, named by the seqs of their events."""

    seqs: tuple[int, ...]
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertFacts(Command):
    facts: tuple[NewFact, ...]
    #: Assertions that these claims replace, retracted in the same commit.
    replaced: RetractFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureTimeline(Command):
    cardinality: Cardinality | None = None
    #: One JSON object, UTF-8.
    payload: bytes


#: Characters refused in a text of one line, and in a text of several lines.
_CONTROLS, _NUL = r"\x00-\x1f\x7f-\x9f", r"\x00"
#: Patterns in the API document of a text with a visible character: one line, several.
LINE_PATTERN: Final = f"^[^{_CONTROLS}]*{VISIBLE}[^{_CONTROLS}]*$"
LINES_PATTERN: Final = f"^[^{_NUL}]*{VISIBLE}[^{_NUL}]*$"
# Two searches one after the other take linear time, unlike the patterns.
_REFUSED: Final = {
    lines: re.compile(f"[{barred}\ud800-\udfff]")
    for lines, barred in ((False, _CONTROLS), (True, _NUL))
}


def is_valid_text(text: str, most: int, *, lines: bool = False) -> bool:
    """Return whether a text is visible, at most `most` long, and without controls.

    With `lines` the text may have several lines, and control characters except NUL.
    """
    if len(text) > most or _REFUSED[lines].search(text):
        return False
    return has_visible(text)


def decide_assert_facts(
    decision: Decision, command: AssertFacts, pages: PageTable
) -> None:
    """Assert facts, all or none. Emits one fact.asserted each.

    A fact.retracted comes first if the facts replace assertions. Raises
    SubjectFullError, TimelineFullError, FactUnknownError. Reads rows only where a
    timeline can be full; other writes of the same transaction are not counted there.
    """
    if command.replaced is not None:
        decide_retract_facts(decision, command.replaced, pages)
    held = len(decision.state.knowledge.assertions)
    if held + len(command.facts) > MAX_ASSERTIONS:
        raise SubjectFullError(max_assertions=MAX_ASSERTIONS)
    if held + len(command.facts) > MAX_OF_TIMELINE:
        timelines = [fact.timeline for fact in command.facts]
        if timelines and pages.count_fullest(timelines) > MAX_OF_TIMELINE:
            raise TimelineFullError(max_assertions=MAX_OF_TIMELINE)
    for fact in command.facts:
        event = FactAsserted(origin=fact.origin, source=fact.source)
        decision.emit(event, fact.payload)


def decide_retract_facts(
    decision: Decision, command: RetractFacts, pages: PageTable
) -> None:
    """Retract assertions. Emits fact.retracted, or nothing.

    An assertion that was retracted before stays unchanged. Raises FactUnknownError.
    """
    assertions = decision.state.knowledge.assertions
    if any(seq not in assertions for seq in command.seqs):
        raise FactUnknownError
    seqs = {n for n in command.seqs if assertions[n].retracted_seq is None}
    if seqs:
        decision.emit(FactRetracted(seqs=sorted(seqs), reason=command.reason))


def decide_configure_timeline(
    decision: Decision, command: ConfigureTimeline, pages: PageTable
) -> None:
    """Set whether a timeline has several values at once. Emits timeline.configured."""
    event = TimelineConfigured(cardinality=command.cardinality)
    decision.emit(event, command.payload)


def apply_fact_asserted(state: ThreadState, event: FactAsserted) -> ThreadState:
    kept = state.knowledge
    assertions = kept.assertions.insert(state.seq + 1, AssertionState(event.origin))
    return state._replace(knowledge=kept._replace(assertions=assertions))


def apply_fact_retracted(state: ThreadState, event: FactRetracted) -> ThreadState:
    assertions = state.knowledge.assertions
    wrong = event.reason == "wrong"
    for seq in event.seqs:
        gone = assertions[seq]._replace(retracted_seq=state.seq + 1, wrong=wrong)
        assertions = assertions.insert(seq, gone)
    kept = state.knowledge._replace(assertions=assertions)
    return state._replace(knowledge=kept)


def apply_timeline_configured(
    state: ThreadState, event: TimelineConfigured
) -> ThreadState:
    kept = state.knowledge
    words = kept.configured.insert(state.seq + 1, event.cardinality)
    return state._replace(knowledge=kept._replace(configured=words))


_COMMANDS: dict[type[Command], Decide] = {
    AssertFacts: decide_assert_facts,
    RetractFacts: decide_retract_facts,
    ConfigureTimeline: decide_configure_timeline,
}
PART = KernelPart(
    commands=_COMMANDS,
    home=frozenset(_COMMANDS),
    events={
        FactAsserted: apply_fact_asserted,
        FactRetracted: apply_fact_retracted,
        TimelineConfigured: apply_timeline_configured,
    },
)
