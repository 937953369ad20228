"""Sign-in by a passkey: alone, beside a password, and again before grave acts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from inspector.access import access, webauthn
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Operator
from memoryhub.models.keys import Passkey
from memoryhub.models.projects import Project
from memoryhub.services.access import operators, passkeys
from tests.cast.devices import Device
from tests.inspector.access.test_second_factor import FAR, PASSWORD, remove_token
from tests.inspector.conftest import signed_in

pytestmark = pytest.mark.django_db

PATH = "/second-factor"
START = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def olga(acme: Project) -> Operator:
    made = operators.add("olga")
    operators.set_password(made, PASSWORD)
    operators.set_role(acme, made, "owner")
    return made


def add(client: Client, device: Device, **sent: str) -> Any:
    options = client.post("/passkeys/proposal").json()
    return client.post(PATH, {"passkey": device.create(options), **sent})


@pytest.fixture
def device(olga: Operator) -> Device:
    made = Device()
    assert add(signed_in(olga), made, name="Phone").status_code == 302
    return made


def challenge_for(client: Client) -> dict[str, Any]:
    options: dict[str, Any] = client.post("/passkeys/challenge").json()
    return options


def enter(device: Device, client: Client | None = None, **sent: str) -> Any:
    client = client or Client(REMOTE_ADDR=FAR)
    return client.post(
        "/sign-in", {"passkey": device.get(challenge_for(client)), **sent}
    )


# Adding and taking away


def test_passkey_is_added_listed_and_removed(olga: Operator) -> None:
    client = signed_in(olga)
    name = "<b>My phone</b>"
    assert add(client, Device(), name=name).status_code == 302
    (row,) = passkeys.list_passkeys(olga)
    text = client.get(PATH).content.decode()
    assert "&lt;b&gt;My phone&lt;/b&gt;" in text
    assert name not in text
    assert str(row.id) in text
    assert client.post(PATH, {"remove-passkey": str(row.id)}).status_code == 302
    assert not passkeys.has_passkey(olga)


def test_passkey_proposal_is_valid_once_and_for_five_minutes(olga: Operator) -> None:
    with time_machine.travel(START, tick=False) as travel:
        client = signed_in(olga)
        options = client.post("/passkeys/proposal").json()
        # The challenge of a sign-in is no proposal.
        challenge_for(client)
        sent = {"passkey": Device().create(options)}
        refused = client.post(PATH, sent)
        assert refused.status_code == 422
        assert "was not added" in refused.content.decode()
        options = client.post("/passkeys/proposal").json()
        travel.shift(timedelta(seconds=webauthn.SECONDS + 1))
        sent = {"passkey": Device().create(options)}
        assert client.post(PATH, sent).status_code == 422
        client, device = signed_in(olga), Device()
        options = client.post("/passkeys/proposal").json()
        sent = {"passkey": device.create(options)}
        assert client.post(PATH, sent).status_code == 302
        again = {"passkey": Device().create(options)}
        assert client.post(PATH, again).status_code == 422
    assert len(passkeys.list_passkeys(olga)) == 1


def test_passkey_proposal_requires_a_recent_sign_in(
    olga: Operator, device: Device
) -> None:
    with time_machine.travel(timezone.now(), tick=False) as travel:
        client = signed_in(olga)
        travel.shift(timedelta(minutes=61))
        (row,) = passkeys.list_passkeys(olga)
        answers = [
            client.post("/passkeys/proposal"),
            client.post(PATH, {"passkey": "-"}),
            client.post(PATH, {"remove-passkey": str(row.id)}),
        ]
    assert {answer.headers["Location"] for answer in answers[1:]} == {
        "/sign-in?next=%2Fsecond-factor&why=old"
    }
    assert answers[0].status_code == 302
    assert passkeys.has_passkey(olga)


def test_operator_cannot_remove_a_passkey_of_another_operator(
    acme: Project, olga: Operator, device: Device
) -> None:
    bert = operators.add("bert")
    operators.set_role(acme, bert, "viewer")
    (row,) = passkeys.list_passkeys(olga)
    signed_in(bert).post(PATH, {"remove-passkey": str(row.id)})
    assert passkeys.has_passkey(olga)


# Signing in


def test_device_that_verifies_its_user_needs_no_password(
    olga: Operator, device: Device
) -> None:
    client = Client(REMOTE_ADDR=FAR)
    answer = enter(device, client, next="/p/acme/", purpose="support")
    assert answer.headers["Location"] == "/p/acme/"
    assert client.get("/p/acme/").status_code == 200
    assert AuditEntry.objects.filter(action="sign_in", purpose="support").exists()
    # The challenge's session was short; a signed-in session lasts as usual.
    end = Session.objects.get(session_key=client.session.session_key).expire_date
    assert end - timezone.now() > timedelta(hours=11)


def test_device_that_does_not_verify_its_user_needs_the_password(
    olga: Operator, device: Device
) -> None:
    device.verifies = False
    assert enter(device).status_code == 422
    assert enter(device, username="olga").status_code == 422
    assert enter(device, username="olga", password="wrong").status_code == 422
    assert enter(device, username="olga", password=PASSWORD).status_code == 302


def test_password_alone_is_refused_for_an_operator_with_a_passkey(
    olga: Operator, device: Device, settings: Any
) -> None:
    settings.ALLOW_PASSWORD_ONLY = True
    form = {"username": "olga", "password": PASSWORD}
    for address in (FAR, "127.0.0.1"):
        client = Client(REMOTE_ADDR=address)
        assert client.post("/sign-in", form).status_code == 422


def test_device_of_another_operator_is_refused_as_a_factor(
    acme: Project, olga: Operator, device: Device
) -> None:
    bert = operators.add("bert")
    operators.set_password(bert, PASSWORD)
    operators.set_role(acme, bert, "viewer")
    for verifies in (True, False):
        device.verifies = verifies
        answer = enter(device, username="bert", password=PASSWORD)
        assert answer.status_code == 422
    # A viewer's password is enough, but not beside a device that failed.
    form = {"username": "bert", "password": PASSWORD}
    refused = Client(REMOTE_ADDR=FAR).post("/sign-in", {**form, "passkey": "-"})
    assert refused.status_code == 422
    assert Client(REMOTE_ADDR=FAR).post("/sign-in", form).status_code == 302


def _foreign(device: Device, client: Client) -> str:
    return device.get(challenge_for(client), origin="http://localhost.evil.example")


def _replayed(device: Device, client: Client) -> str:
    options = challenge_for(client)
    client.post("/sign-in", {"passkey": "-"})
    return device.get(options)


def _of_another_browser(device: Device, client: Client) -> str:
    challenge_for(client)
    return device.get(challenge_for(Client()))


def _never_asked(device: Device, client: Client) -> str:
    return device.get(challenge_for(Client()))


def _cloned(device: Device, client: Client) -> str:
    device.signed = -1
    Passkey.objects.using("keys").update(signed=7)
    return device.get(challenge_for(client))


def _disabled(device: Device, client: Client) -> str:
    Operator.objects.filter(username="olga").update(is_active=False)
    return device.get(challenge_for(client))


def _unknown(device: Device, client: Client) -> str:
    return Device().get(challenge_for(client))


def _late(device: Device, client: Client) -> str:
    options = challenge_for(client)
    session = client.session
    kept = session["ceremony"]
    kept["at"] = (timezone.now() - timedelta(seconds=301)).isoformat()
    session["ceremony"] = kept
    session.save()
    return device.get(options)


@pytest.mark.parametrize(
    "wrong",
    [
        *(_foreign, _replayed, _of_another_browser, _never_asked, _cloned),
        *(_disabled, _unknown, _late),
    ],
)
def test_failed_passkey_answers_like_a_wrong_password_and_is_counted(
    device: Device, wrong: Callable[[Device, Client], str]
) -> None:
    form = {"username": "olga", "password": "wrong"}
    failed = Client(REMOTE_ADDR="10.0.0.8").post("/sign-in", form)
    client = Client(REMOTE_ADDR=FAR)
    refused = client.post("/sign-in", {"passkey": wrong(device, client)})
    assert refused.status_code == failed.status_code == 422
    assert remove_token(refused.content.decode()) == remove_token(
        failed.content.decode()
    )
    tried = 2 if wrong is _replayed else 1
    again = [client.post("/sign-in", {"passkey": "-"}) for _ in range(6 - tried)]
    assert [answer.status_code for answer in again] == [422] * (5 - tried) + [429]


def test_passkey_challenge_is_fresh_and_rate_limited() -> None:
    client = Client()
    first, second = challenge_for(client), challenge_for(client)
    assert first["challenge"] != second["challenge"]
    codes = [client.post("/passkeys/challenge").status_code for _ in range(19)]
    assert codes == [200] * 18 + [429]


def test_sign_in_form_makes_no_session(client: Client) -> None:
    assert "passkey" in client.get("/sign-in").content.decode()
    assert not Session.objects.exists()
    challenge_for(client)
    end = Session.objects.get().expire_date
    assert end - timezone.now() <= timedelta(seconds=webauthn.SECONDS)


def test_passkey_is_not_offered_when_the_host_is_an_ip_address(olga: Operator) -> None:
    client = signed_in(olga)
    for path in ("/sign-in", PATH):
        text = client.get(path, headers={"Host": "127.0.0.1"}).content.decode()
        assert "data-passkey" not in text


# Sudo before grave acts


def test_sudo_by_a_passkey_returns_to_the_page(olga: Operator, device: Device) -> None:
    client = signed_in(olga)
    session = client.session
    old = timezone.now() - timedelta(minutes=61)
    session[access.SIGNED_IN] = old.isoformat()
    session.save()
    (row,) = passkeys.list_passkeys(olga)
    form = {"remove-passkey": str(row.id)}
    back = client.post(PATH, form).headers["Location"]
    assert client.get(back).status_code == 200
    answer = enter(device, client, next=PATH)
    assert answer.headers["Location"] == PATH
    assert AuditEntry.objects.filter(action="sudo").exists()
    assert client.post(PATH, form).headers["Location"] == PATH
    assert not passkeys.has_passkey(olga)
