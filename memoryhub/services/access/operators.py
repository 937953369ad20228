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
from memoryhub.services.access.audit import COMMAND

#: Made by the first start; signs in by a link until somebody sets a password.
DEFAULT = "operator"
LINK_MINUTES = 15
MAX_LINK_MINUTES = 24 * 60
_ORDER = {role: rank for rank, role in enumerate(Membership.Role.values)}


def ensure_default() -> Operator:
    """Return the operator every instance has, made if absent.

    No password, no other rights. Projects without an owner become its own, so that none
    is out of reach.
    """

    def ensure() -> Operator:
        with transaction.atomic():
            operator = Operator.objects.filter(username=DEFAULT).first()
            operator = operator or _insert(DEFAULT, actor=COMMAND)
            owned = Membership.objects.filter(role=Membership.Role.OWNER)
            orphans = Project.objects.exclude(id__in=owned.values("project_id"))
            for project in orphans:
                _assign(project, operator, Membership.Role.OWNER, actor=COMMAND)
            return operator

    made: Operator = journal.run(ensure)
    return made


def add(username: str, *, actor: str = COMMAND) -> Operator:
    """Make an operator without a password. Raises NameTakenError, InvalidError."""
    if not names.valid(username) or len(username) > 64:
        raise InvalidError(code="name", loc="username")

    def insert() -> Operator:
        try:
            with transaction.atomic():
                return _insert(username, actor=actor)
        except IntegrityError:
            raise NameTakenError from None

    made: Operator = journal.run(insert)
    return made


def find(username: str) -> Operator | None:
    """Find the operator of exactly this name who may sign in. One query."""
    return Operator.objects.filter(username=username, is_active=True).first()


def set_password(operator: Operator, password: str, *, actor: str = COMMAND) -> None:
    """Let the operator sign in by password. Raises InvalidError `password_weak`."""
    try:
        validate_password(password, operator)
    except ValidationError:
        raise InvalidError(code="password_weak", loc="password") from None
    # Hashed here: scrypt takes longer than the writer should stand still.
    operator.set_password(password)

    def change() -> None:
        with transaction.atomic():
            operator.save(update_fields=["password"])
            _note("operator.password_set", operator, actor=actor)

    journal.run(change)


def set_role(
    project: Project, operator: Operator, role: str | None, *, actor: str = COMMAND
) -> None:
    """Give the operator this role in the project; None takes them out of it.

    Any change ends the operator's sessions: what a session was trusted with is not what
    the next one is.

    Raises InvalidError: `value` for a word that is no role, and at `own` for a higher
    one that somebody gives themselves; `last_owner` when nobody would own the project
    any more. Raises ProjectDeletedError: who could see to its end stays.
    """
    if role is not None and role not in _ORDER:
        raise InvalidError(loc="role")

    def change() -> None:
        with transaction.atomic():
            # Two changes at once could each leave the other's owner out.
            Project.objects.select_for_update().get(id=project.id)
            fence.require_active(project.id)
            before = role_in(project, operator)
            if actor == f"operator:{operator.id}" and _rank(role) > _rank(before):
                raise InvalidError(loc="own")
            if role != Membership.Role.OWNER and _last_owner(project, operator):
                raise InvalidError(code="last_owner", loc="role")
            if role != before:
                _assign(project, operator, role, actor=actor)
                _end_sessions(operator)

    journal.run(change)


def make_first_owner(project: Project, operator: Operator, *, actor: str) -> None:
    """Give a project its owner in the transaction that makes it.

    Unlike `set_role` it ends no session: nobody is trusted with more than they were.
    """
    _assign(project, operator, Membership.Role.OWNER, actor=actor)


def disable(operator: Operator, *, actor: str = COMMAND) -> None:
    """Let the operator in no more: sessions and links end now, sockets in seconds.

    The roles stay, for the day of `enable`. A repeat writes nothing. Raises
    InvalidError: `last_owner` when a project would have no other owner, `value` for the
    operator that every instance has.
    """
    if operator.username == DEFAULT:
        raise InvalidError(loc="username")

    def change() -> None:
        with transaction.atomic():
            owned = Project.objects.filter(
                memberships__operator=operator,
                memberships__role=Membership.Role.OWNER,
            )
            # As for a role, and in one order, or two such changes wait for each other.
            ids = owned.order_by("id").values_list("id", flat=True)
            rows = Project.objects.select_for_update().filter(id__in=list(ids))
            for project in rows.order_by("id"):
                if _last_owner(project, operator):
                    raise InvalidError(code="last_owner", loc="username")
            _switch(operator, "operator.disabled", on=False, actor=actor)
            _end_sessions(operator)

    journal.run(change)


def enable(operator: Operator, *, actor: str = COMMAND) -> None:
    """Let a disabled operator in again; a repeat writes nothing."""

    def change() -> None:
        with transaction.atomic():
            _switch(operator, "operator.enabled", on=True, actor=actor)

    journal.run(change)


def role_in(project: Project, operator: Operator) -> str | None:
    """Return the operator's role in the project, None for none. One query."""
    rows = Membership.objects.filter(project=project, operator=operator)
    return rows.values_list("role", flat=True).first()


def allows(role: str | None, needed: str) -> bool:
    """Return whether a role includes the one that is needed."""
    return role is not None and _ORDER[role] >= _ORDER[needed]


def projects_of(operator: Operator) -> list[Project]:
    """List the projects the operator may see, by slug. One query."""
    return list(Project.objects.filter(memberships__operator=operator).order_by("slug"))


def make_link(
    operator: Operator, minutes: int = LINK_MINUTES, *, actor: str = COMMAND
) -> str:
    """Make a one-time link's token, 43 characters; only its digest is kept."""
    if not 1 <= minutes <= MAX_LINK_MINUTES:
        raise InvalidError(loc="minutes")
    token = secrets.token_urlsafe(32)
    end = clock.now() + timedelta(minutes=minutes)
    row = SignInLink(digest=_digest(token), operator=operator, expires_at=end)

    def insert() -> None:
        with transaction.atomic():
            row.save(force_insert=True)
            _note("operator.link_made", operator, actor=actor)

    journal.run(insert)
    return token


def use_link(token: str) -> Operator | None:
    """Use a link once; return its operator, or None if unknown, used or expired.

    Raises ClockSkewError.
    """
    clock.require_true()

    def use() -> Operator | None:
        with transaction.atomic():
            now, digest = clock.now(), _digest(token)
            open_links = SignInLink.objects.filter(
                digest=digest, used_at=None, expires_at__gt=now
            )
            # Compare-and-set: of two that post the same link one gets in.
            if not open_links.update(used_at=now):
                return None
            link = SignInLink.objects.select_related("operator").get(digest=digest)
            return link.operator if link.operator.is_active else None

    used: Operator | None = journal.run(use)
    return used


def _insert(username: str, *, actor: str) -> Operator:
    operator = Operator(username=username, created_at=clock.now())
    operator.set_unusable_password()
    operator.save(force_insert=True)
    _note("operator.added", operator, actor=actor)
    return operator


def _assign(
    project: Project, operator: Operator, role: str | None, *, actor: str
) -> None:
    rows = Membership.objects.filter(project=project, operator=operator)
    if role is None:
        rows.delete()
    else:
        Membership.objects.update_or_create(
            project=project, operator=operator, defaults={"role": role}
        )
    _note("role.changed", operator, actor=actor, project=project)


def _note(
    action: str, operator: Operator, *, actor: str, project: Project | None = None
) -> None:
    audit.append(
        actor=actor,
        action=action,
        project=project.id if project else None,
        target_kind="operator",
        target_id=str(operator.id),
    )


def _rank(role: str | None) -> int:
    return -1 if role is None else _ORDER[role]


def _switch(operator: Operator, action: str, *, on: bool, actor: str) -> None:
    rows = Operator.objects.filter(id=operator.id, is_active=not on)
    if rows.update(is_active=on):
        _note(action, operator, actor=actor)
    operator.is_active = on


def _end_sessions(operator: Operator) -> None:
    """A session says whose it is only in what it holds, so all are looked through."""
    rows = Session.objects.filter(expire_date__gt=clock.now())
    own = [
        row.session_key
        for row in rows.iterator()
        if row.get_decoded().get(SESSION_KEY) == str(operator.id)
    ]
    Session.objects.filter(session_key__in=own).delete()


def _last_owner(project: Project, operator: Operator) -> bool:
    """Whether nobody else could act as its owner; who is disabled can't."""
    owners = Membership.objects.filter(
        project=project, role=Membership.Role.OWNER, operator__is_active=True
    )
    held = set(owners.values_list("operator_id", flat=True))
    return held == {operator.id}


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
