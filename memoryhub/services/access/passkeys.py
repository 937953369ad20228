"""Passkeys: devices that sign an operator in, by the protocol WebAuthn (level 3).

A browser lets a device sign a challenge of ours for the host that it was made for, and
says from which origin. Nothing secret is kept here.
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
#: Ids that a name has at least, made-up ones among them.
_CANDIDATES = 3
_SALT = "memoryhub.passkeys"
#: Several times what any device answers.
_LIMITS = strict_json.Limits(max_bytes=16_384, max_depth=8, max_nodes=200)
#: Kinds of keys that are taken: what all devices have one of.
_KINDS = (ES256, EdDSA, RS256)
#: What parsers of bytes and keys that somebody sent may end with.
_BROKEN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError, strict_json.JsonRefusedError, struct.error),
    *(InvalidSignature, UnsupportedAlgorithm),
)

#: What was asked of a device, kept until it answers.
State = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a browser sees us: passkeys are for the host, answers from the origin."""

    host: str
    origin: str

    @property
    def named(self) -> bool:
        """Whether a passkey can be for it: no browser makes one for an address."""
        try:
            ipaddress.ip_address(self.host.strip("[]"))
        except ValueError:
            return True
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A device has signed in this operator's name."""

    operator: Operator
    #: The device has made sure who holds it: by a code, a finger, a face.
    verified: bool


def list_passkeys(operator: Operator) -> list[Passkey]:
    """List the operator's, oldest first. One query."""
    return list(_rows(operator.id).order_by("created_at", "id"))


def exists(operator: Operator) -> bool:
    """Return whether the operator has one, for whatever host. One query."""
    return _rows(operator.id).exists()


def propose(operator: Operator, site: Site) -> tuple[Mapping[str, Any], State]:
    """Return what to ask a device that shall sign the operator in from now on.

    If it can it keeps who it is for, so that nobody need type a name. Raises
    InvalidError `many`.
    """
    passkeys = list_passkeys(operator)
    if len(passkeys) >= MAX_PASSKEYS:
        raise InvalidError(code="many", loc="passkey")
    options, state = _server(site).register_begin(
        PublicKeyCredentialUserEntity(
            id=operator.id.bytes,
            name=operator.username,
            display_name=operator.username,
        ),
        [
            _descriptor(bytes(row.credential))
            for row in passkeys
            if row.host == site.host
        ],
        resident_key_requirement=ResidentKeyRequirement.PREFERRED,
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return dict(options.public_key), state


def challenge(site: Site, *, name: str = "") -> tuple[Mapping[str, Any], State]:
    """Return what to ask any device that signs somebody in here, or this operator.

    With a name those can answer, too, that do not keep whom they are for. At most two
    queries.
    """
    options, state = _server(site).authenticate_begin(
        [_descriptor(each) for each in _candidates(site, name)] if name else None,
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return dict(options.public_key), state


def add(
    operator: Operator, site: Site, *, state: State, answer: str, name: str
) -> None:
    """Let the device that answered so sign the operator in from now on.

    Raises InvalidError `passkey` for another answer than was asked for.
    """
    try:
        made = RegistrationResponse.from_dict(_read(answer))
        data = _server(site).register_complete(state, made)
        credential = data.credential_data
        assert credential is not None
        if type(credential.public_key) not in _KINDS:
            raise ValueError
        row = Passkey(
            operator=operator.id,
            credential=_bounded(credential.credential_id, 1023),
            public=_bounded(cbor.encode(credential.public_key), 1024),
            host=site.host,
            name=_name(name),
            signed=data.counter,
            created_at=clock.now(),
        )
        with transaction.atomic(using="keys"):
            row.save(force_insert=True)
    except (*_BROKEN, IntegrityError):
        raise InvalidError(code="passkey", loc="passkey") from None
    audit.record_operator(operator, "operator.passkey_added")


def remove(operator: Operator, which: str) -> bool:
    """Take away the operator's passkey of this id; whether there was one."""
    own = [row for row in list_passkeys(operator) if str(row.id) == which]
    for row in own:
        row.delete()
        audit.record_operator(operator, "operator.passkey_removed")
    return bool(own)


def shown(site: Site, *, state: State, answer: str) -> Shown | None:
    """Return the operator whose device answered; None for every other answer alike.

    A device that counts must have counted on: a copy of it has not.
    """
    try:
        sent = AuthenticationResponse.from_dict(_read(answer))
        row = _find(site, sent.raw_id)
        _check(row, site, state, sent)
    except (*_BROKEN, Passkey.DoesNotExist):
        return None
    data = sent.response.authenticator_data
    if (data.counter or row.signed) and data.counter <= row.signed:
        return None
    # Compare-and-set: of two that count alike one gets in.
    counted = _rows(row.operator).filter(id=row.id, signed=row.signed)
    if not counted.update(signed=data.counter, used_at=clock.now()):
        return None
    operator = Operator.objects.filter(id=row.operator, is_active=True).first()
    if operator is None:
        return None
    return Shown(operator=operator, verified=data.is_user_verified())


def _candidates(site: Site, name: str) -> list[bytes]:
    """The ids of a name's passkeys, among made-up ones.

    So that nobody learns by them who exists (WebAuthn, section 14.6.2).
    """
    # What can be nobody's name reaches no column.
    whose = operators.find(name) if names.valid(name) else None
    rows = _rows(whose.id).filter(host=site.host) if whose else Passkey.objects.none()
    found = [bytes(row.credential) for row in rows]
    for n in range(len(found), _CANDIDATES):
        text = f"{n} {site.host} {name}"
        found.append(salted_hmac(_SALT, text, algorithm="sha256").digest())
    return sorted(found)


def _find(site: Site, credential: bytes) -> Passkey:
    rows = Passkey.objects.using("keys")
    return rows.get(credential=credential, host=site.host)


def _check(
    row: Passkey, site: Site, state: State, sent: AuthenticationResponse
) -> None:
    """Raise one of _BROKEN unless the passkey signed this answer."""
    whose = sent.response.user_handle
    if whose is not None and whose != row.operator.bytes:
        raise ValueError
    public = cast("Mapping[int, Any]", cbor.decode(bytes(row.public)))
    key = CoseKey.parse(public)
    credential = AttestedCredentialData.create(bytes(16), sent.raw_id, key)
    _server(site).authenticate_complete(state, [credential], sent)


def _server(site: Site) -> Fido2Server:
    party = PublicKeyCredentialRpEntity(id=site.host, name="MemoryHub")
    server = Fido2Server(party, verify_origin=lambda origin: origin == site.origin)
    accepted = {kind.ALGORITHM for kind in _KINDS}
    server.allowed_algorithms = [
        kind for kind in server.allowed_algorithms if kind.alg in accepted
    ]
    return server


def _read(answer: str) -> Mapping[str, Any]:
    parsed = strict_json.parse(answer.encode(), limits=_LIMITS)
    if not isinstance(parsed, dict):
        raise TypeError
    return parsed


def _descriptor(credential: bytes) -> PublicKeyCredentialDescriptor:
    return PublicKeyCredentialDescriptor(
        type=PublicKeyCredentialType.PUBLIC_KEY, id=credential
    )


def _bounded(value: bytes, most: int) -> bytes:
    if not 0 < len(value) <= most:
        raise ValueError
    return value


def _name(sent: str) -> str:
    """What a person typed, on one line; something if they typed nothing."""
    plain = "".join(c if c.isprintable() else " " for c in sent)
    return " ".join(plain.split())[:MAX_NAME].strip() or "Passkey"


def _rows(operator: UUID) -> QuerySet[Passkey]:
    return Passkey.objects.using("keys").filter(operator=operator)
