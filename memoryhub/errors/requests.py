"""Refusals of requests: authentication, preconditions, rates and unknown seqs."""

from __future__ import annotations

from memoryhub.errors.refusals import Detail, Refusal


class UnauthorizedError(Refusal):
    """No valid API key was sent. Send `Authorization: Bearer mh_…`."""

    code = "unauthorized"


class ScopeError(Refusal):
    """The API key lacks the scope this route needs. Use a key that has it."""

    code = "scope"


class KeyInUrlError(Refusal):
    """An API key stood in the URL, where logs can keep it. Send it in Authorization."""

    code = "key_in_url"


class NotFoundError(Refusal):
    """There is nothing here by that name, or it is not yours."""

    code = "not_found"


class SeqUnknownError(Refusal):
    """The thread has no such event yet. Ask for a seq at or before its head."""

    code = "seq_unknown"


class BadCursorError(Refusal):
    """The cursor is not one this list gave out. Start again without `after`."""

    code = "bad_cursor"


class BadPreconditionError(Refusal):
    """If-Match takes one event seq, a plain number."""

    code = "bad_precondition"


class StaleError(Refusal):
    """It has moved past the seq or version in If-Match. Read again, then decide."""

    code = "stale"


class IdempotencyMismatchError(Refusal):
    """This Idempotency-Key was used for another request; nothing was written."""

    code = "idempotency_mismatch"


class InProgressError(Refusal):
    """A request with this Idempotency-Key is being served. Repeat yours in a moment."""

    code = "in_progress"


class RateError(Refusal):
    """Too many requests. Wait as long as Retry-After says."""

    code = "rate"

    def __init__(self, *, retry_after_seconds: int = 1, **limits: Detail) -> None:
        super().__init__(retry_after_seconds=retry_after_seconds, **limits)
