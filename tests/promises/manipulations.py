"""What a holder of the ledger's folder can do, without a key."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from memoryhub.vault import signing
from memoryhub.vault.signing import Signer, fingerprint


def file_of(name: str) -> Path:
    folder: Path = settings.LEDGER
    return folder / name


def stranger() -> Signer:
    """A key that was never ours."""
    key = Ed25519PrivateKey.generate()
    root = fingerprint(key.public_key().public_bytes_raw())
    return Signer(key_id=str(uuid4()), root=root, _key=key)


def listed(signer: Signer, *, by: str | None = None) -> None:
    """Its key in the list beside the ledger, vouched for by itself."""
    path = file_of(signing.FILE)
    told = json.loads(path.read_bytes())
    public = signer.public.hex()
    sig = signer.sign(f"memoryhub.public-key/1|{signer.key_id}|{public}".encode())
    told["keys"][signer.key_id] = {
        "public": public,
        "by": by or signer.key_id,
        "sig": sig.hex(),
    }
    path.write_bytes(json.dumps(told, indent=1).encode() + b"\n")
