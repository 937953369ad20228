"""Erasures in words for a screen: scopes, reasons, steps and waits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from memoryhub.models.erasures import Erasure
from memoryhub.queries.forget import erasure_waits
from memoryhub.queries.forget.erasures import CLOSED, ErasureLine

Scope, State = Erasure.Scope, Erasure.State

#: Words of the form for each scope.
SCOPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        Scope.SUBJECT: "Everything about this person, with the key that decrypts it",
        Scope.THREAD: "One thread, with everything derived from it",
        Scope.BEFORE: "What happened before a time, with everything derived from it",
        Scope.RECORD: "One record, with everything derived from it",
    }
)
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "not_needed": "no longer needed for its purpose",
        "consent_withdrawn": "consent was withdrawn",
        "objection": "the person objected",
        "unlawful": "it was unlawful to keep it",
        "legal_duty": "a law requires it",
        "child": "it was collected from a child",
        "retention": "its retention period is over",
        "poisoning": "it was planted to mislead an agent",
        "mistake": "it was kept by mistake",
        "test": "a test",
    }
)
_PART_STATES: Final = (State.FENCED, State.TOMBSTONED)
_SUBJECT_STATES: Final = (State.FENCED, State.KEY_DESTROYED)
_COMMON_STATES: Final = (
    State.ROWS_ERASED,
    State.CACHES_PURGED,
    State.SCRUBBED,
    State.VERIFIED,
    State.COMPLETE,
)
#: Sentence that is true once an erasure has entered a state.
STATE_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        State.FENCED: "The ledger has it, and nothing in scope can be read or written",
        State.TOMBSTONED: "What is erased may not be written again",
        State.KEY_DESTROYED: "The key is gone: what it encrypted stays unreadable",
        State.ROWS_ERASED: "Contents, names and everything derived are gone",
        State.CACHES_PURGED: "Open screens are cleared, and other processes notified",
        State.SCRUBBED: "The database no longer holds the bytes",
        State.VERIFIED: "A separate sweep and a separate scan found nothing left but "
        "words that others use too",
        State.COMPLETE: "The receipt is signed, and the ledger has the end",
    }
)
#: What the worker does until an erasure has entered a state.
STATE_WORK: Final[Mapping[str, str]] = MappingProxyType(
    {
        State.FENCED: "counting what is in scope, and closing it to reads and writes",
        State.TOMBSTONED: "keeping what is to be erased from being written again",
        State.KEY_DESTROYED: "destroying the key, and ordering the erasure in each "
        "thread",
        State.ROWS_ERASED: "deleting rows, at most 1,000 at a time",
        State.CACHES_PURGED: "notifying other processes and open screens",
        State.SCRUBBED: "having the database drop the deleted bytes",
        State.VERIFIED: "counting rows again, then searching all of the database, its "
        "log, log files and the ledger for what was erased",
        State.COMPLETE: "signing the receipt, and writing the end to the ledger",
    }
)
#: Words for the methods of erasing rows in plans and receipts.
METHODS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "deleted": "deleted",
        "nulled": "emptied; positions stay",
        "shredded": "destroyed together with its key",
    }
)
#: Words for the reasons for keeping rows in plans and receipts.
KEPT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "chain": "needed to check the hash chain; counts, times and digests only",
        "stays_erased": "keeps what was erased from coming back; keyed digests only",
        "accountability": "records who did what; ids and words of fixed lists only",
        "restores": "repeats erasures after a restore; ids and keyed digests only",
        "place": "positions stay, without content",
        "fork": "an existing fork reads it",
        "evidence": "another source still supports it",
        "names": "a name is erased with the last thread that has it",
    }
)
#: Things that every erasure leaves, as proof of the erasure.
STAYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "envelopes": "event envelopes: metadata without content",
        "tombstones": "tombstones",
        "audit": "the audit log",
        "ledger": "the ledger of erasures",
        "names": "names in threads that stay",
    }
)
#: Words for each kind of place that a scan searches.
SURFACES: Final = erasure_waits.PLACES


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureStep:
    """A state of an erasure, and whether the erasure has entered the state."""

    state: str
    text: str
    #: What the worker does until then.
    work: str
    #: When the erasure entered the state before; None for steps after the one at hand.
    since: datetime | None
    #: When the erasure entered the state; None before.
    at: datetime | None
    took: timedelta | None
    #: `done`, `now` or `next`.
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureProgress:
    """The progress of an erasure: steps, row counts, and the next wait."""

    steps: tuple[ErasureStep, ...]
    #: Rows erased so far, and rows that the fence froze.
    erased: int
    fenced: int
    #: Words for the wait of the next step.
    waiting: str
    #: Whether the wait ends without anybody's doing.
    passing: bool
    #: The worker will go on, so the page polls.
    moving: bool

    @property
    def share(self) -> int:
        return 100 * self.erased // self.fenced if self.fenced else 0


def build_progress(line: ErasureLine) -> ErasureProgress:
    """Build the progress of an erasure, from which the stepper is drawn."""
    begun = line.state not in (*CLOSED, State.PLANNED, State.HELD)
    return ErasureProgress(
        steps=_build_steps(line),
        erased=sum(each.erased or 0 for each in line.places),
        fenced=sum(each.fenced or 0 for each in line.places),
        waiting=erasure_waits.render_wait(line),
        passing=line.waiting_on in erasure_waits.PASSING and line.state != State.HELD,
        moving=begun or (line.state == State.PLANNED and bool(line.confirmed_at)),
    )


def _build_steps(line: ErasureLine) -> tuple[ErasureStep, ...]:
    first = _SUBJECT_STATES if line.scope == Scope.SUBJECT else _PART_STATES
    entered = {state: datetime.fromisoformat(at) for state, at in line.times.items()}
    # The first state that is not entered yet is under way.
    ahead = line.confirmed_at is not None and line.state not in (*CLOSED, State.HELD)
    before, steps = line.confirmed_at, []
    for state in (*first, *_COMMON_STATES):
        at = entered.get(state)
        steps.append(
            ErasureStep(
                state=state,
                text=STATE_TEXTS[state],
                work=STATE_WORK[state],
                since=before,
                at=at,
                took=at - before if at and before else None,
                how="done" if at else "now" if ahead else "next",
            )
        )
        before, ahead = at, ahead and at is not None
    return tuple(steps)
