"""Event bodies of observing. Pydantic, frozen, strict."""

from __future__ import annotations

from typing import Literal

from memoryhub.kernel.state.bodies import Count, Event, Figure, Flag, Instant, Token
from memoryhub.kernel.state.observing import ObserverRole

#: Why nothing came of asking: no model answered, its answer was no JSON, had no lines,
#: repeated itself, was no smaller than what it stands for, or lost what is critical.
Failure = Literal["no_model", "no_json", "empty", "degenerate", "too_large", "lossy"]


class ObservationsActivated(Event):
    """Observations that waited stand in requests, in the place of their messages."""

    event_type = "observations.activated"

    turn: Count
    #: All slots before it are covered from here on.
    to: Count
    count: Count
    #: Of all that stands in the log now.
    log_tokens: Count


class LogReflected(Event):
    """A reflection stands in the log, in the place of what it was made of."""

    event_type = "log.reflected"

    page_id: Token
    generation: Count
    replaced: Count
    log_before: Count
    log_tokens: Count


class ObserverFailed(Event):
    """A model was asked to observe or reflect, and nothing came of it."""

    event_type = "observer.failed"

    role: ObserverRole
    #: Of the range of slots that it was about.
    begin: Count
    end: Count
    failure: Failure
    #: In a row, this one included.
    failures: Count
    retry_at: Instant
    tokens_in: Count
    tokens_out: Count
    cost: Figure | None = None
    #: Of the model, which was given the messages.
    host: Token | None = None


class ObserverPaused(Event):
    """Nothing is begun from here on; what was begun comes to nothing."""

    event_type = "observer.paused"

    #: Somebody ended it by hand; else an agent observes for itself.
    by_hand: Flag


class ObserverResumed(Event):
    """Observing goes on."""

    event_type = "observer.resumed"
