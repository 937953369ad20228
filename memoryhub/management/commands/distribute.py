from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from memoryhub.management import distributing, noting, start
from memoryhub.management.terminal import Command as Base


class Command(Base):
    help = (
        "Spread the tables of threads over the workers of a Citus cluster, whose "
        "coordinator DATABASE_URL names. Take a backup and stop every other process "
        "first. Safe to repeat and to interrupt. There is no way back but an export."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would move; move nothing"
        )

    def handle(self, *args: Any, dry_run: bool, **options: Any) -> None:
        version, workers = distributing.require_workers()
        start.prepare_existing()
        waiting = [m for m in distributing.list_moves() if not m.is_distributed]
        self.stdout.write(f"Citus {version}, {workers:,} nodes take shards.")
        if not waiting:
            self.stdout.write("Every table of threads is distributed.")
            return
        if dry_run:
            for move in waiting:
                self.stdout.write(_describe(move))
            self.stdout.write("Nothing was moved: this was a dry run.")
            return
        for move in distributing.iter_distributed():
            self.stdout.write(f"{move.table}: distributed")
        noting.note(self, "tables.distributed", count=len(waiting))


def _describe(move: distributing.TableMove) -> str:
    keys = len(move.foreign_keys)
    return (
        f"{move.table}: about {move.rows:,} rows, {move.bytes:,} bytes; "
        f"{keys} foreign {'key is' if keys == 1 else 'keys are'} dropped"
    )
