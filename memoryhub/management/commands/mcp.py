from __future__ import annotations

import os
from http import HTTPStatus
from typing import Any, NoReturn

import httpx2
from django.core.management.base import CommandParser

from memoryhub.api.http.calls import HubRefusedError
from memoryhub.distribution import PROGRAM
from memoryhub.management.terminal import Command as Base
from memoryhub.mcp import server


class Command(Base):
    help = f"""Give an MCP client the memory of a running hub, over stdin and stdout.

  MEMORYHUB_KEY=mh_live_... {PROGRAM} mcp

The key comes from MEMORYHUB_KEY, the hub's address from MEMORYHUB_URL or --url. A key
that is bound to a person remembers that person; for a key of many, MEMORYHUB_PERSON
names whom. A client that speaks HTTP needs no command, only the address /mcp."""

    def add_arguments(self, parser: CommandParser) -> None:
        url = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")
        add = parser.add_argument
        add("--url", default=url, help="address of the hub (default: %(default)s)")
        add("--thread", help="thread to write to (default: the person's, else mcp)")
        add("--all", action="store_true", help="offer all tools, not only five")

    def handle(self, *args: Any, **options: Any) -> None:
        key, url = os.environ.get("MEMORYHUB_KEY", "").strip(), options["url"]
        if not key:
            self.end(f"Set MEMORYHUB_KEY: `{PROGRAM} create_key PROJECT` prints one.")
        if not key.isascii():
            self.end_with_wrong_key(url)
        if not url.startswith(("http://", "https://")):
            self.end_with_wrong_address(url, "an address begins with http://")
        try:
            server.run_stdio(
                url=url,
                key=key,
                all_tools=options["all"],
                thread=options["thread"],
                person=os.environ.get("MEMORYHUB_PERSON"),
            )
        except HubRefusedError as refused:
            if refused.status == HTTPStatus.UNAUTHORIZED:
                self.end_with_wrong_key(url)
            self.end_with_wrong_address(url, str(refused))
        except httpx2.InvalidURL:
            self.end_with_wrong_address(url, "this is no address")

    def end_with_wrong_key(self, url: str) -> NoReturn:
        self.end(
            f"The hub at {url} does not know the key in MEMORYHUB_KEY. Copy the key "
            f"again, or make a new one: `{PROGRAM} create_key PROJECT` prints it."
        )

    def end_with_wrong_address(self, url: str, words: str) -> NoReturn:
        self.end(
            f"No hub serves at {url} ({words}). Start one with `{PROGRAM} serve`, or "
            "put the address of yours into MEMORYHUB_URL or --url."
        )
