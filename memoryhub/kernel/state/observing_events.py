"""Event bodies of observing. Pydantic, frozen, strict."""

from __future__ import annotations

from typing import Literal

from memoryhub.kernel.state.bodies import (
    Count,
    EventBody,
    Figure,
    Flag,
    Instant,
    Size,
    Token,
)
from memoryhub.kernel.state.observing import ObserverRole

#: Why a model call failed: no model answered, or its answer was no JSON, had no lines,
#: repeated itself, was no smaller than its source, or lost critical lines.
Failure = Literal["no_model", "no_json", "empty", "degenerate", "too_large", "lossy"]


class ObservationsActivated(EventBody):
    """Waiting observations replace their messages in requests from here on."""

    event_type = "observations.activated"

    turn: Count
    #: The log covers all slots before this index from here on.
    to: Count
    count: Count
    #: Tokens of the whole log now.
    log_tokens: Count


class LogReflected(EventBody):
    """A reflection replaces, in the log, the observations that it was made of."""

    event_type = "log.reflected"

    page_id: Token
    generation: Count
    replaced: Count
    log_before: Count
    log_tokens: Count


class ObserverFailed(EventBody):
    """A model was asked to observe or reflect, and gave nothing of use."""

    event_type = "observer.failed"

    role: ObserverRole
    #: Range of slots of the request: begin and end.
    begin: Count
    end: Count
    failure: Failure
    #: Consecutive failures, including this failure.
    failures: Count
    retry_at: Instant
    tokens_in: Count
    tokens_out: Count
    cost: Figure | None = None
    #: Host of the model that received the messages.
    host: Token | None = None


class ObserverPaused(EventBody):
    """The observer starts nothing from here on; work under way is discarded."""

    event_type = "observer.paused"

    #: An operator paused the observer; otherwise an agent observes for itself.
    by_hand: Flag


class ObserverResumed(EventBody):
    """The observer works again."""

    event_type = "observer.resumed"


class ObserverInstructed(EventBody):
    """The thread's own instructions to observer or reflector changed. Payload: the
    text; null where the project's instructions hold again."""

    event_type = "observer.instructed"
    sealed = True
    resent = True

    role: ObserverRole
    #: Keyed digest of the text; None where the project's instructions hold again.
    digest: Token | None = None
    bytes: Size
