"""Passkeys in a real browser with virtual devices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone
from playwright.sync_api import Page, expect

from inspector.access import access
from inspector.access import passkeys as asking
from memoryhub.services.access import operators, passkeys
from tests.e2e.conftest import Watched
from tests.e2e.screens.conftest import findings

PATH = "/second-factor"
PASSWORD = "seven herons on the jetty"


@pytest.fixture
def server(server: str) -> str:
    """Return the server's address by name: IP addresses have no passkeys."""
    asking.challenge_limit.forget()
    return server.replace("127.0.0.1", "localhost")


def plug_in(page: Page, *, verifies: bool = True) -> Callable[[str, Any], None]:
    """Give the browser a device that consents; return a function that changes it."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": verifies,
        "isUserVerified": verifies,
        "automaticPresenceSimulation": True,
    }
    made = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    device = made["authenticatorId"]

    def change(what: str, value: Any) -> None:
        session.send(f"WebAuthn.{what}", {"authenticatorId": device, **value})

    return change


def add(page: Page, name: str = "Phone") -> None:
    page.goto(PATH)
    page.fill("[name=name]", name)
    page.click("text=Add a passkey")
    expect(page.locator("form", has_text=name)).to_contain_text("for localhost")


def sign_out(page: Page) -> None:
    page.click("details.menu:not(.exports) summary")
    page.click("text=Sign out")
    page.wait_for_url("**/sign-in")


def grow_old() -> None:
    """Age every session by more than an hour."""
    for row in Session.objects.all():
        store = SessionStore(row.session_key)
        old = timezone.now() - timedelta(minutes=61)
        store[access.SIGNED_IN] = old.isoformat()
        store.save()


def test_passkey_is_added_used_for_sign_in_and_sudo_and_removed(page: Page) -> None:
    plug_in(page)
    add(page)
    assert findings(page) == []
    sign_out(page)
    assert findings(page) == []
    page.select_option("[name=purpose]", "support")
    page.click("text=Use a passkey")
    page.wait_for_url("**/p/acme/")
    page.goto(PATH)
    grow_old()
    page.click("text=Remove")
    page.wait_for_url("**/sign-in?next=*")
    page.click("text=Use a passkey")
    page.wait_for_url(f"**{PATH}")
    expect(page.locator("form", has_text="Phone")).to_contain_text("used")
    page.click("text=Remove")
    expect(page.locator("form", has_text="Phone")).to_have_count(0)
    owner = operators.find("owner")
    assert owner is not None
    assert not passkeys.has_passkey(owner)


def test_device_without_user_verification_needs_the_password(
    page: Page, watched: Watched
) -> None:
    watched.expected.append("422")
    plug_in(page, verifies=False)
    add(page)
    owner = operators.find("owner")
    assert owner is not None
    operators.set_password(owner, PASSWORD)
    sign_out(page)
    page.fill("[name=username]", "owner")
    page.click("text=Use a passkey")
    expect(page.locator(".notice.bad")).to_contain_text("do not match")
    page.fill("[name=username]", "owner")
    page.fill("[name=password]", PASSWORD)
    page.click("text=Use a passkey")
    page.wait_for_url("**/p/acme/")


def test_passkey_of_the_same_device_is_not_added_twice(page: Page) -> None:
    plug_in(page)
    add(page)
    page.fill("[name=name]", "Again")
    with page.expect_response("**/passkeys/proposal"):
        page.click("text=Add a passkey")
    # The browser itself refuses, so the form stays as it is.
    expect(page.locator("[name=name]")).to_have_value("Again")
    expect(page.locator("form", has_text="Phone")).to_have_count(1)


def test_adding_a_passkey_after_an_old_sign_in_requires_a_new_one(
    page: Page, watched: Watched
) -> None:
    plug_in(page)
    page.goto(PATH)
    grow_old()
    page.click("text=Add a passkey")
    page.wait_for_url("**/sign-in?next=%2Fsecond-factor&why=old")


def test_passkeys_are_not_offered_without_scripts(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(PATH)
    expect(page.locator("[data-passkey]")).to_be_hidden()
    expect(page.locator("#code")).to_be_visible()
    page.goto("/sign-in")
    expect(page.locator("[data-passkey]")).to_be_hidden()
