from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from inspector.web.read_audit import ContentRead
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import operators


class RoleError(Exception):
    """A role in the operator's own project is missing."""

    def __init__(self, role: str) -> None:
        self.role = role
        super().__init__(role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Hold an operator in a project, and what they may do there."""

    operator: Operator
    project: Project
    role: str
    #: What the request shows, for the audit log; None where nobody reads.
    reading: ContentRead | None = None

    def allows(self, role: str) -> bool:
        return operators.allows(self.role, role)

    def note(self, rows: Iterable[Thread]) -> None:
        """Note that the request shows content of these threads."""
        if self.reading is not None:
            for row in rows:
                self.reading.add(row, actor=self.actor)

    def require(self, role: str) -> None:
        if not self.allows(role):
            raise RoleError(role)

    @property
    def editor(self) -> bool:
        return self.allows(Membership.Role.EDITOR)

    @property
    def officer(self) -> bool:
        return self.allows(Membership.Role.OFFICER)

    @property
    def owner(self) -> bool:
        return self.allows(Membership.Role.OWNER)

    @property
    def actor(self) -> str:
        return f"operator:{self.operator.id}"
