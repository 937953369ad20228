"""Second factors: off loopback, officers and owners need more than a password."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.core import signing
from django.core.checks import run_checks
from django.test import Client
from pytest_django import Settings

from memoryhub.models.access.operators import Operator
from memoryhub.models.keys import OperatorKey
from memoryhub.models.projects import Project
from memoryhub.services.access import operators, second_factors
from memoryhub.services.access.second_factors import STEP_SECONDS, compute_code
from tests.inspector.conftest import signed_in

pytestmark = pytest.mark.django_db

PATH = "/second-factor"
PASSWORD = "seven herons on the jetty"
FAR = "10.0.0.9"
START = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
SECRET = b"s" * second_factors.SECRET_BYTES


@pytest.fixture
def olga(acme: Project) -> Operator:
    made = operators.add("olga")
    operators.set_password(made, PASSWORD)
    operators.set_role(acme, made, "owner")
    return made


def code(*, later: int = 0, secret: bytes = SECRET) -> str:
    return compute_code(secret, int(START.timestamp()) // STEP_SECONDS + later)


def enter(*, address: str = FAR, **sent: str) -> Any:
    form = {"username": "olga", "password": PASSWORD, **sent}
    return Client(REMOTE_ADDR=address).post("/sign-in", form)


@pytest.mark.parametrize(
    ("role", "address", "status"),
    [
        ("owner", FAR, 422),
        ("officer", FAR, 422),
        ("editor", FAR, 302),
        ("owner", "127.0.0.1", 302),
    ],
)
def test_password_alone_is_refused_for_a_powerful_role_off_loopback(
    role: str, address: str, status: int, acme: Project, olga: Operator
) -> None:
    operators.set_role(acme, operators.ensure_default(), "owner")
    operators.set_role(acme, olga, role)
    assert enter(address=address).status_code == status


def test_password_alone_is_taken_when_allowed_and_check_warns(
    olga: Operator, settings: Settings
) -> None:
    def warned() -> bool:
        found = run_checks(include_deployment_checks=True)
        return "memoryhub.W002" in {message.id for message in found}

    assert not warned()
    settings.ALLOW_PASSWORD_ONLY = True
    assert warned()
    assert enter().status_code == 302


def test_code_signs_in_once(olga: Operator) -> None:
    with time_machine.travel(START, tick=False) as travel:
        second_factors.add(olga, SECRET, code())
        travel.shift(timedelta(seconds=STEP_SECONDS))
        assert enter(code=code(later=1)).status_code == 302
        assert enter(code=code(later=1)).status_code == 422


def test_operator_with_a_factor_needs_it_on_loopback_too(
    olga: Operator, settings: Settings
) -> None:
    settings.ALLOW_PASSWORD_ONLY = True
    with time_machine.travel(START, tick=False):
        second_factors.add(olga, SECRET, code())
    assert enter(address="127.0.0.1").status_code == 422


def test_missing_code_answers_like_a_wrong_password_and_is_counted(
    olga: Operator,
) -> None:
    pages = set()
    for sent in ({"password": "wrong"}, {}, {"code": "000000"}):
        answer = enter(**sent)
        pages.add((answer.status_code, remove_token(answer.content.decode())))
    assert len(pages) == 1
    assert [enter().status_code for _ in range(3)] == [422, 422, 429]


def test_sign_in_link_needs_no_code(olga: Operator) -> None:
    """A link is made by somebody who can run commands on the server."""
    client = Client(REMOTE_ADDR=FAR)
    assert client.post(f"/sign-in/{operators.make_link(olga)}").status_code == 302


# The page


def proposal(text: str) -> tuple[str, bytes]:
    """Return the proposal in the page's form, and the secret that the page shows."""
    found = re.search(r'name="proposal" value="([^"]+)"', text)
    shown = re.search(r"<pre[^>]*>([A-Z2-7 ]+)</pre>", text)
    assert found is not None
    assert shown is not None
    secret = next(
        bytes.fromhex(part)
        for part in signing.loads(found[1], salt="inspector.second-factor")
        if "-" not in part
    )
    assert second_factors.to_base32(secret) == shown[1].replace(" ", "")
    return found[1], secret


def test_second_factor_is_added_and_removed(olga: Operator) -> None:
    with time_machine.travel(START, tick=False):
        client = signed_in(olga)
        sent, secret = proposal(client.get(PATH).content.decode())
        wrong = client.post(PATH, {"proposal": sent, "code": "12"})
        assert wrong.status_code == 422
        # The same secret again, so that the device need not be set up anew.
        sent, again = proposal(wrong.content.decode())
        assert again == secret
        form = {"proposal": sent, "code": code(secret=secret)}
        assert client.post(PATH, form).status_code == 302
        assert second_factors.has_factor(olga)
        assert "Remove the app" in client.get(PATH).content.decode()
        client.post(PATH, {"remove": "1"})
    assert not second_factors.has_factor(olga)


def test_proposed_secret_is_bound_to_its_operator_for_15_minutes(
    acme: Project, olga: Operator
) -> None:
    bert = operators.add("bert")
    operators.set_role(acme, bert, "viewer")
    with time_machine.travel(START, tick=False) as travel:
        ours, theirs = signed_in(olga), signed_in(bert)
        sent, secret = proposal(ours.get(PATH).content.decode())
        form = {"proposal": sent, "code": code(secret=secret)}
        assert theirs.post(PATH, form).status_code == 422
        for broken in ("", f"{sent}x", "a:b:c"):
            assert ours.post(PATH, {**form, "proposal": broken}).status_code == 422
        travel.shift(timedelta(seconds=901))
        assert ours.post(PATH, form).status_code == 422
    assert not OperatorKey.objects.using("keys").exists()


def test_factor_page_stores_no_factor(olga: Operator) -> None:
    client = signed_in(olga)
    first, second = (proposal(client.get(PATH).content.decode())[1] for _ in range(2))
    assert first != second
    assert not second_factors.has_factor(olga)


def test_old_sign_in_cannot_change_the_factor(olga: Operator) -> None:
    """A session of five minutes is too old to change a factor that exists."""
    with time_machine.travel(START, tick=False) as travel:
        client = signed_in(olga)
        sent, secret = proposal(client.get(PATH).content.decode())
        travel.shift(timedelta(minutes=6))
        form = {"proposal": sent, "code": code(later=12, secret=secret)}
        assert client.post(PATH, form).headers["Location"] == PATH
        for change in ({"remove": "1"}, form):
            answer = client.post(PATH, change)
            assert answer.headers["Location"].endswith("why=old")
    assert second_factors.has_factor(olga)


def test_second_secret_does_not_replace_the_first(olga: Operator) -> None:
    with time_machine.travel(START, tick=False):
        client = signed_in(olga)
        sent, secret = proposal(client.get(PATH).content.decode())
        second_factors.add(olga, SECRET, code())
        form = {"proposal": sent, "code": code(secret=secret)}
        assert client.post(PATH, form).status_code == 422
        client.post(PATH, {"remove": "1"})
        assert client.post(PATH, form).status_code == 302


def test_wrong_codes_are_counted_across_addresses(olga: Operator) -> None:
    """Send wrong codes beside the right password, each from another address."""
    with time_machine.travel(START, tick=False) as travel:
        second_factors.add(olga, SECRET, code())
        for _ in range(second_factors.WRONG_CODES):
            assert not second_factors.use_code(olga, "000000")
        travel.shift(timedelta(seconds=STEP_SECONDS))
        assert not second_factors.use_code(olga, code(later=1))
        travel.shift(second_factors.WRONG_PERIOD)
        steps = 1 + 3600 // STEP_SECONDS
        assert second_factors.use_code(olga, code(later=steps))


def remove_token(text: str) -> str:
    """Remove the form's token, which differs each time."""
    before, _, rest = text.partition('name="csrfmiddlewaretoken" value="')
    return before + rest.partition('"')[2]
