"""Refusals of keys, tasks and checkpoints."""

from __future__ import annotations

from memoryhub.errors.refusals import Refusal


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
