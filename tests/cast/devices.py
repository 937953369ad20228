"""Devices that hold passkeys, in software, and misbehave as told."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

ORIGIN = "http://localhost"
FLAG = AuthenticatorData.FLAG


@dataclass(slots=True, kw_only=True)
class Device:
    """Passkey. It answers options as a browser gives them, in a browser's JSON."""

    origin: str = ORIGIN
    #: Claim that the device verified its holder.
    verifies: bool = True
    #: None: it does not count.
    signed: int | None = 0
    user_handle: bytes | None = None
    id: bytes = field(default_factory=lambda: os.urandom(32))
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def create(self, options: Mapping[str, Any], **wrong: Any) -> str:
        """Answer a proposal; `wrong` replaces parts of what the browser says."""
        self.user_handle = websafe_decode(options["user"]["id"])
        client = self._client("webauthn.create", options, wrong)
        numbers = self.key.public_key().public_numbers()
        public = ES256(
            {
                1: 2,
                3: ES256.ALGORITHM,
                -1: 1,
                -2: numbers.x.to_bytes(32),
                -3: numbers.y.to_bytes(32),
            }
        )
        made = AttestedCredentialData.create(bytes(16), self.id, public)
        data = self._build_data(options["rp"]["id"], FLAG.AT, made)
        attested = AttestationObject.create("none", data, {})
        return self._answer(client, attestationObject=attested)

    def get(self, options: Mapping[str, Any], **wrong: Any) -> str:
        """Answer a challenge; `wrong` as above."""
        client = self._client("webauthn.get", options, wrong)
        if self.signed is not None:
            self.signed += 1
        data = self._build_data(options["rpId"])
        signed = data + hashlib.sha256(client).digest()
        signature = self.key.sign(signed, ec.ECDSA(hashes.SHA256()))
        handle = {"userHandle": self.user_handle} if self.user_handle else {}
        return self._answer(
            client, authenticatorData=data, signature=signature, **handle
        )

    def _client(
        self, kind: str, options: Mapping[str, Any], wrong: Mapping[str, Any]
    ) -> bytes:
        said = {"origin": self.origin, "challenge": options["challenge"], **wrong}
        return CollectedClientData.create(type=said.pop("type", kind), **said)

    def _build_data(
        self, host: str, flag: int = 0, made: bytes = b""
    ) -> AuthenticatorData:
        flags = FLAG.UP | flag | (FLAG.UV if self.verifies else 0)
        digest = hashlib.sha256(host.encode()).digest()
        parts = digest, FLAG(flags), self.signed or 0, made
        return cast("AuthenticatorData", AuthenticatorData.create(*parts))

    def _answer(self, client: bytes, **parts: bytes) -> str:
        response = {name: websafe_encode(part) for name, part in parts.items()}
        own = websafe_encode(self.id)
        return json.dumps(
            {
                "id": own,
                "rawId": own,
                "type": "public-key",
                "response": {"clientDataJSON": websafe_encode(client), **response},
                "clientExtensionResults": {},
            }
        )
