"""Refusals of forgetting, exporting and importing."""

from __future__ import annotations

from collections.abc import Mapping

from memoryhub.errors.refusals import Refusal
from memoryhub.errors.requests import RateError
from memoryhub.errors.trouble import UnavailableError


class ValueErasedError(Refusal):
    """This value was erased for this subject and may not be written again.

    An officer can lift the tombstone.
    """

    code = "value_erased"


class BundleErasedError(Refusal):
    """The bundle holds a generation of the subject that was erased here."""

    code = "bundle_erased"


class BadBundleError(Refusal):
    """The bundle is not whole or not one of ours; nothing of it was written."""

    code = "bad_bundle"


class ErasureInProgressError(Refusal):
    """An erasure of this subject is open already. Confirm or cancel that one first."""

    code = "erasure_in_progress"


class ProjectDeletedError(Refusal):
    """The project is being deleted, or was. Nothing begins in it any more."""

    code = "project_deleted"


class NothingToEraseError(Refusal):
    """The plan matches nothing, so there is nothing to confirm."""

    code = "nothing_to_erase"


class PlanExpiredError(Refusal):
    """The plan was valid for 15 minutes. Make a new one."""

    code = "plan_expired"


class PlanStaleError(Refusal):
    """The memory moved since the plan. Look at the new one, then confirm that.

    A plan made with `restrict` stands still until it is confirmed.
    """

    code = "plan_stale"
    #: The new plan, in the form of the answer.
    plan: Mapping[str, object] | None = None


class CountMismatchError(Refusal):
    """The count is not the plan's, so nothing was erased. Read the plan again."""

    code = "count_mismatch"


class AlreadyFencedError(Refusal):
    """The erasure has begun and can't be cancelled any more."""

    code = "already_fenced"


class NotCompleteError(Refusal):
    """The erasure is not complete, so there is no receipt yet."""

    code = "not_complete"


class NotErasedError(Refusal):
    """No subject of that id was erased, so there is none to readmit."""

    code = "not_erased"


class ExportBusyError(Refusal):
    """The limit of exports at one time is reached. Wait for one to end."""

    code = "export_busy"


class ForgetBudgetError(RateError):
    """This key has confirmed as many erasures today as it may. Go on tomorrow (UTC)."""

    code = "forget_budget"


class ErasuresToReplayError(UnavailableError):
    """A backup was restored from before an erasure; nothing is served until it is
    replayed. An operator: run the command `forget --replay`.
    """

    code = "erasures_to_replay"


class LedgerUnwritableError(UnavailableError):
    """The ledger of erasures can't be written. See the rights and the disk of its
    folder.
    """

    code = "ledger_unwritable"


class LedgerBrokenError(UnavailableError):
    """The ledger of erasures was changed by other hands than ours. Put back its last
    good copy.
    """

    code = "ledger_broken"
