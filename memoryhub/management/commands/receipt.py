from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from memoryhub.management import start
from memoryhub.management.terminal import WRONG_USAGE
from memoryhub.management.terminal import Command as Base
from memoryhub.queries.forget import exclusions
from memoryhub.services.forget import receipts as issued
from memoryhub.vault.proof import receipts, signing


class Command(Base):
    help = (
        "Look whether a receipt of an erasure is one of ours, just as it was signed; "
        "or print the public keys that tell. With `verify FILE --pub KEYS` neither a "
        "database nor the key ring is needed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        checking = actions.add_parser("verify", help="check a receipt or an addendum")
        checking.add_argument(
            "file", type=Path, help="the receipt as it was handed out"
        )
        checking.add_argument(
            "--pub",
            type=Path,
            metavar="KEYS",
            help="what `receipt keys` printed; without it this instance's own keys",
        )
        telling = actions.add_parser("keys", help="print the public keys, as JSON")
        telling.add_argument(
            "--rotate",
            action="store_true",
            help="sign with a new key from now on; what was signed stays good",
        )

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        if action == "keys":
            if options["rotate"]:
                start.prepare_existing()
                issued.rotate_key(actor="command")
            self.stdout.write(
                signing.encode_keys(signing.list_endorsed_keys()).decode(), ending=""
            )
            return
        text = self.read_bytes(options["file"])
        verdict = receipts.verify(text, self.read_keys(options["pub"]))
        if verdict.says is None:
            self.end(f"{verdict.reason}: this is no receipt of that signer's.")
        says = verdict.says
        what = says.get("status") or says.get("what")
        self.stdout.write(
            f"Good. Erasure {says.get('erasure')}, {what}, signed by key "
            f"{says['key_id']}, which leads back to the root {says['root']}."
        )
        for each in exclusions.list_residue_lines(says.get("residue", ())):
            self.stdout.write(f"  {each}")

    def read_keys(self, file: Path | None) -> dict[str, bytes]:
        if file is None:
            return signing.list_public_keys()
        try:
            return signing.decode_keys(self.read_bytes(file))
        except ValueError as refused:
            self.end(f"bad_keys: {refused}", code=WRONG_USAGE)

    def read_bytes(self, file: Path) -> bytes:
        """Read the file, at most one byte more than a receipt may have."""
        try:
            with file.open("rb") as opened:
                return opened.read(receipts.MAX_BYTES + 1)
        except OSError as failure:
            self.end(f"unreadable: {file}: {failure.strerror}", code=WRONG_USAGE)
