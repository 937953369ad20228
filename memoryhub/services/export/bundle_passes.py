"""Passes over the events of a bundle: first to check all of it, then to write it.

Each line is held against the manifest and the one before it, and its event is given
the ids of here. What is wrong is named by its line, never by what stands there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import orjson
from pydantic import ValidationError

from memoryhub.errors import BadBundleError, NewerFormatError, Refusal
from memoryhub.journal.log import chain, event_lines
from memoryhub.journal.log.event_lines import EventLine
from memoryhub.kernel.formats import bundles
from memoryhub.kernel.formats.bundles import CutThread, File, Manifest
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.replay import Recorded, evolve
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.erase_events import ThreadErased
from memoryhub.kernel.state.events import (
    REPLAY_FORMAT,
    SlotAppended,
    ThreadConfigured,
    ThreadCreated,
    ThreadForked,
)
from memoryhub.kernel.state.page_events import TurnBegan
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads.threads import inherit
from memoryhub.kernel.turns import turns
from memoryhub.queries.verify.erased_records import ERASERS

#: Where a fork goes on from: a thread by its id of here, and a seq.
Point = tuple[UUID, int]
#: What folding an event that can't be there raises, besides refusals.
_NONSENSE: Final = (
    *(AssertionError, AttributeError, ArithmeticError),
    *(LookupError, TypeError, ValueError),
)
_BORN: Final = (ThreadCreated, ThreadForked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """What the bundle's ids become here."""

    project: UUID
    subject: UUID
    #: Of the bundle, as bodies have it.
    was: str
    threads: Mapping[str, UUID]

    def change(self, was: str) -> str:
        if was == self.was:
            return str(self.subject)
        return str(self.threads[was])


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """An event with the ids of here, in its place."""

    number: int
    thread: CutThread
    line: EventLine
    event: Event

    @property
    def recorded(self) -> Recorded:
        line = self.line
        return Recorded(seq=line.seq, at=line.at, actor=line.actor, event=self.event)


@dataclass(slots=True, kw_only=True)
class Pass:
    """One way through all events."""

    manifest: Manifest
    ids: Ids
    #: Threads with erased ends that something living goes on from keep their names.
    folded: frozenset[UUID]
    states: dict[Point, ThreadState] = field(default_factory=dict)
    #: Hex, as the bundle has them.
    chains: dict[Point, str] = field(default_factory=dict)
    _points: frozenset[Point] = frozenset()
    _last: EventLine | None = None
    #: Of the thread at hand: events that took content, not yet seen.
    _owed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._points = frozenset(
            (self.ids.threads[str(each.parent)], each.parent_seq)
            for each in self.manifest.cut
            if each.parent is not None and each.parent_seq is not None
        )

    def incoming(self, lines: Iterable[bytes], file: File) -> Iterator[Incoming]:
        """Yield the events of the file, which must be as the manifest has it.

        Raises BadBundleError, also after the last of them.
        """
        digest, number = hashlib.sha256(), 0
        left = iter(self.manifest.cut)
        thread = next(left, None)
        for number, text in enumerate(lines, start=1):
            digest.update(text)
            try:
                if thread is None or not text.endswith(b"\n"):
                    raise BadBundleError(what="line")
                line = event_lines.read(text[:-1])
                self._require_next(thread, line)
                yield self._incoming(number, thread, line)
                if line.seq == thread.head_seq:
                    self._end(thread, line)
                    thread = next(left, None)
            except BadBundleError as refusal:
                raise BadBundleError(line=number, **refusal.detail) from None
        if thread is not None or number != file.records:
            raise BadBundleError(what="events_missing", line=number)
        if digest.hexdigest() != file.sha256:
            raise BadBundleError(what="sha256")

    def _require_next(self, thread: CutThread, line: EventLine) -> None:
        last = self._last
        if line.thread != str(thread.thread):
            raise BadBundleError(what="thread")
        if line.seq != (last.seq + 1 if last else 1):
            raise BadBundleError(what="seq")
        if last and line.at < last.at:
            raise BadBundleError(what="at")
        self._last = line
        if line.type in ERASERS:
            self._owed.discard(line.seq)
        if line.erased is not None:
            # A page takes texts from before it; the thread's end takes all.
            if line.erased <= line.seq:
                raise BadBundleError(what="erased")
            self._owed.add(line.erased)

    def _incoming(self, number: int, thread: CutThread, line: EventLine) -> Incoming:
        event = self._event(line)
        if event.sealed:
            held = line.content is not None
            if held == (line.erased is not None):
                raise BadBundleError(what="content")
        elif line.content is not None or line.erased is not None:
            raise BadBundleError(what="content")
        if isinstance(event, _BORN) != (line.seq == 1):
            raise BadBundleError(what="birth")
        if line.seq == 1:
            self._require_parent(thread, event)
        point = (self.ids.threads[line.thread], line.seq)
        if point in self._points:
            self.chains[point] = line.chain
        return Incoming(number=number, thread=thread, line=line, event=event)

    def _event(self, line: EventLine) -> Event:
        kind = TYPES[line.type]
        try:
            body = bundles.moved(kind, orjson.loads(line.body), self.ids.change)
            event = kind.model_validate_json(chain.text_of(body))
        except (ValidationError, LookupError, TypeError, AttributeError):
            raise BadBundleError(what="body") from None
        if getattr(event, "replay_format", REPLAY_FORMAT) > REPLAY_FORMAT:
            raise NewerFormatError(replay_format=REPLAY_FORMAT)
        return event

    def _require_parent(self, thread: CutThread, event: Event) -> None:
        if not isinstance(event, ThreadForked):
            right = thread.parent is None
        else:
            point = (event.parent, event.parent_seq)
            claimed = (self.ids.threads.get(str(thread.parent)), thread.parent_seq)
            # The parent came before it, as far as the fork goes on from it.
            right = point == claimed and self.chains.get(point) == event.parent_chain
        if not right or getattr(event, "subject", None) != self.ids.subject:
            raise BadBundleError(what="birth")

    def _end(self, thread: CutThread, line: EventLine) -> None:
        """The thread at hand is over."""
        if line.chain != thread.head_hash:
            raise BadBundleError(what="chain")
        if self._owed:
            raise BadBundleError(what="erased")
        if (line.type == ThreadErased.event_type) != (thread.status == "erased"):
            raise BadBundleError(what="status")
        self._last = None

    # What the events come to

    def newborn(self, each: Incoming) -> ThreadState:
        """Return the state into which the first event of a thread is folded."""
        state = ThreadState(
            id=self.ids.threads[each.line.thread],
            project=self.ids.project,
            subject=self.ids.subject,
        )
        if isinstance(each.event, ThreadForked):
            parent = self.states[each.event.parent, each.event.parent_seq]
            return inherit(parent, state)
        return state

    def keep(self, state: ThreadState) -> None:
        """Remember what forks go on from."""
        if (state.id, state.seq) in self._points:
            self.states[state.id, state.seq] = state

    def bare(self, thread: CutThread) -> bool:
        """Return whether the thread's names are gone: its events can't be folded."""
        return thread.status == "erased" and thread.thread not in self.folded


def check(walk: Pass, lines: Iterable[bytes], file: File) -> Iterator[int]:
    """Fold all events, and keep nothing; yields how many lines were looked at.

    Raises BadBundleError for the first line that is wrong.
    """
    state: ThreadState | None = None
    for each in walk.incoming(lines, file):
        try:
            if each.line.seq == 1:
                state = walk.newborn(each)
            assert state is not None
            _require_dense(state, each.event)
            state = folded(state, each, bare=walk.bare(each.thread))
        except (*_NONSENSE, Refusal):
            raise BadBundleError(what="fold", line=each.number) from None
        walk.keep(state)
        yield each.number


def _require_dense(state: ThreadState, event: Event) -> None:
    """Slots and turns are numbered without a gap, which no fold looks at."""
    if isinstance(event, SlotAppended) and event.index != state.slot_count:
        raise LookupError
    if isinstance(event, TurnBegan) and event.n != state.turn_count + 1:
        raise LookupError


def folded(state: ThreadState, each: Incoming, *, bare: bool) -> ThreadState:
    """Fold one event; of a `bare` thread only what is counted."""
    recorded = each.recorded
    if not bare or isinstance(each.event, _COUNTED):
        return evolve(state, recorded)
    event = each.event
    counted = state._replace(seq=recorded.seq, at=recorded.at)
    if isinstance(event, SlotAppended):
        return counted._replace(
            slot_count=event.index + 1,
            token_count=state.token_count + event.tokens,
            byte_count=state.byte_count + event.bytes,
        )
    return turns.began(counted, event) if isinstance(event, TurnBegan) else counted


#: What is folded even of a thread whose names are gone: it names no page.
_COUNTED: Final = (*_BORN, ThreadConfigured, ThreadErased)


def living(manifest: Manifest) -> frozenset[UUID]:
    """Return the threads that are not erased, and all that they go on from."""
    parents = {each.thread: each.parent for each in manifest.cut}
    found: set[UUID] = set()
    for each in manifest.cut:
        thread: UUID | None = each.thread if each.status != "erased" else None
        while thread is not None and thread not in found:
            found.add(thread)
            thread = parents.get(thread)
    return frozenset(found)
