"""Entries of commands in the audit log, besides the entries of services."""

from __future__ import annotations

from typing import Unpack
from uuid import UUID

from django.core.management.base import BaseCommand

from memoryhub.errors import Refusal
from memoryhub.journal.audit import Details
from memoryhub.services.access import audit


def note(
    command: BaseCommand,
    action: str,
    *,
    project: UUID | None = None,
    **details: Unpack[Details],
) -> None:
    """Note an action in the audit log; a failure is only printed, as the action is
    done."""
    try:
        audit.record(
            actor=audit.COMMAND_ACTOR, action=action, project=project, **details
        )
    except Refusal as refusal:
        command.stderr.write(f"This is not in the audit log: {refusal.code}.")
