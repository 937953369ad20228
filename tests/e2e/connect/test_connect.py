"""The Connect page: a first key, a first program, and the thread that appears."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from httpx2 import AsyncClient
from mcp.client.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from playwright.sync_api import Page, expect

from inspector.connect import snippets
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import api_keys
from tests.e2e.conftest import Watched

HERE = "/p/acme/connect"
SECONDS = 60
#: Script that returns how far an element scrolls sideways, in pixels.
HIDDEN_WIDTH = "node => node.scrollWidth - node.clientWidth"
TYPES = re.compile(r"(?<=\w): (?:string|object)\b")


def make_key(page: Page) -> str:
    """Make a key on the page, by its form."""
    page.goto(HERE)
    page.get_by_label("Name").fill("desk-agent")
    page.get_by_role("button", name="Make the key").click()
    secret = page.locator("#secret").inner_text()
    assert api_keys.parse_prefix(secret)
    return secret


def run(words: list[str], key: str, **env: str) -> str:
    done = subprocess.run(
        words,
        env={**os.environ, "MEMORYHUB_KEY": key, **env},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_python(text: str, folder: Path) -> list[str]:
    program = folder / "first.py"
    program.write_text(text)
    return [sys.executable, str(program)]


def as_node(text: str, folder: Path) -> list[str]:
    program = folder / "first.mjs"
    program.write_text(TYPES.sub("", text))
    return ["node", str(program)]


RUN: dict[str, Callable[[str, Path], list[str]]] = {
    "py": as_python,
    "ts": as_node,
    "curl": lambda text, _: [
        "sh",
        "-c",
        f"set -e; {text.replace('curl', 'curl -fsS')}",
    ],
    "lg": as_python,
}


def test_connect_page_becomes_the_thread_on_its_first_event(
    page: Page, server: str, tmp_path: Path
) -> None:
    key = make_key(page)
    page.evaluate("window.here = true")
    expect(page.get_by_role("heading", name="Waiting for desk-agent")).to_be_visible()
    expect(page.get_by_role("img", name="done")).to_have_count(1)
    text = page.locator("#code-py").inner_text()
    run(as_python(text, tmp_path), key)
    expect(page.locator("#fresh")).to_contain_text(f"{snippets.THREAD} has begun")
    expect(page.locator("#events .event")).not_to_have_count(0)
    expect(page.locator("#events")).to_contain_text("Yes, it leaves at 9:40.")
    # The key was made, and a message was sent.
    expect(page.get_by_role("img", name="done")).to_have_count(2)
    assert page.evaluate("window.here") is True
    # The key was needed until now, and is still shown.
    expect(page.locator("#secret")).to_have_text(key)
    page.get_by_role("link", name="Open the thread").click()
    page.wait_for_url(f"**/threads/{snippets.THREAD}")


@pytest.mark.parametrize("name", RUN)
def test_every_connect_snippet_runs_unchanged(
    page: Page, server: str, tmp_path: Path, name: str, acme: Project
) -> None:
    key = make_key(page)
    text = page.locator(f"#code-{name}").text_content() or ""
    run(RUN[name](text, tmp_path), key)
    thread = Thread.objects.get(project=acme, name=snippets.THREAD)
    assert not thread.subject.anonymous
    assert thread.slot_count == (1 if name == "curl" else 2)
    assert thread.turn_count == (0 if name == "curl" else 1)


def test_mcp_snippet_connects_a_client(page: Page, server: str) -> None:
    key = make_key(page)
    text = page.locator("#code-mcp").text_content() or ""
    (entry,) = json.loads(text)["mcpServers"].values()
    (sent,) = entry["headers"].items()
    headers = {sent[0]: sent[1].replace("${MEMORYHUB_KEY}", key)}

    async def list_tools() -> set[str]:
        async with (
            AsyncClient(headers=headers) as http,
            McpClient(streamable_http_client(entry["url"], http_client=http)) as mcp,
        ):
            return {tool.name for tool in (await mcp.list_tools()).tools}

    # The browser's fixtures hold this thread's event loop.
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(asyncio.run, list_tools()).result()
    assert found == {"remember", "recall", "search", "update", "forget"}


def test_snippet_language_is_chosen_by_keyboard_alone(page: Page) -> None:
    page.goto(HERE)
    page.locator("#lang-py").focus()
    for name in ("ts", "curl", "lg", "mcp"):
        page.keyboard.press("ArrowRight")
        expect(page.locator(f"#code-{name}")).to_be_visible()
        box = page.locator(f".snippets .code.{name}")
        assert box.evaluate("each => each.scrollHeight <= each.clientHeight")
    expect(page.locator("#code-py")).to_be_hidden()


@pytest.mark.parametrize("width", [390, 1150, 1400])
def test_no_snippet_is_wider_than_the_page_shows(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(HERE)
    assert page.locator(".snippets .seg").evaluate(HIDDEN_WIDTH) == 0
    for name in ("py", "ts", "curl", "lg", "mcp"):
        page.locator(f"#lang-{name}").check(force=True)
        assert page.locator(f".code.{name}").evaluate(HIDDEN_WIDTH) == 0


def test_key_is_made_and_thread_shown_on_reload_without_scripts(
    open_page: Callable[..., Page], watched: Watched, tmp_path: Path
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(HERE)
    page.get_by_label("Name").fill("desk-agent")
    page.get_by_role("button", name="Make the key").click()
    key = page.locator("#secret").inner_text()
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
    page.locator("label", has_text="curl").click()
    expect(page.locator("#code-curl")).to_be_visible()
    text = page.locator("#code-curl").inner_text()
    run(RUN["curl"](text, tmp_path), key)
    page.get_by_role("link", name="Reload").click()
    expect(page.locator("#fresh")).to_contain_text("has begun")
    assert key not in page.content()
