"""Refusals of observing."""

from __future__ import annotations

from memoryhub.errors.refusals import Refusal


class RangeTakenError(Refusal):
    """These messages are observed already, or others before them are not.

    Read the observer, and begin at its `watermark` or at a gap.
    """

    code = "range_taken"


class RangeOpenError(Refusal):
    """The range would part calls from their results. End it before the calls."""

    code = "range_open"


class StaleEpochError(Refusal):
    """Observing was paused, or something was erased, since this began. Begin anew."""

    code = "stale_epoch"


class LogChangedError(Refusal):
    """The log no longer begins with the observations that this was made of."""

    code = "log_changed"


class NothingToDoError(Refusal):
    """Nothing is there to be observed or condensed, or calls wait for their results."""

    code = "nothing_to_do"


class ObserverOffError(Refusal):
    """The thread is not observed. Set its `observe` to true first."""

    code = "observer_off"


class ObservationsWantedError(Refusal):
    """The turn needs observations that are to be made first."""

    code = "observations_wanted"


class LogFullError(Refusal):
    """The log takes half of the window. Reflect it first."""

    code = "log_full"


class PinnedByLogError(Refusal):
    """The page stands in the log of observations, which leaves no request."""

    code = "pinned_by_log"
