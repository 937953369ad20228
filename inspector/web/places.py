from __future__ import annotations

from dataclasses import dataclass

from inspector.web.looks import Look
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project
from memoryhub.services.access import operators


class RoleError(Exception):
    """A role in one's own project is missing."""

    def __init__(self, role: str) -> None:
        self.role = role
        super().__init__(role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who looks, into which project, and what they may do there."""

    operator: Operator
    project: Project
    role: str
    #: What the request comes upon, for the audit log; None where nobody looks.
    look: Look | None = None

    def allows(self, role: str) -> bool:
        return operators.allows(self.role, role)

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
