"""Refusals of facts."""

from __future__ import annotations

from memoryhub.errors.refusals import Refusal


class FactUnknownError(Refusal):
    """There is no such assertion or fact, or it was erased. The list has them all."""

    code = "not_found"


class NoModelError(Refusal):
    """The server has no language model. Set MEMORYHUB_MODEL_URL, _NAME and _KEY."""

    code = "no_model"


class SubjectFullError(Refusal):
    """The subject has as many assertions as it may; nothing is evicted. Erase some."""

    code = "subject_full"


class TimelineFullError(Refusal):
    """The timeline has as many assertions as it may. Assert changes alone."""

    code = "timeline_full"
