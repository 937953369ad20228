"""Refusals of threads and their content."""

from __future__ import annotations

from memoryhub.errors.refusals import Refusal


class ScopeConflictError(Refusal):
    """A scope level of the thread is set to another value; a set one never changes."""

    code = "scope_conflict"


class SubjectConflictError(Refusal):
    """The thread belongs to another subject, and a thread never changes its subject."""

    code = "subject_conflict"


class SubjectRestrictedError(Refusal):
    """The subject is restricted: its memory is neither read nor written for now."""

    code = "subject_restricted"


class SubjectHeldError(Refusal):
    """The subject is held: nothing of its memory is erased before the hold ends."""

    code = "subject_held"


class NameTakenError(Refusal):
    """The name is taken already, by another of its kind. Choose another name."""

    code = "name_taken"


class ThreadClosedError(Refusal):
    """The thread is closed. Reopen it, or fork it and write to the fork."""

    code = "thread_closed"


class ThreadFullError(Refusal):
    """The slots do not fit below the thread's `max_slots`; nothing was stored.

    Raise the limit or go on in a new thread.
    """

    code = "thread_full"


class SlotInheritedError(Refusal):
    """The fork inherited the slot: strike it in its own thread, and fork that anew.

    `inherited` is the number of inherited slots; later slots are the fork's own.
    """

    code = "slot_inherited"


class HomeThreadError(Refusal):
    """The thread is a subject's home: written by blocks and facts, and kept as it is.

    It takes no messages, begins no turns, and is neither forked nor closed.
    """

    code = "home_thread"


class HomeTakenError(Refusal):
    """The subject has a home thread here already. Erase that, or leave the bundle."""

    code = "home_taken"


class ProjectFullError(Refusal):
    """The project has as many threads as `max_threads` allows. Raise the limit."""

    code = "project_full"


class BudgetDiffersError(Refusal):
    """The thread's paging was simulated under another --budget, or under none.

    Nothing of it was changed. Repeat with the budget that it `was`, leave --budget out
    to bring in only new messages, or import it anew beside it with another --source.
    """

    code = "budget_differs"

    def __init__(self, *, was: int | None = None, requested: int = 0) -> None:
        super().__init__(was=was or "none", asked=requested)


class ForkTooDeepError(Refusal):
    """A fork may have at most 32 ancestors. Fork one of them instead."""

    code = "fork_too_deep"


class BeyondHeadError(Refusal):
    """The fork's origin lies beyond the head of its parent."""

    code = "beyond_head"


class SubjectErasedError(Refusal):
    """The subject was erased. Nothing can be read or written for it again."""

    code = "subject_erased"


class ThreadErasedError(Refusal):
    """The thread was erased or retired. Its name is never used again."""

    code = "thread_erased"


class ContentErasedError(Refusal):
    """The content was erased; its place in the thread remains."""

    code = "content_erased"
