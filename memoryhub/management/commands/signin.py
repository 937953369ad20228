from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.journal.audit import PURPOSES
from memoryhub.management import start
from memoryhub.management.serving import address
from memoryhub.management.terminal import Command as Base
from memoryhub.services.access import operators


class Command(Base):
    help = "Print a link that signs an operator in to the inspector, once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--operator",
            default=operators.DEFAULT_USERNAME,
            help=f"who signs in (default: {operators.DEFAULT_USERNAME})",
        )
        parser.add_argument(
            "--minutes",
            type=int,
            default=operators.LINK_MINUTES,
            help=f"how long the link works, 1 to {operators.MAX_LINK_MINUTES} "
            f"(default: {operators.LINK_MINUTES})",
        )
        parser.add_argument(
            "--purpose",
            choices=PURPOSES,
            help="what content is looked at for; else the page asks, or on this "
            "machine takes it for debugging",
        )
        parser.add_argument(
            "--origin",
            help="address of the server, like https://memory.example.org (default: "
            "the first of MEMORYHUB_ORIGINS, else where it last listened)",
        )

    def handle(
        self,
        *args: Any,
        operator: str,
        minutes: int,
        origin: str | None,
        purpose: str | None,
        **options: Any,
    ) -> None:
        if not 1 <= minutes <= operators.MAX_LINK_MINUTES:
            self.end(f"--minutes goes from 1 to {operators.MAX_LINK_MINUTES}.")
        start.prepare_existing()
        row = operators.find(operator)
        if row is None:
            self.end(
                f"There is no such operator. Make one: {PROGRAM} add_operator NAME "
                "--project PROJECT --role viewer"
            )
        token = operators.make_link(row, minutes)
        self.say(f"Signs in {operator}, once, within {minutes} minutes:")
        query = f"?purpose={purpose}" if purpose else ""
        at = (origin or address.find_address()).rstrip("/")
        self.stdout.write(f"{at}/sign-in/{token}{query}")
