"""Passkeys: devices that sign an operator in, by the protocol WebAuthn (level 3).

A browser lets a device sign a challenge of this server for the host that the passkey
was made for, and reports the page's origin. The server stores no secret.
See decision 24.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from uuid import UUID

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.crypto import salted_hmac
from fido2 import cbor
from fido2.cose import ES256, RS256, CoseKey, EdDSA
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from memoryhub.errors import InvalidError
from memoryhub.kernel.text import names, strict_json
from memoryhub.models.access.operators import Operator
from memoryhub.models.keys import Passkey
from memoryhub.models.server.clock import clock
from memoryhub.services.access import audit, operators

MAX_NAME: Final = 40
MAX_PASSKEYS: Final = 20
#: Least number of ids reported for a name, made-up ids included.
_CANDIDATES = 3
_SALT = "memoryhub.passkeys"
#: Limits several times larger than the answer of any device.
_LIMITS = strict_json.JsonLimits(max_bytes=16_384, max_depth=8, max_nodes=200)
#: Accepted key types; every device supports one of them.
_KINDS = (ES256, EdDSA, RS256)
#: Errors that parsers raise on malformed bytes and keys from outside.
_BROKEN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError, strict_json.JsonRefusedError, struct.error),
    *(InvalidSignature, UnsupportedAlgorithm),
)

#: State of a challenge, kept until the device answers.
State = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeySite:
    """Host and origin of this server in a browser: a passkey is bound to the host."""

    host: str
    origin: str

    @property
    def has_domain_name(self) -> bool:
        """Whether the host is a domain name: no passkey is made for an IP address."""
        try:
            ipaddress.ip_address(self.host.strip("[]"))
        except ValueError:
            return True
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeySignIn:
    """Operator whose passkey signed a challenge."""

    operator: Operator
    #: Whether the device verified its user: by a code, a finger, a face.
    verified: bool


def list_passkeys(operator: Operator) -> list[Passkey]:
    """List the operator's passkeys, oldest first. One query."""
    return list(_filter_passkeys(operator.id).order_by("created_at", "id"))


def has_passkey(operator: Operator) -> bool:
    """Return whether the operator has a passkey, for whatever host. One query."""
    return _filter_passkeys(operator.id).exists()


def begin_registration(
    operator: Operator, site: PasskeySite
) -> tuple[Mapping[str, Any], State]:
    """Build the options that register a passkey for the operator, and the state.

    A device that can stores the operator's id, so that no one need type a name. Raises
    InvalidError `many`.
    """
    passkeys = list_passkeys(operator)
    if len(passkeys) >= MAX_PASSKEYS:
        raise InvalidError(code="many", loc="passkey")
    options, state = _build_server(site).register_begin(
        PublicKeyCredentialUserEntity(
            id=operator.id.bytes,
            name=operator.username,
            display_name=operator.username,
        ),
        [
            _build_descriptor(bytes(row.credential))
            for row in passkeys
            if row.host == site.host
        ],
        resident_key_requirement=ResidentKeyRequirement.PREFERRED,
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return dict(options.public_key), state


def begin_sign_in(
    site: PasskeySite, *, name: str = ""
) -> tuple[Mapping[str, Any], State]:
    """Build the options of a sign-in, for any operator or one name, and the state.

    With a name, devices that do not store the operator's id can answer too. At most two
    queries.
    """
    options, state = _build_server(site).authenticate_begin(
        [_build_descriptor(each) for each in _list_candidates(site, name)]
        if name
        else None,
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return dict(options.public_key), state


def add(
    operator: Operator, site: PasskeySite, *, state: State, answer: str, name: str
) -> None:
    """Store the passkey of the device that gave this answer.

    Raises InvalidError `passkey` for an answer that does not match the challenge.
    """
    try:
        made = RegistrationResponse.from_dict(_parse_answer(answer))
        data = _build_server(site).register_complete(state, made)
        credential = data.credential_data
        assert credential is not None
        if type(credential.public_key) not in _KINDS:
            raise ValueError
        row = Passkey(
            operator=operator.id,
            credential=_require_size(credential.credential_id, 1023),
            public=_require_size(cbor.encode(credential.public_key), 1024),
            host=site.host,
            name=_clean_name(name),
            signed=data.counter,
            created_at=clock.now(),
        )
        with transaction.atomic(using="keys"):
            row.save(force_insert=True)
    except (*_BROKEN, IntegrityError):
        raise InvalidError(code="passkey", loc="passkey") from None
    audit.record_operator(operator, "operator.passkey_added")


def remove(operator: Operator, which: str) -> bool:
    """Remove the operator's passkey of this id; return whether one existed."""
    own = [row for row in list_passkeys(operator) if str(row.id) == which]
    for row in own:
        row.delete()
        audit.record_operator(operator, "operator.passkey_removed")
    return bool(own)


def verify_sign_in(
    site: PasskeySite, *, state: State, answer: str
) -> PasskeySignIn | None:
    """Verify a device's answer and return its operator; None for any invalid answer.

    The counter of a counting device must have grown, which exposes a copied device.
    """
    try:
        sent = AuthenticationResponse.from_dict(_parse_answer(answer))
        row = _get_passkey(site, sent.raw_id)
        _verify_answer(row, site, state, sent)
    except (*_BROKEN, Passkey.DoesNotExist):
        return None
    data = sent.response.authenticator_data
    if (data.counter or row.signed) and data.counter <= row.signed:
        return None
    # Compare-and-set: of two answers with the same counter one succeeds.
    counted = _filter_passkeys(row.operator).filter(id=row.id, signed=row.signed)
    if not counted.update(signed=data.counter, used_at=clock.now()):
        return None
    operator = Operator.objects.filter(id=row.operator, is_active=True).first()
    if operator is None:
        return None
    return PasskeySignIn(operator=operator, verified=data.is_user_verified())


def _list_candidates(site: PasskeySite, name: str) -> list[bytes]:
    """List the ids of a name's passkeys, among made-up ids.

    Made-up ids hide which names exist (WebAuthn, section 14.6.2).
    """
    # An invalid name is not looked up in the database.
    whose = operators.find(name) if names.is_valid(name) else None
    rows = (
        _filter_passkeys(whose.id).filter(host=site.host)
        if whose
        else Passkey.objects.none()
    )
    found = [bytes(row.credential) for row in rows]
    for n in range(len(found), _CANDIDATES):
        text = f"{n} {site.host} {name}"
        found.append(salted_hmac(_SALT, text, algorithm="sha256").digest())
    return sorted(found)


def _get_passkey(site: PasskeySite, credential: bytes) -> Passkey:
    """Get the passkey of a credential on this host. Raises Passkey.DoesNotExist."""
    rows = Passkey.objects.using("keys")
    return rows.get(credential=credential, host=site.host)


def _verify_answer(
    row: Passkey, site: PasskeySite, state: State, sent: AuthenticationResponse
) -> None:
    """Raise one of _BROKEN unless the passkey signed this answer."""
    whose = sent.response.user_handle
    if whose is not None and whose != row.operator.bytes:
        raise ValueError
    public = cast("Mapping[int, Any]", cbor.decode(bytes(row.public)))
    key = CoseKey.parse(public)
    credential = AttestedCredentialData.create(bytes(16), sent.raw_id, key)
    _build_server(site).authenticate_complete(state, [credential], sent)


def _build_server(site: PasskeySite) -> Fido2Server:
    """Build a WebAuthn server that accepts only this site's origin and _KINDS."""
    party = PublicKeyCredentialRpEntity(id=site.host, name="MemoryHub")
    server = Fido2Server(party, verify_origin=lambda origin: origin == site.origin)
    accepted = {kind.ALGORITHM for kind in _KINDS}
    server.allowed_algorithms = [
        kind for kind in server.allowed_algorithms if kind.alg in accepted
    ]
    return server


def _parse_answer(answer: str) -> Mapping[str, Any]:
    """Parse a device's JSON answer. Raises one of _BROKEN."""
    parsed = strict_json.parse(answer.encode(), limits=_LIMITS)
    if not isinstance(parsed, dict):
        raise TypeError
    return parsed


def _build_descriptor(credential: bytes) -> PublicKeyCredentialDescriptor:
    """Build the WebAuthn descriptor of a credential id."""
    return PublicKeyCredentialDescriptor(
        type=PublicKeyCredentialType.PUBLIC_KEY, id=credential
    )


def _require_size(value: bytes, most: int) -> bytes:
    """Return the value; raise ValueError if it is empty or longer than `most` bytes."""
    if not 0 < len(value) <= most:
        raise ValueError
    return value


def _clean_name(sent: str) -> str:
    """Reduce a typed passkey name to one line; "Passkey" if nothing is left."""
    plain = "".join(c if c.isprintable() else " " for c in sent)
    return " ".join(plain.split())[:MAX_NAME].strip() or "Passkey"


def _filter_passkeys(operator: UUID) -> QuerySet[Passkey]:
    """Filter the passkeys of an operator."""
    return Passkey.objects.using("keys").filter(operator=operator)
