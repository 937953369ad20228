from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.management import logs, start
from memoryhub.management.serving import address, server
from memoryhub.management.terminal import Command as Base
from memoryhub.queries.verify import server_checks
from memoryhub.services.access import operators
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.vault.keys import keyring


class Command(Base):
    help = (
        "Start MemoryHub: the agents' API and the inspector, with the workers inside. "
        "Makes or upgrades the databases first. Stop it with Ctrl-C or SIGTERM; what "
        "was acknowledged is on disk."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--host",
            default="127.0.0.1",
            help="address to listen on; anything but loopback needs a secret key of "
            "your own (default: 127.0.0.1)",
        )
        parser.add_argument(
            "--port",
            type=int,
            default=8000,
            help="port to listen on, 0 for any that is free (default: 8000)",
        )

    def handle(self, *args: Any, host: str, port: int, **options: Any) -> None:
        start.refuse_public(host)
        with server.bind(host, port) as bound:
            start.prepare(held_back=True)
            lines = list(self.iter_welcome(bound, private=start.is_loopback(host)))
            logs.configure()
            address.note_address(server.build_url(bound))
            running = server.build_server(listening=lambda: self.say("\n".join(lines)))
            # uvicorn raises the signal again after all requests are drained.
            with suppress(KeyboardInterrupt):
                running.run(sockets=[bound])

    def iter_welcome(self, bound: socket.socket, *, private: bool) -> Iterator[str]:
        """Yield lines that say where the server is and how to get in."""
        url = server.build_url(bound)
        yield f"MemoryHub listens on {url}"
        if private:
            token = operators.make_link(operators.ensure_default())
            minutes = operators.LINK_MINUTES
            yield f"Sign in, once, within {minutes} minutes: {url}/sign-in/{token}"
        else:
            # A link in a log would sign in the first reader of the log.
            yield f"Sign in by a link from: {PROGRAM} signin"
        if server_checks.is_redis_silent():
            yield (
                "Redis does not answer at REDIS_URL: until it does, live pages look "
                "by themselves for what other processes write, and show it later."
            )
        if maintenance.waiting:
            yield (
                "A backup was restored from before some erasures: nothing is served "
                f"until they are replayed. Run: {PROGRAM} forget --replay"
            )
        if not keyring.is_kek_backed_up():
            yield (
                "Back up the key ring: without it no memory can ever be read again. "
                f"Run: {PROGRAM} keys backup FILE"
            )
