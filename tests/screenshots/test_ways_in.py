"""The pictures of docs/agents.md, of what each example did: `make screenshots`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import sync_playwright

from tests.harness.environments import build_environment
from tests.harness.instances import free_port
from tests.screenshots.test_pictures import PICTURES, ROOT, run_server, take_picture

#: Largest size of a picture of an example in bytes.
MOST_BYTES = 80_000
ADK, AGENTS = "memoryhub_client[adk]", "memoryhub_client[openai-agents]"

pytestmark = [pytest.mark.screenshots, pytest.mark.timeout(900)]


class ExamplePicture(NamedTuple):
    """An example, the thread and page that show best what it did, and what it needs."""

    name: str
    #: How the thread's name begins, and what comes behind it.
    thread: str
    page: str = "slots"
    needs: str = ""
    #: The link to follow from there, and the text to scroll to.
    tab: str = ""
    see: str = ""


EXAMPLES = (
    ExamplePicture("langgraph_graph", "langgraph:order-", "checkpoints"),
    ExamplePicture("agent_protocol", "store:main", "keys"),
    ExamplePicture("anthropic_memory", "tue", "memory", tab="Blocks"),
    ExamplePicture("pydantic_ai_agent", "pydantic-ai:order-"),
    ExamplePicture("mem0_client", "mem0.", "pages"),
    ExamplePicture("mcp_client", "mcp.", "pages"),
    ExamplePicture("guarded", "guarded", "turns/1", see="Outcome"),
    ExamplePicture("loop_anthropic", "anthropic", see="Let me look."),
    ExamplePicture("openai_agents_session", "order-", needs=AGENTS),
    ExamplePicture("adk_agent", "adk:shop-", needs=ADK),
)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Serve an empty hub; yield the variables of an example, and a sign-in link."""
    port = str(free_port())
    env = {**os.environ, "MEMORYHUB_DATA": str(tmp_path), "PYTHONPATH": "."}
    with run_server("serve", "--port", port, env=env) as link:
        made = [["create_project", "shop"], ["create_key", "shop"]]
        *_, key = (
            subprocess.check_output(
                [sys.executable, "manage.py", *words], cwd=ROOT, env=env, text=True
            )
            for words in made
        )
        url = f"http://127.0.0.1:{port}"
        yield {**env, "MEMORYHUB_URL": url, "MEMORYHUB_KEY": key.split()[0]}, link


def test_pictures_of_the_examples_are_taken(
    hub: tuple[dict[str, str], str], tmp_path: Path
) -> None:
    env, link = hub
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 600})
        page.goto(link)
        page.wait_for_url("**/p/**")
        threads = f"{page.url.rstrip('/')}/threads"
        origin = threads.split("/p/", maxsplit=1)[0]
        for name, thread, where, needs, tab, see in EXAMPLES:
            python = build_environment(tmp_path, needs) if needs else sys.executable
            script = [python, f"examples/{name}.py"]
            subprocess.run(script, cwd=ROOT, env=env, check=True, timeout=120)
            page.goto(threads)
            # An application of ADK has a thread of its own, which has no messages.
            # A thread of a connection that names a person has its id before the name.
            places = (f"a[data-row][href*='{mark}{thread}']" for mark in ("/", ":"))
            row = page.locator(", ".join(places)).first
            page.goto(f"{origin}{row.get_attribute('href')}/{where}")
            if tab:
                page.get_by_role("link", name=tab, exact=True).click()
            if see:
                page.get_by_text(see).first.scroll_into_view_if_needed()
            take_picture(page, name, quality=60)
            assert (PICTURES / f"{name}-light.jpg").stat().st_size <= MOST_BYTES
        browser.close()
