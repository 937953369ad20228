"""Members of a project: owners add operators, change roles and remove them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from inspector.access.access import SIGNED_IN
from memoryhub.errors import InvalidError
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Operator
from memoryhub.models.projects import Project
from memoryhub.services.access import operators
from tests.inspector.conftest import Browser, signed_in

pytestmark = pytest.mark.django_db
MEMBERS = "/p/acme/members"


@pytest.fixture
def ann() -> Operator:
    return operators.add("ann")


def text_of(client: Client, path: str = MEMBERS, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def test_members_are_listed_with_role_and_last_sign_in(
    browser: Browser, acme: Project, zeta: Project, ann: Operator
) -> None:
    owner = browser("owner")
    assert "Nobody else yet" in text_of(owner)
    operators.set_role(acme, ann, "editor")
    operators.set_role(zeta, operators.add("zoe"), "owner")
    page = text_of(owner)
    assert "Nobody else yet" not in page
    row = page.partition(">ann<")[2]
    assert ">editor<" in row.partition('role="row"')[0]
    assert ">never<" in row.partition('role="row"')[0]
    assert "zoe" not in page
    signed_in(ann)
    assert ">never<" not in text_of(owner)
    operators.disable(ann)
    assert ">disabled<" in text_of(owner)


def test_operator_is_added_to_a_project_by_name(
    owner: Client, acme: Project, ann: Operator
) -> None:
    form = {"username": " ann ", "role": "editor"}
    answer = owner.post(f"{MEMBERS}/new", form)
    assert (answer.status_code, answer.headers["Location"]) == (302, MEMBERS)
    assert operators.get_role(acme, ann) == "editor"
    entry = AuditEntry.objects.latest("seq")
    by = operators.find("owner")
    assert by is not None
    assert (entry.action, entry.actor_ref) == ("role.changed", str(by.id))
    assert (entry.project, entry.target_id) == (acme.id, str(ann.id))


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"username": "nobody", "role": "viewer"}, "No operator"),
        ({"username": "a b<i>", "role": "viewer"}, "No operator"),
        ({"username": "", "role": "viewer"}, "No operator"),
        ({"username": "dan", "role": "viewer"}, "No operator"),
        ({"username": "owner", "role": "viewer"}, "a member already"),
        ({"username": "ann", "role": "admin"}, "Choose a role"),
        ({"username": "ann"}, "Choose a role"),
    ],
)
def test_invalid_member_is_not_added(
    owner: Client, ann: Operator, form: dict[str, str], problem: str
) -> None:
    operators.disable(operators.add("dan"))
    before = AuditEntry.objects.count()
    answer = owner.post(f"{MEMBERS}/new", form)
    assert answer.status_code == 422
    assert problem in answer.content.decode()
    assert "<i>" not in answer.content.decode()
    assert AuditEntry.objects.count() == before


def test_role_change_and_removal_end_the_members_sessions(
    owner: Client, acme: Project, zeta: Project, ann: Operator
) -> None:
    operators.set_role(acme, ann, "viewer")
    operators.set_role(zeta, ann, "viewer")
    path = f"{MEMBERS}/{ann.id}"
    assert '<option value="viewer" selected>' in text_of(owner, path)
    for form, role in (({"role": "officer"}, "officer"), ({"leave": "1"}, None)):
        session = signed_in(ann).session.session_key
        assert owner.post(path, form).status_code == 302
        assert operators.get_role(acme, ann) == role
        assert not Session.objects.filter(session_key=session).exists()
        assert AuditEntry.objects.latest("seq").action == "role.changed"
    assert operators.get_role(zeta, ann) == "viewer"
    # A removed operator is no member of this project any more.
    assert owner.post(path, {"role": "owner"}).status_code == 404
    assert operators.get_role(acme, ann) is None


def test_last_owner_cannot_be_removed(
    browser: Browser, acme: Project, ann: Operator
) -> None:
    owner, me = browser("owner"), operators.find("owner")
    assert me is not None
    path = f"{MEMBERS}/{me.id}"
    for form in ({"role": "viewer"}, {"leave": "1"}):
        answer = owner.post(path, form)
        assert answer.status_code == 422
        assert "somebody else owner" in answer.content.decode()
    assert operators.get_role(acme, me) == "owner"
    assert owner.post(path, {"role": "queen"}).status_code == 422
    operators.set_role(acme, ann, "owner")
    assert owner.post(path, {"role": "viewer"}).status_code == 302
    assert operators.get_role(acme, me) == "viewer"
    # The owner's own sessions ended as well; they cannot raise their role again.
    assert owner.get(MEMBERS).headers["Location"].startswith("/sign-in")
    assert signed_in(me).post(path, {"role": "owner"}).status_code == 403


def test_operator_cannot_raise_their_own_role(acme: Project, ann: Operator) -> None:
    """Check the service, so that no later caller can raise a role either."""
    operators.set_role(acme, ann, "editor")
    for role in ("officer", "owner"):
        with pytest.raises(InvalidError) as refusal:
            operators.set_role(acme, ann, role, actor=f"operator:{ann.id}")
        assert refusal.value.loc == "own"
    assert operators.get_role(acme, ann) == "editor"
    operators.set_role(acme, ann, "viewer", actor=f"operator:{ann.id}")
    assert operators.get_role(acme, ann) == "viewer"


def test_member_changes_require_an_owner_with_a_recent_sign_in(
    browser: Browser, acme: Project, ann: Operator
) -> None:
    operators.set_role(acme, ann, "viewer")
    officer, owner = browser("officer"), browser("owner")
    path = f"{MEMBERS}/{ann.id}"
    for each in (MEMBERS, f"{MEMBERS}/new", path):
        assert "the role owner" in text_of(officer, each, 403)
        assert each not in text_of(officer, "/p/acme/")
    assert f'href="{MEMBERS}"' in text_of(owner, "/p/acme/")
    session = owner.session
    session[SIGNED_IN] = (timezone.now() - timedelta(minutes=61)).isoformat()
    session.save()
    for each in (path, f"{MEMBERS}/new"):
        answer = owner.post(each, {"username": "ann", "role": "owner"})
        assert answer.headers["Location"].endswith("why=old")
    assert operators.get_role(acme, ann) == "viewer"
