"""Operators: people who sign in, their roles, and their one-time links."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.password_validation import validate_password
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from memoryhub import journal
from memoryhub.errors import InvalidError, NameTakenError
from memoryhub.journal import audit
from memoryhub.journal.log import fence
from memoryhub.kernel.text import names
from memoryhub.models.access.operators import Membership, Operator, SignInLink
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.services.access.audit import COMMAND_ACTOR

#: Operator created at the first start; signs in by a link until a password is set.
DEFAULT_USERNAME = "operator"
LINK_MINUTES = 15
MAX_LINK_MINUTES = 24 * 60
_ROLE_RANKS = {role: rank for rank, role in enumerate(Membership.Role.values)}


def ensure_default() -> Operator:
    """Return the default operator of every instance, creating the account if absent.

    The account has no password and no other rights. Projects without an owner become
    the default operator's own, so that no project is out of reach.
    """

    def ensure() -> Operator:
        with transaction.atomic():
            operator = Operator.objects.filter(username=DEFAULT_USERNAME).first()
            operator = operator or _insert_operator(
                DEFAULT_USERNAME, actor=COMMAND_ACTOR
            )
            owned = Membership.objects.filter(role=Membership.Role.OWNER)
            orphans = Project.objects.exclude(id__in=owned.values("project_id"))
            for project in orphans:
                _assign_role(
                    project, operator, Membership.Role.OWNER, actor=COMMAND_ACTOR
                )
            return operator

    made: Operator = journal.run(ensure)
    return made


def add(username: str, *, actor: str = COMMAND_ACTOR) -> Operator:
    """Create an operator without a password. Raises NameTakenError, InvalidError."""
    if not names.is_valid(username) or len(username) > 64:
        raise InvalidError(code="name", loc="username")

    def insert() -> Operator:
        try:
            with transaction.atomic():
                return _insert_operator(username, actor=actor)
        except IntegrityError:
            raise NameTakenError from None

    made: Operator = journal.run(insert)
    return made


def find(username: str) -> Operator | None:
    """Find the active operator of exactly this name. One query."""
    return Operator.objects.filter(username=username, is_active=True).first()


def set_password(
    operator: Operator, password: str, *, actor: str = COMMAND_ACTOR
) -> None:
    """Set the operator's password. Raises InvalidError `password_weak`."""
    try:
        validate_password(password, operator)
    except ValidationError:
        raise InvalidError(code="password_weak", loc="password") from None
    # Hash outside the writer: scrypt takes longer than the writer should wait.
    operator.set_password(password)

    def change() -> None:
        with transaction.atomic():
            operator.save(update_fields=["password"])
            _audit_operator("operator.password_set", operator, actor=actor)

    journal.run(change)


def set_role(
    project: Project,
    operator: Operator,
    role: str | None,
    *,
    actor: str = COMMAND_ACTOR,
) -> None:
    """Set the operator's role in the project; None removes the operator from it.

    Any change ends the operator's sessions: a session keeps no rights of an earlier
    role. See decision 9.

    Raises InvalidError: `value` for an unknown role, and at `own` when operators raise
    their own role; `last_owner` when the project would lose its last owner. Raises
    ProjectDeletedError: the members who can follow the deletion stay.
    """
    if role is not None and role not in _ROLE_RANKS:
        raise InvalidError(loc="role")

    def change() -> None:
        with transaction.atomic():
            # Lock: two changes at once could each remove the other's remaining owner.
            Project.objects.select_for_update().get(id=project.id)
            fence.require_active(project.id)
            before = get_role(project, operator)
            if actor == f"operator:{operator.id}" and _rank_role(role) > _rank_role(
                before
            ):
                raise InvalidError(loc="own")
            if role != Membership.Role.OWNER and _is_last_owner(project, operator):
                raise InvalidError(code="last_owner", loc="role")
            if role != before:
                _assign_role(project, operator, role, actor=actor)
                _end_sessions(operator)

    journal.run(change)


def make_first_owner(project: Project, operator: Operator, *, actor: str) -> None:
    """Make the operator the owner of a project, in the transaction that creates it.

    Unlike `set_role` this ends no session: the new role withdraws no rights.
    """
    _assign_role(project, operator, Membership.Role.OWNER, actor=actor)


def disable(operator: Operator, *, actor: str = COMMAND_ACTOR) -> None:
    """Disable the operator: sessions and links end now, sockets within seconds.

    Roles stay, for a later `enable`. A repeat writes nothing. Raises InvalidError:
    `last_owner` when a project would have no other owner, `value` for the default
    operator.
    """
    if operator.username == DEFAULT_USERNAME:
        raise InvalidError(loc="username")

    def change() -> None:
        with transaction.atomic():
            owned = Project.objects.filter(
                memberships__operator=operator,
                memberships__role=Membership.Role.OWNER,
            )
            # Lock as for a role, in order of ids: two such changes must not deadlock.
            ids = owned.order_by("id").values_list("id", flat=True)
            rows = Project.objects.select_for_update().filter(id__in=list(ids))
            for project in rows.order_by("id"):
                if _is_last_owner(project, operator):
                    raise InvalidError(code="last_owner", loc="username")
            _set_active(operator, "operator.disabled", on=False, actor=actor)
            _end_sessions(operator)

    journal.run(change)


def enable(operator: Operator, *, actor: str = COMMAND_ACTOR) -> None:
    """Enable a disabled operator; a repeat writes nothing."""

    def change() -> None:
        with transaction.atomic():
            _set_active(operator, "operator.enabled", on=True, actor=actor)

    journal.run(change)


def get_role(project: Project, operator: Operator) -> str | None:
    """Get the operator's role in the project; None if there is none. One query."""
    rows = Membership.objects.filter(project=project, operator=operator)
    return rows.values_list("role", flat=True).first()


def is_role_at_least(role: str | None, needed: str) -> bool:
    """Return whether a role includes the needed role."""
    return role is not None and _ROLE_RANKS[role] >= _ROLE_RANKS[needed]


def list_projects(operator: Operator) -> list[Project]:
    """List the projects the operator may see, by slug. One query."""
    return list(Project.objects.filter(memberships__operator=operator).order_by("slug"))


def make_link(
    operator: Operator, minutes: int = LINK_MINUTES, *, actor: str = COMMAND_ACTOR
) -> str:
    """Create a one-time link's token, 43 characters; only its digest is stored."""
    if not 1 <= minutes <= MAX_LINK_MINUTES:
        raise InvalidError(loc="minutes")
    token = secrets.token_urlsafe(32)
    end = clock.now() + timedelta(minutes=minutes)
    row = SignInLink(digest=_hash_token(token), operator=operator, expires_at=end)

    def insert() -> None:
        with transaction.atomic():
            row.save(force_insert=True)
            _audit_operator("operator.link_made", operator, actor=actor)

    journal.run(insert)
    return token


def use_link(token: str) -> Operator | None:
    """Use a link once; return its operator, or None if unknown, used or expired.

    Raises ClockSkewError.
    """
    clock.require_true()

    def use() -> Operator | None:
        with transaction.atomic():
            now, digest = clock.now(), _hash_token(token)
            open_links = SignInLink.objects.filter(
                digest=digest, used_at=None, expires_at__gt=now
            )
            # Compare-and-set: of two requests that post the same link one succeeds.
            if not open_links.update(used_at=now):
                return None
            link = SignInLink.objects.select_related("operator").get(digest=digest)
            return link.operator if link.operator.is_active else None

    used: Operator | None = journal.run(use)
    return used


def _insert_operator(username: str, *, actor: str) -> Operator:
    """Insert an operator without a password; call inside a transaction."""
    operator = Operator(username=username, created_at=clock.now())
    operator.set_unusable_password()
    operator.save(force_insert=True)
    _audit_operator("operator.added", operator, actor=actor)
    return operator


def _assign_role(
    project: Project, operator: Operator, role: str | None, *, actor: str
) -> None:
    """Set or delete the membership and audit the change; call inside a transaction."""
    rows = Membership.objects.filter(project=project, operator=operator)
    if role is None:
        rows.delete()
    else:
        Membership.objects.update_or_create(
            project=project, operator=operator, defaults={"role": role}
        )
    _audit_operator("role.changed", operator, actor=actor, project=project)


def _audit_operator(
    action: str, operator: Operator, *, actor: str, project: Project | None = None
) -> None:
    """Append an audit entry about the operator; call inside a transaction."""
    audit.append(
        actor=actor,
        action=action,
        project=project.id if project else None,
        target_kind="operator",
        target_id=str(operator.id),
    )


def _rank_role(role: str | None) -> int:
    """Rank a role, 0 for the lowest; -1 for none."""
    return -1 if role is None else _ROLE_RANKS[role]


def _set_active(operator: Operator, action: str, *, on: bool, actor: str) -> None:
    """Enable or disable the operator; audits only a change."""
    rows = Operator.objects.filter(id=operator.id, is_active=not on)
    if rows.update(is_active=on):
        _audit_operator(action, operator, actor=actor)
    operator.is_active = on


def _end_sessions(operator: Operator) -> None:
    """Delete the operator's sessions; decodes all, as none has an operator column."""
    rows = Session.objects.filter(expire_date__gt=clock.now())
    own = [
        row.session_key
        for row in rows.iterator()
        if row.get_decoded().get(SESSION_KEY) == str(operator.id)
    ]
    Session.objects.filter(session_key__in=own).delete()


def _is_last_owner(project: Project, operator: Operator) -> bool:
    """Return whether the operator is the only active owner of the project."""
    owners = Membership.objects.filter(
        project=project, role=Membership.Role.OWNER, operator__is_active=True
    )
    held = set(owners.values_list("operator_id", flat=True))
    return held == {operator.id}


def _hash_token(token: str) -> bytes:
    """Hash a token with SHA-256."""
    return hashlib.sha256(token.encode()).digest()
