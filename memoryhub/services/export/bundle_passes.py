"""Passes over the events of a bundle: one to check all events, one to write them.

Each line is checked against the manifest and the line before; its event is given this
instance's ids. Errors name the line, never its content.
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
from memoryhub.journal.log.event_lines import BundleLine
from memoryhub.kernel.formats import bundles
from memoryhub.kernel.formats.bundles import BundleFile, BundleManifest, CutThread
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.replay import RecordedEvent, evolve
from memoryhub.kernel.state.bodies import EventBody
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
from memoryhub.kernel.threads.threads import inherit_state
from memoryhub.kernel.turns import turns
from memoryhub.queries.verify.erased_records import ERASERS

#: Point that a fork continues from: a thread by its id of this instance, and a seq.
Point = tuple[UUID, int]
#: Errors raised by folding an impossible event, besides refusals.
_FOLD_ERRORS: Final = (
    *(AssertionError, AttributeError, ArithmeticError),
    *(LookupError, TypeError, ValueError),
)
_BORN: Final = (ThreadCreated, ThreadForked)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleIds:
    """Mapping of the bundle's ids to ids of this instance."""

    project: UUID
    subject: UUID
    #: The subject's id in the bundle, as event bodies have it.
    subject_in_bundle: str
    threads: Mapping[str, UUID]

    def map_id(self, was: str) -> str:
        """Map a subject or thread id of the bundle. Raises KeyError if unknown."""
        if was == self.subject_in_bundle:
            return str(self.subject)
        return str(self.threads[was])


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingEvent:
    """Event of the bundle with this instance's ids, and its line number."""

    number: int
    thread: CutThread
    line: BundleLine
    event: EventBody

    @property
    def recorded(self) -> RecordedEvent:
        """The event as the journal records it."""
        line = self.line
        return RecordedEvent(
            seq=line.seq, at=line.at, actor=line.actor, event=self.event
        )


@dataclass(slots=True, kw_only=True)
class BundlePass:
    """One pass through all events of a bundle."""

    manifest: BundleManifest
    ids: BundleIds
    #: Threads whose names are kept: erased threads too, if a living thread descends
    #: from them.
    folded_threads: frozenset[UUID]
    states: dict[Point, ThreadState] = field(default_factory=dict)
    #: Chain hashes at fork points in hex, as the bundle has them.
    chains: dict[Point, str] = field(default_factory=dict)
    _points: frozenset[Point] = frozenset()
    _last: BundleLine | None = None
    #: Seqs of erasing events that the current thread still owes.
    _owed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._points = frozenset(
            (self.ids.threads[str(each.parent)], each.parent_seq)
            for each in self.manifest.cut
            if each.parent is not None and each.parent_seq is not None
        )

    def iter_events(
        self, lines: Iterable[bytes], file: BundleFile
    ) -> Iterator[IncomingEvent]:
        """Yield the events of the file, checked against the manifest.

        Raises BadBundleError, also after the last event.
        """
        digest, number = hashlib.sha256(), 0
        left = iter(self.manifest.cut)
        thread = next(left, None)
        for number, text in enumerate(lines, start=1):
            digest.update(text)
            try:
                if thread is None or not text.endswith(b"\n"):
                    raise BadBundleError(what="line")
                line = event_lines.parse_line(text[:-1])
                self._require_next(thread, line)
                yield self._check_event(number, thread, line)
                if line.seq == thread.head_seq:
                    self._end_thread(thread, line)
                    thread = next(left, None)
            except BadBundleError as refusal:
                raise BadBundleError(line=number, **refusal.detail) from None
        if thread is not None or number != file.records:
            raise BadBundleError(what="events_missing", line=number)
        if digest.hexdigest() != file.sha256:
            raise BadBundleError(what="sha256")

    def _require_next(self, thread: CutThread, line: BundleLine) -> None:
        """Check a line's thread, seq, time and erasing event. Raises BadBundleError."""
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
            # A deleted page erases earlier texts; the thread's end erases all.
            if line.erased <= line.seq:
                raise BadBundleError(what="erased")
            self._owed.add(line.erased)

    def _check_event(
        self, number: int, thread: CutThread, line: BundleLine
    ) -> IncomingEvent:
        """Check a line's event, its content and birth. Raises BadBundleError."""
        event = self._parse_event(line)
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
        return IncomingEvent(number=number, thread=thread, line=line, event=event)

    def _parse_event(self, line: BundleLine) -> EventBody:
        """Parse a line's event, with ids mapped.

        Raises BadBundleError, and NewerFormatError for an event of a newer replay
        format.
        """
        kind = TYPES[line.type]
        try:
            body = bundles.move_ids(kind, orjson.loads(line.body), self.ids.map_id)
            event = kind.model_validate_json(chain.render_body(body))
        except (ValidationError, LookupError, TypeError, AttributeError):
            raise BadBundleError(what="body") from None
        if getattr(event, "replay_format", REPLAY_FORMAT) > REPLAY_FORMAT:
            raise NewerFormatError(replay_format=REPLAY_FORMAT)
        return event

    def _require_parent(self, thread: CutThread, event: EventBody) -> None:
        """Raise BadBundleError unless parent and subject match the manifest."""
        if not isinstance(event, ThreadForked):
            right = thread.parent is None
        else:
            point = (event.parent, event.parent_seq)
            claimed = (self.ids.threads.get(str(thread.parent)), thread.parent_seq)
            # The parent's events came earlier, up to the point of the fork.
            right = point == claimed and self.chains.get(point) == event.parent_chain
        if not right or getattr(event, "subject", None) != self.ids.subject:
            raise BadBundleError(what="birth")

    def _end_thread(self, thread: CutThread, line: BundleLine) -> None:
        """Check the end of the current thread. Raises BadBundleError."""
        if line.chain != thread.head_hash:
            raise BadBundleError(what="chain")
        if self._owed:
            raise BadBundleError(what="erased")
        if (line.type == ThreadErased.event_type) != (thread.status == "erased"):
            raise BadBundleError(what="status")
        self._last = None

    # States that the events fold to

    def build_first_state(self, each: IncomingEvent) -> ThreadState:
        """Build the state into which the first event of a thread is folded."""
        state = ThreadState(
            id=self.ids.threads[each.line.thread],
            project=self.ids.project,
            subject=self.ids.subject,
        )
        if isinstance(each.event, ThreadForked):
            parent = self.states[each.event.parent, each.event.parent_seq]
            return inherit_state(parent, state)
        return state

    def keep_fork_point(self, state: ThreadState) -> None:
        """Keep the state if a fork continues from it."""
        if (state.id, state.seq) in self._points:
            self.states[state.id, state.seq] = state

    def is_bare(self, thread: CutThread) -> bool:
        """Return whether the thread's names are erased: its events can't be folded."""
        return thread.status == "erased" and thread.thread not in self.folded_threads


def check_events(
    walk: BundlePass, lines: Iterable[bytes], file: BundleFile
) -> Iterator[int]:
    """Fold all events and store nothing; yield the number of each checked line.

    Raises BadBundleError for the first bad line.
    """
    state: ThreadState | None = None
    for each in walk.iter_events(lines, file):
        try:
            if each.line.seq == 1:
                state = walk.build_first_state(each)
            assert state is not None
            _require_dense(state, each.event)
            state = fold_event(state, each, bare=walk.is_bare(each.thread))
        except (*_FOLD_ERRORS, Refusal):
            raise BadBundleError(what="fold", line=each.number) from None
        walk.keep_fork_point(state)
        yield each.number


def _require_dense(state: ThreadState, event: EventBody) -> None:
    """Raise LookupError unless slots and turns are numbered without a gap.

    No fold checks the numbers.
    """
    if isinstance(event, SlotAppended) and event.index != state.slot_count:
        raise LookupError
    if isinstance(event, TurnBegan) and event.n != state.turn_count + 1:
        raise LookupError


def fold_event(state: ThreadState, each: IncomingEvent, *, bare: bool) -> ThreadState:
    """Fold one event; for a `bare` thread only the counters."""
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
    return (
        turns.apply_turn_began(counted, event)
        if isinstance(event, TurnBegan)
        else counted
    )


#: Events that are folded even for a bare thread, since they name no page.
_COUNTED: Final = (*_BORN, ThreadConfigured, ThreadErased)


def find_living_threads(manifest: BundleManifest) -> frozenset[UUID]:
    """Find the threads that are not erased, and all their ancestors."""
    parents = {each.thread: each.parent for each in manifest.cut}
    found: set[UUID] = set()
    for each in manifest.cut:
        thread: UUID | None = each.thread if each.status != "erased" else None
        while thread is not None and thread not in found:
            found.add(thread)
            thread = parents.get(thread)
    return frozenset(found)
