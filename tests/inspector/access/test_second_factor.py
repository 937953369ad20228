"""A password alone does not open, from elsewhere, what officers and owners may do."""

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
from memoryhub.services.access.second_factors import STEP_SECONDS, code_at
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
    return code_at(secret, int(START.timestamp()) // STEP_SECONDS + later)


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
def test_a_password_alone_opens_no_great_role_from_elsewhere(
    role: str, address: str, status: int, acme: Project, olga: Operator
) -> None:
    operators.set_role(acme, operators.ensure_default(), "owner")
    operators.set_role(acme, olga, role)
    assert enter(address=address).status_code == status


def test_it_does_where_that_is_allowed_and_the_check_warns(
    olga: Operator, settings: Settings
) -> None:
    def warned() -> bool:
        found = run_checks(include_deployment_checks=True)
        return "memoryhub.W002" in {message.id for message in found}

    assert not warned()
    settings.ALLOW_PASSWORD_ONLY = True
    assert warned()
    assert enter().status_code == 302


def test_with_a_code_it_opens_once(olga: Operator) -> None:
    with time_machine.travel(START, tick=False) as travel:
        second_factors.add(olga, SECRET, code())
        travel.shift(timedelta(seconds=STEP_SECONDS))
        assert enter(code=code(later=1)).status_code == 302
        assert enter(code=code(later=1)).status_code == 422


def test_who_has_a_factor_needs_it_everywhere(
    olga: Operator, settings: Settings
) -> None:
    settings.ALLOW_PASSWORD_ONLY = True
    with time_machine.travel(START, tick=False):
        second_factors.add(olga, SECRET, code())
    assert enter(address="127.0.0.1").status_code == 422


def test_a_missing_code_looks_like_a_wrong_password_and_is_counted(
    olga: Operator,
) -> None:
    pages = set()
    for sent in ({"password": "wrong"}, {}, {"code": "000000"}):
        answer = enter(**sent)
        pages.add((answer.status_code, plain(answer.content.decode())))
    assert len(pages) == 1
    assert [enter().status_code for _ in range(3)] == [422, 422, 429]


def test_a_link_needs_no_code(olga: Operator) -> None:
    """It was made by somebody who can run commands on the server."""
    client = Client(REMOTE_ADDR=FAR)
    assert client.post(f"/sign-in/{operators.make_link(olga)}").status_code == 302


# The page


def proposal(text: str) -> tuple[str, bytes]:
    """What the page's form carries, and the secret that it shows."""
    found = re.search(r'name="proposal" value="([^"]+)"', text)
    shown = re.search(r"<pre[^>]*>([A-Z2-7 ]+)</pre>", text)
    assert found is not None
    assert shown is not None
    secret = next(
        bytes.fromhex(part)
        for part in signing.loads(found[1], salt="inspector.second-factor")
        if "-" not in part
    )
    assert second_factors.text_of(secret) == shown[1].replace(" ", "")
    return found[1], secret


def test_a_factor_is_added_and_taken_away(olga: Operator) -> None:
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
        assert second_factors.exists(olga)
        assert "Take it away" in client.get(PATH).content.decode()
        client.post(PATH, {"remove": "1"})
    assert not second_factors.exists(olga)


def test_a_secret_is_the_operators_own_and_waits_a_quarter_of_an_hour(
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


def test_looking_makes_none(olga: Operator) -> None:
    client = signed_in(olga)
    first, second = (proposal(client.get(PATH).content.decode())[1] for _ in range(2))
    assert first != second
    assert not second_factors.exists(olga)


def test_an_old_sign_in_changes_no_factor(olga: Operator) -> None:
    """Of who has one, five minutes are old: a session alone brings no factor in."""
    with time_machine.travel(START, tick=False) as travel:
        client = signed_in(olga)
        sent, secret = proposal(client.get(PATH).content.decode())
        travel.shift(timedelta(minutes=6))
        form = {"proposal": sent, "code": code(later=12, secret=secret)}
        assert client.post(PATH, form).headers["Location"] == PATH
        for change in ({"remove": "1"}, form):
            answer = client.post(PATH, change)
            assert answer.headers["Location"].endswith("why=old")
    assert second_factors.exists(olga)


def test_a_second_secret_takes_no_place(olga: Operator) -> None:
    with time_machine.travel(START, tick=False):
        client = signed_in(olga)
        sent, secret = proposal(client.get(PATH).content.decode())
        second_factors.add(olga, SECRET, code())
        form = {"proposal": sent, "code": code(secret=secret)}
        assert client.post(PATH, form).status_code == 422
        client.post(PATH, {"remove": "1"})
        assert client.post(PATH, form).status_code == 302


def test_wrong_codes_are_counted_wherever_they_come_from(olga: Operator) -> None:
    """Beside the right password, from as many addresses as there are."""
    with time_machine.travel(START, tick=False) as travel:
        second_factors.add(olga, SECRET, code())
        for _ in range(second_factors.WRONG_CODES):
            assert not second_factors.accepts(olga, "000000")
        travel.shift(timedelta(seconds=STEP_SECONDS))
        assert not second_factors.accepts(olga, code(later=1))
        travel.shift(second_factors.WRONG_PERIOD)
        steps = 1 + 3600 // STEP_SECONDS
        assert second_factors.accepts(olga, code(later=steps))


def plain(text: str) -> str:
    """Without the form's token, which is another one each time."""
    before, _, rest = text.partition('name="csrfmiddlewaretoken" value="')
    return before + rest.partition('"')[2]
