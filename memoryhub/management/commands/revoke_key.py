from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from memoryhub.management import start
from memoryhub.management.terminal import Command as Base
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.services.access import api_keys


class Command(Base):
    help = "End an API key now; every process has noticed within a second."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "prefix",
            help="the 8 characters after `mh_live_`; never the whole key, which would "
            "stand in the shell's history",
        )

    def handle(self, *args: Any, prefix: str, **options: Any) -> None:
        start.prepare_existing()
        row = ApiKey.objects.filter(prefix=prefix).first()
        if row is None:
            self.end("No key has this prefix. The inspector's API keys page lists all.")
        elif row.revoked_at is not None:
            self.say(f"The key {prefix} has been revoked since {row.revoked_at:%F %R}.")
        else:
            api_keys.revoke(row)
            self.say(f"Revoked the key {prefix}.")
