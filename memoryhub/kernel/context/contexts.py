"""Recorded contexts: the contents of a request, by reference.

Pure. A record holds ids, names, numbers and closed words, never content. The packer
that the record names makes the same bytes again from the texts that the record refers
to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.paging_config import ESTIMATED

#: Texts by location.
Texts = Mapping[Location, OpenedPage]


class KeptEnds(NamedTuple):
    """Beginning and end shown of a text whose middle is left out."""

    #: Index of the message's result; 0 for a message without results.
    result: int
    #: Characters kept at the text's beginning, and at its end.
    head: int
    tail: int
    #: Begin and end of the part left out, in tokens of the page's FULL.
    begin: int
    end: int


class Ref(NamedTuple):
    """A page in a request: which text, and how much of that text."""

    seq: int
    level: int
    #: Characters kept; None for all.
    cut: int | None = None
    #: Id of the ancestor thread that holds the page; None for the thread itself.
    thread: UUID | None = None
    #: The page was fetched back.
    recalled: bool = False
    #: First character of a part of FULL, and the one behind the part's last.
    part: tuple[int, int] | None = None
    #: Seq of the event that put the page there; ids of our calls are made from the seq.
    placed: int | None = None
    #: Seq and thread of a message's original text, for a message shown below FULL.
    message_at: tuple[int, UUID | None] | None = None
    #: The number of characters shown was erased.
    lost: bool = False
    #: Beginnings and ends kept of each cut text, for a message that is cut.
    kept: tuple[KeptEnds, ...] = ()
    #: A result that the model waits for, of which the working set has less.
    due: bool = False

    @property
    def is_as_said(self) -> bool:
        """Whether the ref shows all of a page at FULL that memory did not bring."""
        return self[1:3] == (FULL, None) and not self.recalled and self.part is None

    def get_location(self, own: UUID) -> Location:
        # A negative seq is no text's: a lost ref cannot be shown again as it was.
        seq = -self.seq if self.lost else self.seq
        return Location(self.thread or own, seq, self.level)

    def to_json(self) -> list[Any]:
        if self[2:] == _WHOLE:
            return [self.seq, self.level]
        thread = str(self.thread) if self.thread else None
        part = list(self.part) if self.part else None
        seq, home = self.message_at or (None, None)
        values = [self.seq, self.level, self.cut, thread, self.recalled or None, part]
        values += [self.placed, seq, str(home) if home else None, self.due or None]
        # Trailing empty values are dropped: most refs are two numbers.
        while len(values) > 2 and values[-1] is None:
            values.pop()
        return values

    def get_message_location(self, own: UUID) -> Location:
        """Return the location of the text as first appended."""
        if self.message_at is None:
            return self.get_location(own)
        return Location(self.message_at[1] or own, self.message_at[0], FULL)

    @classmethod
    def from_json(cls, values: list[Any]) -> Ref:
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


#: Values of nearly every ref, without its first two.
_WHOLE = Ref(0, 0)[2:]


class ManifestRow(NamedTuple):
    """A page the manifest offers."""

    page_id: str
    tier: str
    #: Digits of the levels that exist or can be made.
    levels: str
    #: Seq of the event that holds the hint, or the content a hint is made from.
    seq: int
    key: int = FULL
    thread: UUID | None = None

    def get_location(self, own: UUID) -> Location:
        return Location(self.thread or own, self.seq, self.key)


class FaultPolicies(NamedTuple):
    """Page faults that a model may still cause in its turn."""

    faults_allowed: bool
    max_faults_per_turn: int
    faults_left: int
    #: Fault tokens left.
    upgrade_budget_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """List of the pages that the model does not see in full."""

    #: The thread's name.
    thread: str
    turn: int
    #: Number of mapped pages.
    mapped: int
    policies: FaultPolicies
    rows: tuple[ManifestRow, ...] = ()
    #: Number of pages that could be fetched but are not listed.
    omitted: int = 0
    #: Hints include words that distinguish a page. False in older journals.
    telling: bool = False


class OutdatedMark(NamedTuple):
    """Part of a text outdated by assertions of the subject's home thread."""

    home: UUID
    #: Seqs of assertions, with the meaning they have in `derivation.Outdated`.
    since: int | None = None
    begins: bool = False
    holds: int | None = None

    @property
    def places(self) -> list[Location]:
        """Return the locations of the assertions that explain the mark."""
        seqs = dict.fromkeys(seq for seq in (self.since, self.holds) if seq is not None)
        return [Location(self.home, seq, FULL) for seq in seqs]

    def is_told_by(self, texts: Collection[Location]) -> bool:
        """Return whether `texts` has all assertions that explain the mark."""
        return all(place in texts for place in self.places)


class SlotMarks(NamedTuple):
    """Marks of a slot, shown behind the line of the log that covers the slot."""

    slot: int
    marks: tuple[OutdatedMark, ...]


class TurnRecall(NamedTuple):
    """Texts that a turn brought along unasked; the section's refs name them."""

    #: The turn whose message the texts were found for.
    turn: int
    #: Source of each text, in the order of refs: a word of `recalls.SOURCES`.
    sources: tuple[str, ...]
    #: Page of each text in the thread's own history; None for another thread's text.
    pages: tuple[str | None, ...]
    #: Marks of each text; empty if no text has a mark.
    marks: tuple[tuple[OutdatedMark, ...], ...] = ()

    def get_marks(self, n: int) -> tuple[OutdatedMark, ...]:
        """Return the marks of the nth text."""
        return self.marks[n] if self.marks else ()

    @property
    def mark_places(self) -> list[Location]:
        """Return the locations of the assertions that explain the marks."""
        return [at for marks in self.marks for mark in marks for at in mark.places]

    def keep_places(self, places: Iterable[int]) -> TurnRecall:
        """Return a copy with only the texts at these indexes."""
        kept = [*places]
        sources = tuple(self.sources[n] for n in kept)
        marks = tuple(self.get_marks(n) for n in kept)
        return TurnRecall(
            self.turn,
            sources,
            tuple(self.pages[n] for n in kept),
            marks if any(marks) else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a request; its size is that of its text in the JSON, padded."""

    #: A closed word of `requests.SECTIONS`.
    name: str
    refs: tuple[Ref, ...] = ()
    bytes: int = 0
    tokens: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "bytes": self.bytes,
            "tokens": self.tokens,
            "refs": [ref.to_json() for ref in self.refs],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Section:
        return cls(
            name=body["name"],
            bytes=body["bytes"],
            tokens=body["tokens"],
            refs=tuple(Ref.from_json(ref) for ref in body["refs"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRecord:
    """A request by reference, with its sections in order."""

    #: Name and version of the packer that makes the bytes.
    packer: str
    mode: str
    #: Limit of the request in tokens.
    budget: int
    sections: tuple[Section, ...]
    #: Version of the rules' wording; None without rules.
    rules: str | None = None
    manifest: Manifest | None = None
    recall: TurnRecall | None = None
    #: Recall tokens that the thread asks for; None if the thread sets none.
    recall_asked: int | None = None
    #: Version and form of the tool definitions; None without tools.
    tools: str | None = None
    #: Location of the agent's own tools.
    own_tools: Location | None = None
    #: Marks of log lines that no longer hold, by slot.
    log_marks: tuple[SlotMarks, ...] = ()
    #: Size of the whole request, padded.
    bytes: int = 0
    tokens: int = 0
    #: Tokenizer that counted all tokens of the request.
    tokenizer: str = ESTIMATED

    @property
    def mark_places(self) -> list[Location]:
        """Return the locations of the assertions that explain the request's marks."""
        found = self.recall.mark_places if self.recall else []
        return [*found, *list_log_mark_places(self.log_marks)]

    def get_refs(self, name: str) -> tuple[Ref, ...]:
        """Return the refs of the named section; empty if absent."""
        return next((each.refs for each in self.sections if each.name == name), ())

    @property
    def recall_given(self) -> int:
        """Tokens of the texts that the turn brings along."""
        return sum(each.tokens for each in self.sections if each.name == "recall")


def list_log_mark_places(log_marks: Iterable[SlotMarks]) -> list[Location]:
    """List the locations of the assertions that explain marks of the log."""
    return [at for each in log_marks for mark in each.marks for at in mark.places]
