"""Forgetting, in words for a screen: steps, reasons, what waits for what. Pure."""

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

#: Each scope, as the form offers it.
SCOPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        Scope.SUBJECT: "Everything about this person, with the key that opens it",
        Scope.THREAD: "One thread, with all that was made of it",
        Scope.BEFORE: "Every record before a time, with all that was made of it",
        Scope.RECORD: "One record, with all that was made of it",
    }
)
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "not_needed": "no longer needed for its purpose",
        "consent_withdrawn": "consent was withdrawn",
        "objection": "the person objected",
        "unlawful": "it was unlawful to keep it",
        "legal_duty": "a law demands it",
        "child": "it was collected from a child",
        "retention": "its time is over",
        "poisoning": "it was planted to mislead an agent",
        "mistake": "it was kept by mistake",
        "test": "a test",
    }
)
_NARROW: Final = (State.FENCED, State.TOMBSTONED)
_WHOLE: Final = (State.FENCED, State.KEY_DESTROYED)
_REST: Final = (
    State.ROWS_ERASED,
    State.CACHES_PURGED,
    State.SCRUBBED,
    State.VERIFIED,
    State.COMPLETE,
)
#: What is true once a state is entered.
STATE_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        State.FENCED: "The ledger says so, and nothing in scope can be read or written",
        State.TOMBSTONED: "What is erased may not be written again",
        State.KEY_DESTROYED: "The key is gone: what was sealed under it stays closed",
        State.ROWS_ERASED: "Contents, names and what was made of them are gone",
        State.CACHES_PURGED: "Open pages are cleared, and other processes are told",
        State.SCRUBBED: "The database has let go of the bytes",
        State.VERIFIED: "A sweep and a scan of their own found nothing left",
        State.COMPLETE: "The receipt is signed, and the ledger says it is done",
    }
)
#: What becomes of a row that goes, by the words of plans and receipts.
METHODS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "deleted": "deleted",
        "nulled": "emptied; its place stays",
        "shredded": "destroyed, key and all",
    }
)
#: Why something stays, by the words of plans and receipts.
KEPT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "chain": "the chain is checked by it; it holds counts, times and digests",
        "stays_erased": "keeps what was erased from coming back; keyed digests only",
        "accountability": "says who did what; ids and closed words only",
        "restores": "erases again after a restore; ids and keyed digests only",
        "place": "its place stays, without content",
        "fork": "a fork that lives reads it",
        "evidence": "another source still speaks for it",
        "names": "a name goes with the last thread that has it",
    }
)
#: What stays whatever goes, so that it can be proved.
STAYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "envelopes": "envelopes of events",
        "tombstones": "tombstones",
        "audit": "the audit log",
        "ledger": "the ledger of erasures",
        "names": "names in threads that stay",
    }
)
#: Where a scan looks, by the kind of the place.
SURFACES: Final = erasure_waits.PLACES


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Hold a state of an erasure, and whether it was entered."""

    state: str
    text: str
    #: When it was entered; None before.
    at: datetime | None
    took: timedelta | None
    #: `done`, `now` or `next`.
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Hold how far an erasure is."""

    steps: tuple[Step, ...]
    #: Rows that are gone, of those that the fence froze.
    erased: int
    fenced: int
    #: What the next step waits for, in words.
    waiting: str
    #: It goes on by itself: look again.
    moving: bool

    @property
    def share(self) -> int:
        return 100 * self.erased // self.fenced if self.fenced else 0


def progress(line: ErasureLine) -> Progress:
    """Compute what the stepper is drawn from."""
    begun = line.state not in (*CLOSED, State.PLANNED, State.HELD)
    return Progress(
        steps=_steps(line),
        erased=sum(each.erased or 0 for each in line.places),
        fenced=sum(each.fenced or 0 for each in line.places),
        waiting=erasure_waits.wait_text(line),
        moving=begun or (line.state == State.PLANNED and bool(line.confirmed_at)),
    )


def _steps(line: ErasureLine) -> tuple[Step, ...]:
    first = _WHOLE if line.scope == Scope.SUBJECT else _NARROW
    entered = {state: datetime.fromisoformat(at) for state, at in line.times.items()}
    # Until one of them is not entered yet: that is the one under way.
    ahead = line.confirmed_at is not None and line.state not in (*CLOSED, State.HELD)
    before, steps = line.confirmed_at, []
    for state in (*first, *_REST):
        at = entered.get(state)
        steps.append(
            Step(
                state=state,
                text=STATE_TEXTS[state],
                at=at,
                took=at - before if at and before else None,
                how="done" if at else "now" if ahead else "next",
            )
        )
        before, ahead = at, ahead and at is not None
    return tuple(steps)
