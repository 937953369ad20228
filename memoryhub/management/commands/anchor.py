from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.management import start
from memoryhub.management.terminal import Command as Base
from memoryhub.models.server.clock import clock
from memoryhub.workers import anchors


class Command(Base):
    help = (
        "Vouch for the heads of all threads and of the audit log: one signed line "
        "beside the ledger, outside of the databases. A server does it every hour and "
        "when it ends. `verify --all` compares."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--anew",
            action="store_true",
            help="take what is there now as it is, after a restore that you know of",
        )

    def handle(self, *args: Any, anew: bool, **options: Any) -> None:
        start.prepare_existing()
        try:
            moved = anchors.move(at=clock.now(), anew=anew)
        except anchors.AnchorsDifferError as differing:
            self.end(
                f"anchors_differ: {differing.standing.wrong}, so nothing was signed; "
                f"`{PROGRAM} verify --all` says more. After a restore you know of: "
                f"`{PROGRAM} anchor --anew`."
            )
        self.stdout.write(f"{moved:,} threads anchored.")
