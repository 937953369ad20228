"""What commands note in the audit log, beside what services note of themselves."""

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
    """Note what was done; it is done, so a log that is away is only told of."""
    try:
        audit.record(actor=audit.COMMAND, action=action, project=project, **details)
    except Refusal as refusal:
        command.stderr.write(f"This is not in the audit log: {refusal.code}.")
