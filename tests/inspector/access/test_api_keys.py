from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from inspector.access.access import SIGNED_IN
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.projects import Project
from memoryhub.services.access import api_keys
from memoryhub.services.people import subjects
from tests.cast import factories
from tests.inspector.conftest import Browser

pytestmark = pytest.mark.django_db
KEYS = "/p/acme/api-keys"


def nonce_of(client: Client, path: str) -> str:
    page = client.get(path).content.decode()
    found = re.search(r'name="nonce" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def make(client: Client, **fields: object) -> object:
    form = {"scopes": ["memory:read", "memory:write"], "days": "90"} | fields
    return client.post(f"{KEYS}/new", form | {"nonce": nonce_of(client, f"{KEYS}/new")})


def secret_in(answer: object) -> str:
    page: str = answer.content.decode()  # type: ignore[attr-defined]  # a response
    found = api_keys.KEY_PATTERN.search(page)
    assert found is not None
    return found[0]


def test_key_is_shown_once_and_works(owner: Client) -> None:
    answer = make(owner)
    key = secret_in(answer)
    assert answer.status_code == 201  # type: ignore[attr-defined]  # a response
    row = ApiKey.objects.get()
    assert api_keys.is_valid_key(row, key, now=timezone.now())
    page = owner.get(KEYS).content.decode()
    assert row.prefix in page
    assert key not in page
    # Phones have no column heads: each cell brings its own word.
    for word in ("person", "created", "last used", "expires"):
        assert f'data-label="{word}"' in page


def test_key_name_is_shown_on_every_key_page(owner: Client) -> None:
    make(owner, name="desk-agent")
    row = ApiKey.objects.get()
    assert row.name == "desk-agent"
    for path in (KEYS, f"{KEYS}/{row.prefix}/revoke", f"{KEYS}/{row.prefix}/rotate"):
        assert "desk-agent" in owner.get(path).content.decode()
    path = f"{KEYS}/{row.prefix}/rotate"
    owner.post(path, {"nonce": nonce_of(owner, path)})
    assert {*ApiKey.objects.values_list("name", flat=True)} == {"desk-agent"}


def test_key_form_sent_twice_makes_one_key(owner: Client) -> None:
    form = {
        "scopes": ["memory:read"],
        "days": "0",
        "nonce": nonce_of(owner, f"{KEYS}/new"),
    }
    assert owner.post(f"{KEYS}/new", form).status_code == 201
    assert owner.post(f"{KEYS}/new", form).status_code == 302
    assert ApiKey.objects.count() == 1


def test_key_form_sets_subject_scopes_and_expiry(owner: Client, acme: Project) -> None:
    make(owner, user_id="ann", days="30", scopes=["memory:read"])
    row = ApiKey.objects.get()
    assert row.subject == subjects.find(acme.id, "ann")
    assert row.scopes == "memory:read"
    assert row.expires_at is not None
    assert timedelta(days=29) < row.expires_at - timezone.now() < timedelta(days=31)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"scopes": []}, "at least one scope"),
        ({"scopes": ["memory:read", "admin"]}, "never both"),
        ({"scopes": ["memory:write", "subject:export"]}, "never both"),
        ({"scopes": ["everything"]}, "at least one scope"),
        ({"scopes": ["memory:read", "everything"]}, "at least one scope"),
        ({"scopes": ["Memory:read"]}, "at least one scope"),
        ({"name": "two words"}, "A name holds"),
        ({"name": "x" * 65}, "A name holds"),
        ({"days": "-1"}, "when the key expires"),
        ({"days": "-90"}, "when the key expires"),
        ({"days": "7"}, "when the key expires"),
        ({"days": "٣٠"}, "when the key expires"),
        ({"days": ""}, "when the key expires"),
    ],
)
def test_row_94_invalid_key_form_is_shown_again(
    owner: Client, acme: Project, fields: dict[str, object], problem: str
) -> None:
    """Check that the refused form makes no subject."""
    answer = make(owner, user_id="ann", **fields)
    assert answer.status_code == 422  # type: ignore[attr-defined]  # a response
    assert problem in answer.content.decode()  # type: ignore[attr-defined]  # a response
    assert ApiKey.objects.count() == 0
    assert subjects.find(acme.id, "ann") is None


def test_key_form_refuses_an_invalid_user_id(owner: Client) -> None:
    answer = make(owner, user_id=" ann")
    assert answer.status_code == 422  # type: ignore[attr-defined]  # a response
    assert ApiKey.objects.count() == 0


def test_rotated_key_stays_valid_for_a_day(owner: Client) -> None:
    make(owner)
    old = ApiKey.objects.get()
    path = f"{KEYS}/{old.prefix}/rotate"
    answer = owner.post(path, {"nonce": nonce_of(owner, path)})
    assert secret_in(answer)
    old.refresh_from_db()
    assert old.expires_at is not None
    assert old.expires_at - timezone.now() <= timedelta(hours=24)
    assert ApiKey.objects.count() == 2


def test_revoking_a_key_requires_its_prefix(owner: Client) -> None:
    make(owner)
    row = ApiKey.objects.get()
    path = f"{KEYS}/{row.prefix}/revoke"
    assert owner.post(path, {"prefix": "wrong"}).status_code == 422
    assert ApiKey.objects.get().revoked_at is None
    assert owner.post(path, {"prefix": row.prefix}).status_code == 302
    assert ApiKey.objects.get().revoked_at is not None
    assert owner.get(path).status_code == 404


@pytest.mark.parametrize("role", ["viewer", "editor", "officer"])
def test_key_pages_are_for_owners_only(browser: Browser, role: str) -> None:
    client = browser(role)
    for path in (KEYS, f"{KEYS}/new"):
        answer = client.get(path)
        assert answer.status_code == 403
        assert "role owner" in answer.content.decode()
    assert client.post(f"{KEYS}/new", {}).status_code == 403


def test_key_of_another_project_is_not_found(owner: Client, zeta: Project) -> None:
    agent = factories.make_agent(zeta)
    assert owner.get(f"{KEYS}/{agent.prefix}/revoke").status_code == 404
    assert owner.get("/p/zeta/api-keys").status_code == 404


def test_old_sign_in_cannot_make_keys(owner: Client) -> None:
    session = owner.session
    session[SIGNED_IN] = (timezone.now() - timedelta(minutes=61)).isoformat()
    session.save()
    answer = owner.get(f"{KEYS}/new")
    assert answer.status_code == 302
    assert "why=old" in answer.headers["Location"]
    assert owner.get(KEYS).status_code == 200
