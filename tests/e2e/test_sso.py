"""Single sign-on in a real browser, under a policy of same-origin form targets."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.cast import provider as providing
from tests.cast.provider import CLIENT_ID, SECRET
from tests.e2e.conftest import WATCH
from tests.harness.instances import prepare_instance


def test_browser_signs_in_by_single_sign_on(chromium: Browser, tmp_path: Path) -> None:
    problems: list[str] = []
    with providing.serving() as provider:
        given = {
            "MEMORYHUB_SSO_ISSUER": provider.issuer,
            "MEMORYHUB_SSO_CLIENT_ID": CLIENT_ID,
            "MEMORYHUB_SSO_CLIENT_SECRET": SECRET,
        }
        with prepare_instance(tmp_path, **given) as hub:
            hub.managed("create_project", "acme")
            words = ("--project", "acme", "--sso", provider.subject)
            hub.managed("add_operator", "vera", *words)
            with hub.serve() as server:
                context = chromium.new_context(base_url=server.url)
                page = context.new_page()
                page.add_init_script(WATCH)
                page.on("console", lambda message: problems.append(message.text))
                page.goto("/p/acme/threads")
                page.select_option("[name=purpose]", "support")
                page.click("text=Single sign-on")
                page.wait_for_url("**/p/acme/threads")
                expect(page.locator("summary", has_text="vera")).to_be_visible()
                context.close()
    assert len(provider.asked) == 1
    assert problems == []
