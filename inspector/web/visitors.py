from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from inspector.web.read_audit import ContentRead
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import operators


class RoleError(Exception):
    """Refusal of an operator who lacks a role in their own project."""

    def __init__(self, role: str) -> None:
        self.role = role
        super().__init__(role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """An operator in a project, with the role there."""

    operator: Operator
    project: Project
    role: str
    #: Content that the request shows, for the audit log; None without a read.
    reading: ContentRead | None = None

    def has_role(self, role: str) -> bool:
        return operators.is_role_at_least(self.role, role)

    def note_threads(self, rows: Iterable[Thread]) -> None:
        """Note that the request shows content of these threads."""
        if self.reading is not None:
            for row in rows:
                self.reading.add(row, actor=self.actor)

    def require_role(self, role: str) -> None:
        if not self.has_role(role):
            raise RoleError(role)

    @property
    def editor(self) -> bool:
        return self.has_role(Membership.Role.EDITOR)

    @property
    def officer(self) -> bool:
        return self.has_role(Membership.Role.OFFICER)

    @property
    def owner(self) -> bool:
        return self.has_role(Membership.Role.OWNER)

    @property
    def actor(self) -> str:
        return f"operator:{self.operator.id}"
