"""Refusals: one class each. `code` is the stable word, the docstring the message.

`detail` holds numbers and our own words, never the offending value.
"""

from __future__ import annotations

import inspect
from typing import ClassVar

Detail = str | int | float | bool | tuple[int, ...] | None


class Refusal(Exception):
    """The request was refused; nothing has changed."""

    code: ClassVar[str] = "value"

    def __init__(self, **detail: Detail) -> None:
        self.detail = detail
        super().__init__(self.code)

    @property
    def message(self) -> str:
        """The class's docstring on one line: what happened and what to do next."""
        return " ".join((inspect.getdoc(type(self)) or "").split())

    @property
    def sentence(self) -> str:
        """The message, and the numbers that go with it."""
        known = [f"{n}: {_said(v)}" for n, v in self.detail.items() if v is not None]
        return f"{self.message} ({', '.join(known)})" if known else self.message


def _said(value: Detail) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


class InvalidError(Refusal):
    """The request has a value that is out of its range or vocabulary.

    `loc` names the field; correct it and send again.
    """

    code = "value"

    def __init__(self, *, code: str = "value", loc: str = "", **detail: Detail) -> None:
        super().__init__(**detail)
        self.invalid_code = code
        self.loc = loc


class TokensRequiredError(InvalidError):
    """The thread counts by a tokenizer that is not run here. Send `tokens`.

    For `o200k_base` the server may `pip install memoryhub[tokens]` instead.
    """

    code = "tokens_required"

    def __init__(self, tokenizer: str = "", *, largest: float = 0) -> None:
        super().__init__(code="tokens_required", loc="tokens")
        self.tokenizer = tokenizer
        #: Tokens beyond which a page of the thread is not mapped whole.
        self.largest = largest


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
    """The thread has moved past the seq in If-Match. Read it again, then decide."""

    code = "stale"


class ScopeConflictError(Refusal):
    """A scope level of the thread is set to another value; a set one never changes."""

    code = "scope_conflict"


class SubjectConflictError(Refusal):
    """The thread belongs to another subject, and a thread never changes its subject."""

    code = "subject_conflict"


class SubjectRestrictedError(Refusal):
    """The subject is restricted: its memory is neither read nor written for now."""

    code = "subject_restricted"


class NameTakenError(Refusal):
    """The project has a thread of that name already. Choose another name."""

    code = "name_taken"


class ThreadClosedError(Refusal):
    """The thread is closed. Reopen it, or fork it and write to the fork."""

    code = "thread_closed"


class ThreadFullError(Refusal):
    """The slots do not fit below the thread's `max_slots`; nothing was stored.

    Raise the limit or go on in a new thread.
    """

    code = "thread_full"


class ProjectFullError(Refusal):
    """The project has as many threads as `max_threads` allows. Raise the limit."""

    code = "project_full"


class ForkTooDeepError(Refusal):
    """A fork may have at most 32 ancestors. Fork one of them instead."""

    code = "fork_too_deep"


class BeyondHeadError(Refusal):
    """The fork's origin lies beyond the head of its parent."""

    code = "beyond_head"


class IdempotencyMismatchError(Refusal):
    """This Idempotency-Key was used for another request; nothing was written."""

    code = "idempotency_mismatch"


class SubjectErasedError(Refusal):
    """The subject was erased. Nothing can be read or written for it again."""

    code = "subject_erased"


class ThreadErasedError(Refusal):
    """The thread was erased or retired. Its name is never used again."""

    code = "thread_erased"


class ContentErasedError(Refusal):
    """The content was erased; its place in the thread remains."""

    code = "content_erased"


class CorruptError(Refusal):
    """Stored bytes do not open or do not verify. Run `manage.py verify`."""

    code = "corrupt"


class SealBrokenError(CorruptError):
    """Sealed bytes do not open where they stand: damaged or moved."""


class NewerFormatError(Refusal):
    """A newer version of MemoryHub wrote this. Upgrade, then read it."""

    code = "newer_format"


class RateError(Refusal):
    """Too many requests. Wait as long as Retry-After says."""

    code = "rate"

    def __init__(self, *, retry_after_seconds: int = 1) -> None:
        super().__init__(retry_after_seconds=retry_after_seconds)


class UnavailableError(Refusal):
    """A part the request needs is away; nothing was written. Try again."""

    code = "unavailable"


class QueueFullError(UnavailableError):
    """The writer's queue is full; nothing was written. Try again."""

    code = "queue_full"


class ClockSkewError(UnavailableError):
    """This process's clock is more than two seconds off; nothing was done.

    Ask another process. An operator: put the machine's clock right, then restart.
    """

    code = "clock_skew"


class KeyMissingError(UnavailableError):
    """A data key is absent though nobody destroyed it. Restore the keys database."""

    code = "key_missing"


class StartRefusedError(Exception):
    """The server must not start like this; the message is one line without secrets."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class PageUnknownError(Refusal):
    """The thread has no page of that id. Look the ids up in the manifest."""

    code = "page_unknown"


class UnknownPageError(Refusal):
    """The provenance names a page that the thread does not have."""

    code = "unknown_page"


class PageErasedError(Refusal):
    """The page was deleted or erased, and its id is never used again."""

    code = "page_erased"


class DerivedPageError(Refusal):
    """The page is a message or an observation; only importance and hint can change."""

    code = "derived_page"


class NoRoomError(Refusal):
    """The page fits at no level; nothing was stored.

    Unpin pages, or raise `budget_tokens`.
    """

    code = "no_room"


class PinnedError(Refusal):
    """The page is pinned, and pinned pages are never evicted. Unpin it first."""

    code = "pinned"


class PinBudgetError(Refusal):
    """Pins and system prompt would hold more than `pin_share` allows.

    Unpin something, or raise `pin_share` or `budget_tokens`.
    """

    code = "pin_budget"


class FaultConfidenceError(Refusal):
    """The reason is less certain than the thread's threshold asks for; nothing charged.

    Fault only pages that the user or the text refers to.
    """

    code = "fault_confidence"


class FaultBudgetError(Refusal):
    """The exchange has no faults or fault tokens left for this; nothing was charged.

    Ask for one of `cheaper_levels`, or go on with what is mapped until the user's next
    message, which renews the budget.
    """

    code = "fault_budget"
    #: What the budget waits for; no clock renews it.
    renews: ClassVar[str] = "next_exchange"


class NotRecordedError(Refusal):
    """No request was recorded for this turn: none was packed by the hub."""

    code = "not_recorded"


class KeyNotFoundError(Refusal):
    """There is no such key, or its instant has passed."""

    code = "key_not_found"


class KeyExistsError(Refusal):
    """The key exists, and it was to be made anew. Read it, then decide."""

    code = "key_exists"


class KeysFullError(Refusal):
    """The thread holds as many keys or bytes of values as it may; nothing is evicted.

    Delete keys, or raise `max_keys` or `max_key_bytes`.
    """

    code = "keys_full"


class ValueTooLargeError(Refusal):
    """A value is at most `max_bytes` long. Store it as a page, or in parts."""

    code = "value_too_large"


class TaskNotFoundError(Refusal):
    """The thread has no task. PUT one first."""

    code = "task_not_found"


class CheckpointUnknownError(Refusal):
    """There is no such checkpoint, or it was deleted. The list has those there are."""

    code = "not_found"


class CheckpointsFullError(Refusal):
    """The thread holds as many checkpoints as it may. Delete some first."""

    code = "checkpoints_full"
