"""Refusals of paging."""

from __future__ import annotations

from typing import ClassVar

from memoryhub.errors.refusals import Refusal


class PageUnknownError(Refusal):
    """The thread has no page of that id. Look the ids up in the manifest."""

    code = "page_unknown"


class UnknownPageError(Refusal):
    """The provenance names a page that the thread does not have."""

    code = "unknown_page"


class PageErasedError(Refusal):
    """The page was deleted, erased or renamed, and its id is never used again."""

    code = "page_erased"


class DerivedPageError(Refusal):
    """The page is a message or an observation; only importance and hint can change."""

    code = "derived_page"


class NoRoomError(Refusal):
    """There is no room for it in a request; nothing was stored or charged.

    Ask for `fits_level`, or for a part (`offset`, `limit`) of `fits_tokens`, where they
    are named; else unpin pages, or raise `budget_tokens`.
    """

    code = "no_room"


class BudgetTooSmallError(NoRoomError):
    """Not even the newest message fits into a request of this `token_budget`.

    Send `least_tokens` or more. A `turn` that is named has begun, and its messages are
    kept: ask for its request by GET …/context, and do not send the messages again.
    """

    code = "no_room"


class PartsUnseenError(NoRoomError):
    """Parts of this page that no request has shown yet take its room; nothing charged.

    Begin the next turn first, then ask for this part again.
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
    #: Moment at which the budget is renewed; no clock renews the budget.
    renews: ClassVar[str] = "next_exchange"


class NotInBlockError(Refusal):
    """The block has no such text; nothing was changed. Read it, and say it exactly."""

    code = "not_in_block"


class NotUniqueError(Refusal):
    """The block has the text more than once; nothing was changed. Say more of it."""

    code = "not_unique"


class BlockReadOnlyError(Refusal):
    """The block is read-only: a model does not change it."""

    code = "block_read_only"


class BlocksFullError(Refusal):
    """The subject has as many blocks as it may hold. Delete one, or write to another.

    A block that is deleted makes room; its id is never used again.
    """

    code = "blocks_full"


class NotRecordedError(Refusal):
    """No request was recorded for this turn: none was packed by the hub."""

    code = "not_recorded"
