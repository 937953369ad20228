from __future__ import annotations

from datetime import timedelta
from typing import Any

from memoryhub.models.access.operators import Membership, Operator
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import NOW, OWNER, PROJECT, Context


def member(role: str, **fields: Any) -> Context:
    """A row that is in no table."""
    operator = Operator(username="olga", created_at=NOW, **fields)
    row = Membership(project=PROJECT, operator=operator, role=role)
    return {"member": row, "place": OWNER}


PATTERNS = (
    Pattern(
        template="inspector/access/members/_row.html",
        states={
            "signed in": member("owner", last_login=NOW - timedelta(hours=1)),
            "never signed in": member("viewer"),
            "disabled": member("editor", is_active=False),
        },
        frame="members",
    ),
    Pattern(
        template="inspector/access/members/_role.html",
        states={"chosen": {"roles": Membership.Role.values, "role": "editor"}},
    ),
)
