"""Members of a project: operators with a role in it. Never writes."""

from __future__ import annotations

from uuid import UUID

from memoryhub.errors import NotFoundError
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project

_OFFICERS = (Membership.Role.OFFICER, Membership.Role.OWNER)


def get_membership(slug: str, operator: Operator) -> Membership | None:
    """Return the operator's role, with the project; None without one. One query."""
    rows = Membership.objects.select_related("project")
    return rows.filter(project__slug=slug, operator=operator).first()


def is_project_owner(operator: Operator) -> bool:
    """Tell whether the operator owns any project. One query."""
    rows = Membership.objects.filter(operator=operator, role=Membership.Role.OWNER)
    return rows.exists()


def get_member(project: Project, operator: UUID) -> Membership:
    """Return a member of the project, with the operator. One query.

    Raises NotFoundError.
    """
    rows = Membership.objects.select_related("operator")
    found = rows.filter(project=project, operator=operator).first()
    if found is None:
        raise NotFoundError
    return found


def list_members(project: Project, *, limit: int) -> list[Membership]:
    """List a project's members by name, each with the operator. One query."""
    rows = Membership.objects.filter(project=project).select_related("operator")
    return list(rows.order_by("operator__username")[:limit])


def list_officers(project: Project) -> list[Operator]:
    """List by name the operators who may act as officers of the project. One query."""
    rows = Operator.objects.filter(
        is_active=True,
        memberships__project=project,
        memberships__role__in=_OFFICERS,
    )
    return list(rows.order_by("username"))
