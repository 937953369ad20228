"""Erasure by hand, with scripts and without, and its effect on open tabs."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from memoryhub.models.erasures import Receipt
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from tests.e2e.conftest import Watched
from tests.inspector import forgotten

P = "/p/acme"


@pytest.fixture
def ann(agent: Agent) -> Subject:
    forgotten.make_person(agent, "bob")
    return forgotten.make_person(agent, "ann")


@pytest.mark.parametrize("scripts", [True, False])
def test_subject_is_forgotten_from_look_up_to_receipt(
    ann: Subject, open_page: Callable[..., Page], watched: Watched, *, scripts: bool
) -> None:
    watched.expected.append("410")
    page = open_page("officer", java_script_enabled=scripts)
    page.get_by_role("link", name="People").click()
    page.fill("[name=user_id]", "ann")
    page.click("text=Look up")
    expect(page.locator("h1")).to_contain_text("Person")
    assert "ann" not in page.url
    page.click("text=Forget…")
    page.select_option("[name=reason]", "consent_withdrawn")
    page.click("text=Show the plan")
    expect(page.locator("h1")).to_contain_text("would be forgotten")
    typed = page.locator("label[for=typed] code").text_content()
    assert typed is not None
    page.fill("[name=typed]", typed)
    page.click("button.danger")
    expect(page.locator("#erasure")).to_be_visible()
    if not scripts:
        # Reload as a person does who waits for the end.
        for _ in range(200):
            if page.get_by_role("link", name="The receipt").count():
                break
            page.reload()
    page.get_by_role("link", name="The receipt").click(timeout=20_000)
    expect(page.locator(".badge.ok")).to_be_visible()
    expect(page.locator(".notice.good")).to_contain_text(
        "what this server holds is gone"
    )
    page.goto(f"{P}/threads/ann-1")
    expect(page.locator("h1")).to_have_text("This thread was forgotten")
    page.click(f"text={str(Receipt.objects.get().id)[-8:]}")
    expect(page.locator("h1")).to_contain_text("Receipt")


def test_open_tab_is_cleared_after_an_erasure(
    ann: Subject, open_page: Callable[..., Page], watched: Watched
) -> None:
    """The subject's thread and row are cleared, and nobody else's."""
    watched.expected.append("410")
    thread, threads = open_page("viewer"), open_page("officer")
    thread.goto(f"{P}/threads/ann-2/slots")
    thread.goto(f"{P}/threads/ann-2?tab=messages")
    threads.goto(f"{P}/threads")
    for page in (thread, threads):
        expect(page.locator("#live")).to_have_text("Live")
    text = forgotten.TEXTS[0]
    expect(thread.locator("main")).to_contain_text(text)
    forgotten.confirm(forgotten.plan(ann))
    # Restricting first hides the subject from viewers at once.
    expect(thread.locator("#live")).to_have_text(
        re.compile("Erased|Not live: not for your role")
    )
    expect(thread.locator("main")).not_to_contain_text(text)
    watched.expected.append("403")
    thread.click("text=Why?")
    expect(thread.locator("h1")).to_contain_text("forgotten")
    expect(thread.locator("main")).not_to_contain_text("ann-2")
    row = threads.locator(".row", has_text="ann-2")
    expect(row).to_have_count(0)
    expect(threads.locator(".row", has_text="bob-2")).to_be_visible()
    expect(threads.locator("#live")).to_have_text("Live")


def test_receipt_prints_without_the_page_around(
    ann: Subject, open_page: Callable[..., Page]
) -> None:
    forgotten.finish(forgotten.confirm(forgotten.plan(ann)))
    page = open_page("officer")
    page.goto(f"{P}/receipts/{Receipt.objects.get().id}")
    page.emulate_media(media="print")
    for around in (".bar", ".rail", "main .button"):
        expect(page.locator(around).first).to_be_hidden()
    expect(page.locator("h1")).to_be_visible()
