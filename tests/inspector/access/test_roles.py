"""Roles on every address: an operator without the role changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.hashers import ScryptPasswordHasher
from django.test import Client
from django.utils import timezone

from inspector.access import access
from memoryhub.errors import InvalidError
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.conftest import Browser, signed_in
from tests.inspector.routes import SINCE, Route, list_routes, make_family, variants
from tests.inspector.web.test_looking import digest
from tests.matrix.test_html_matrix import ROWS

pytestmark = pytest.mark.django_db

ROUTES = {route.name: route for route in list_routes()}
RANK = {role: rank for rank, role in enumerate(Membership.Role.values)}
SECRET_NAME = "canary-4711-user-id"
#: Routes that take a form but change nothing: they read the pasted text.
HARMLESS = {"receipt-verify"}
PASSWORD = "seven herons on the jetty"


def list_posted_routes(least: str) -> list[str]:
    """List routes that take a form and need this role or a greater one."""
    return sorted(
        name
        for name, (needs, methods) in ROWS.items()
        if needs and "POST" in methods and RANK[needs] >= RANK[least]
    )


def addresses(route: Route, known: dict[str, str]) -> list[str]:
    return [route.fill({**known, **choice}) for choice in variants(route)]


def fetch_body(client: Client, address: str) -> bytes:
    answer: Any = client.get(address)
    parts = answer.streaming_content if answer.streaming else [answer.content]
    return b"".join(parts)


@pytest.fixture
def known(agent: Agent) -> dict[str, str]:
    return make_family(agent, remembering=True)


@pytest.fixture
def viewer_(browser: Browser) -> Client:
    browser("owner")
    return browser("viewer")


def test_viewer_cannot_change_anything(viewer_: Client, known: dict[str, str]) -> None:
    before = digest()
    for name in list_posted_routes("editor"):
        for address in addresses(ROUTES[name], known):
            answer = viewer_.post(address)
            assert answer.status_code == 403, address
    assert digest() == before


def test_editor_cannot_reveal_ids_or_forget(
    browser: Browser, agent: Agent, known: dict[str, str]
) -> None:
    factories.make_thread(agent, "t-secret", user_id=SECRET_NAME)
    subject = Subject.objects.get(threads__name="t-secret")
    browser("owner")
    editor = browser("editor")
    values = {**known, "subject": str(subject.id)}
    before, erasures = digest(), Erasure.objects.count()
    for name in list_posted_routes("officer"):
        for address in addresses(ROUTES[name], values):
            answer = editor.post(address, {"user_id": SECRET_NAME, "reason": "test"})
            assert answer.status_code == 403, address
    assert digest() == before
    assert Erasure.objects.count() == erasures
    for name, route in ROUTES.items():
        if "GET" in ROWS[name][1] and "project" in route.parameters:
            for thread in ("t-secret", "t-1"):
                for address in addresses(route, {**values, "thread": thread}):
                    page = fetch_body(editor, f"{address}?{SINCE}&content=1")
                    assert SECRET_NAME.encode() not in page, address


def test_officer_cannot_make_keys(browser: Browser, known: dict[str, str]) -> None:
    browser("owner")
    officer = browser("officer")
    before = [*ApiKey.objects.order_by("id").values()]
    for name in list_posted_routes("owner"):
        for address in addresses(ROUTES[name], known):
            sent = {"scopes": "memory:read", "days": "90", "prefix": known["prefix"]}
            assert officer.post(address, sent).status_code == 403, address
            assert officer.get(address).status_code == 403, address
    assert [*ApiKey.objects.order_by("id").values()] == before


@pytest.mark.parametrize("role", ["viewer", "editor", "officer", None])
def test_last_owner_cannot_be_removed(role: str | None, acme: Project) -> None:
    first, second = operators.add("first"), operators.add("second")
    for operator in (first, second):
        operators.set_role(acme, operator, "owner")
    operators.set_role(acme, first, role)
    with pytest.raises(InvalidError) as refusal:
        operators.set_role(acme, second, role)
    assert refusal.value.invalid_code == "last_owner"
    assert operators.get_role(acme, second) == "owner"


@pytest.mark.parametrize("name", sorted({*list_posted_routes("officer")} - HARMLESS))
def test_old_sign_in_cannot_forget(
    name: str, browser: Browser, known: dict[str, str]
) -> None:
    """Check the other acts of officers and owners as well."""
    owner = browser("owner")
    session = owner.session
    old = timezone.now() - timedelta(minutes=61)
    session[access.SIGNED_IN] = old.isoformat()
    session.save()
    before = digest()
    for address in addresses(ROUTES[name], known):
        answer = owner.post(address)
        assert answer.status_code == 302, address
        where = answer.headers["Location"]
        assert where.startswith("/sign-in?next="), address
        assert where.endswith("why=old"), address
    assert digest() == before


def test_role_change_ends_the_session(browser: Browser, acme: Project) -> None:
    browser("owner")
    client = browser("editor")
    editor = operators.find("editor")
    assert editor is not None
    assert client.get("/p/acme/").status_code == 200
    for role in ("officer", "viewer"):
        operators.set_role(acme, editor, role)
        answer = client.get("/p/acme/")
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/sign-in")
        client = signed_in(editor)
        assert client.get("/p/acme/").status_code == 200


# Signing in


def fail_sign_in(name: str, password: str) -> tuple[int, str]:
    answer = Client().post("/sign-in", {"username": name, "password": password})
    return answer.status_code, answer.content.decode()


def test_failed_sign_ins_answer_alike_at_equal_cost(
    acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare replies to the byte, and count hashes, which take the time."""
    hashed: list[int] = []
    encode = ScryptPasswordHasher.encode

    def encode_counted(hasher: Any, *args: Any, **kwargs: Any) -> str:
        hashed.append(1)
        return encode(hasher, *args, **kwargs)

    for name in ("olga", "away"):
        operators.set_password(operators.add(name), PASSWORD)
    Operator.objects.filter(username="away").update(is_active=False)
    operators.add("links-only")
    monkeypatch.setattr(ScryptPasswordHasher, "encode", encode_counted)
    answers, costs = set(), set()
    for name, password in (
        ("olga", "not her password"),
        ("nobody", PASSWORD),
        ("away", PASSWORD),
        ("links-only", PASSWORD),
    ):
        hashed.clear()
        status, page = fail_sign_in(name, password)
        answers.add((status, _remove_token(page)))
        costs.add(len(hashed))
    assert len(answers) == 1
    assert costs == {1}


def test_locked_name_answers_like_a_locked_unknown_name(acme: Project) -> None:
    operators.set_password(operators.add("olga"), PASSWORD)
    last = set()
    for name in ("olga", "nobody"):
        *_, (status, page) = (fail_sign_in(name, "wrong") for _ in range(5))
        last.add((status, _remove_token(page)))
        # A locked name refuses even the right password, with the same answer.
        assert fail_sign_in(name, PASSWORD)[0] == 429
    assert len(last) == 1


def _remove_token(page: str) -> str:
    """Remove the form's token, which differs each time."""
    before, _, rest = page.partition('name="csrfmiddlewaretoken" value="')
    return before + rest.partition('"')[2]
