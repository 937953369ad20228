"""Recorded contexts: what a request was made of, by reference.

Pure. A record holds ids, names, numbers and closed words; with the texts it refers to,
the packer it names makes the same bytes again. It never holds content.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.paging_config import ESTIMATED

#: Texts by where they lie.
Texts = Mapping[Location, Opened]


class Kept(NamedTuple):
    """Beginning and end that are shown of a text, whose middle is left out."""

    #: Which of the message's results it is; 0 of a message without any.
    result: int
    #: Characters at its beginning, and at its end.
    head: int
    tail: int
    #: Where what is left out begins and ends, in tokens of the page's FULL.
    begin: int
    end: int


class Ref(NamedTuple):
    """A page in a request: which text, and how much of it."""

    seq: int
    level: int
    #: Characters kept; None for all.
    cut: int | None = None
    #: An ancestor's; None for the thread itself.
    thread: UUID | None = None
    #: The page was fetched back.
    recalled: bool = False
    #: Of a part of FULL: its first character, and the one behind its last.
    part: tuple[int, int] | None = None
    #: The event that put it there, of which ids of our calls are made.
    placed: int | None = None
    #: Of a message below FULL, where it lies as it was said.
    message_at: tuple[int, UUID | None] | None = None
    #: How much of it was shown is erased.
    lost: bool = False
    #: Of a message that is cut: which of its texts are, and what is left of each.
    kept: tuple[Kept, ...] = ()
    #: A result that its model waits for, of which the working set has less.
    due: bool = False

    @property
    def as_said(self) -> bool:
        """Whether it shows all of a page at FULL, which memory did not bring."""
        return self[1:3] == (FULL, None) and not self.recalled and self.part is None

    def location(self, own: UUID) -> Location:
        # What nobody can show any more as it was shown lies nowhere.
        seq = -self.seq if self.lost else self.seq
        return Location(self.thread or own, seq, self.level)

    def as_json(self) -> list[Any]:
        if self[2:] == _WHOLE:
            return [self.seq, self.level]
        thread = str(self.thread) if self.thread else None
        part = list(self.part) if self.part else None
        seq, home = self.message_at or (None, None)
        values = [self.seq, self.level, self.cut, thread, self.recalled or None, part]
        values += [self.placed, seq, str(home) if home else None, self.due or None]
        # Without what is empty at its end: most are two numbers.
        while len(values) > 2 and values[-1] is None:
            values.pop()
        return values

    def message(self, own: UUID) -> Location:
        """Return where the text lies as it was first appended."""
        if self.message_at is None:
            return self.location(own)
        return Location(self.message_at[1] or own, self.message_at[0], FULL)

    @classmethod
    def of(cls, values: list[Any]) -> Ref:
        padded = [*values, *[None] * (10 - len(values))]
        seq, level, cut, thread, recalled, part, placed, *message, due = padded
        return cls(
            seq,
            level,
            cut,
            UUID(thread) if thread else None,
            bool(recalled),
            (part[0], part[1]) if part else None,
            placed,
            (message[0], UUID(message[1]) if message[1] else None)
            if message[0]
            else None,
            due=bool(due),
        )


#: All but the first two of nearly every ref.
_WHOLE = Ref(0, 0)[2:]


class Row(NamedTuple):
    """A page the manifest offers."""

    page_id: str
    tier: str
    #: Digits of the levels that exist or can be made.
    levels: str
    #: Of the event that holds the content a hint is made of, or the hint itself.
    seq: int
    key: int = FULL
    thread: UUID | None = None

    def location(self, own: UUID) -> Location:
        return Location(self.thread or own, self.seq, self.key)


class Policies(NamedTuple):
    """What a model may still do in its turn."""

    faults_allowed: bool
    max_faults_per_turn: int
    faults_left: int
    #: Fault tokens left.
    upgrade_budget_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the model is told of pages it does not see in full."""

    #: The thread's name.
    thread: str
    turn: int
    #: How many pages are mapped.
    mapped: int
    policies: Policies
    rows: tuple[Row, ...] = ()
    #: How many pages could be fetched but are not listed.
    omitted: int = 0
    #: Its hints have words that tell a page from others. Journals from before do not.
    telling: bool = False


class Mark(NamedTuple):
    """What of a text no longer holds, by assertions of the subject's home thread."""

    home: UUID
    #: As `derivation.Outdated` has them.
    since: int | None = None
    begins: bool = False
    holds: int | None = None

    @property
    def places(self) -> list[Location]:
        """Return where the assertions lie that tell it."""
        seqs = dict.fromkeys(seq for seq in (self.since, self.holds) if seq is not None)
        return [Location(self.home, seq, FULL) for seq in seqs]

    def is_told_by(self, texts: Collection[Location]) -> bool:
        """Return whether the assertions that tell it are there."""
        return all(place in texts for place in self.places)


class SlotMarks(NamedTuple):
    """Marks of a slot, which stand behind the line of the log that tells it."""

    slot: int
    marks: tuple[Mark, ...]


class Recall(NamedTuple):
    """What a turn brought along unasked; its texts are the refs of the section."""

    #: The turn whose message it was found for.
    turn: int
    #: Of each ref in its order, how it was found: a word of `recalls.SOURCES`.
    sources: tuple[str, ...]
    #: And its page, in the thread's own history; None of another thread's.
    pages: tuple[str | None, ...]
    #: Of each what of it no longer holds; empty where nothing of any does not.
    marks: tuple[tuple[Mark, ...], ...] = ()

    def marked(self, n: int) -> tuple[Mark, ...]:
        """Return the marks of one of its texts."""
        return self.marks[n] if self.marks else ()

    @property
    def mark_places(self) -> list[Location]:
        """Return where the assertions lie that its marks are told by."""
        return [at for marks in self.marks for mark in marks for at in mark.places]

    def only(self, places: Iterable[int]) -> Recall:
        """Return the same with these of its texts."""
        kept = [*places]
        sources = tuple(self.sources[n] for n in kept)
        marks = tuple(self.marked(n) for n in kept)
        return Recall(
            self.turn,
            sources,
            tuple(self.pages[n] for n in kept),
            marks if any(marks) else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a request; its size is that of its text in the JSON, padded."""

    #: A closed word, of those in `requests.SECTIONS`.
    name: str
    refs: tuple[Ref, ...] = ()
    bytes: int = 0
    tokens: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "bytes": self.bytes,
            "tokens": self.tokens,
            "refs": [ref.as_json() for ref in self.refs],
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Section:
        return cls(
            name=body["name"],
            bytes=body["bytes"],
            tokens=body["tokens"],
            refs=tuple(Ref.of(ref) for ref in body["refs"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A request, by reference; its parts in their order."""

    #: Name and version of what makes the bytes.
    packer: str
    mode: str
    #: The tokens it had to stay within.
    budget: int
    sections: tuple[Section, ...]
    #: Version of the rules' wording; None without rules.
    rules: str | None = None
    manifest: Manifest | None = None
    recall: Recall | None = None
    #: Tokens for it that the thread asks for; None where it says nothing of them.
    recall_asked: int | None = None
    #: Version and form of the tool definitions; None without tools.
    tools: str | None = None
    #: Of the agent's own tools.
    own_tools: Location | None = None
    #: What no longer holds of what the log tells, by slot.
    log_marks: tuple[SlotMarks, ...] = ()
    #: Of the whole request; padded.
    bytes: int = 0
    tokens: int = 0
    #: Who counted all tokens of it.
    tokenizer: str = ESTIMATED

    @property
    def mark_places(self) -> list[Location]:
        """Return where the assertions lie that its marks are told by."""
        found = self.recall.mark_places if self.recall else []
        return [*found, *places_of(self.log_marks)]

    def refs(self, name: str) -> tuple[Ref, ...]:
        """Return the refs of one of its sections."""
        return next((each.refs for each in self.sections if each.name == name), ())

    @property
    def recall_given(self) -> int:
        """Tokens of what the turn brings along."""
        return sum(each.tokens for each in self.sections if each.name == "recall")


def places_of(log_marks: Iterable[SlotMarks]) -> list[Location]:
    """Return where the assertions lie that marks of the log are told by."""
    return [at for each in log_marks for mark in each.marks for at in mark.places]
