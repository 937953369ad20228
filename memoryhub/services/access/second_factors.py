"""Second factors: time-based codes (RFC 6238), six digits every thirty seconds.

The keys database stores the secret wrapped, as every key; no code is accepted twice.
See decisions 24 and 53.
"""

from __future__ import annotations

import base64
import hmac
import os
import struct
from datetime import timedelta
from typing import Final
from urllib.parse import quote, urlencode

from django.db.models import F, QuerySet

from memoryhub.errors import InvalidError
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.keys import OperatorKey
from memoryhub.models.server.clock import clock
from memoryhub.services.access import audit, operators
from memoryhub.vault.keys import keyring
from memoryhub.vault.keys.wrapping import KeyPurpose, unwrap, wrap

STEP_SECONDS: Final = 30
DIGITS: Final = 6
SECRET_BYTES: Final = 32
#: Accepted steps before and after the present one, as clocks differ.
_TOLERANCE = 1
#: Wrong codes allowed in a period after a right password.
WRONG_CODES: Final = 20
WRONG_PERIOD: Final = timedelta(hours=1)
_ISSUER = "MemoryHub"


def generate_secret() -> bytes:
    """Generate a random secret of 32 bytes."""
    return os.urandom(SECRET_BYTES)


def has_factor(operator: Operator) -> bool:
    """Return whether the operator has a second factor. One query."""
    return _filter_factors(operator).exists()


def needs_factor(operator: Operator) -> bool:
    """Return whether the operator's roles need a second factor: officer or above.

    One query.
    """
    roles = Membership.objects.filter(operator=operator).values_list("role", flat=True)
    return any(
        operators.is_role_at_least(role, Membership.Role.OFFICER) for role in roles
    )


def add(operator: Operator, secret: bytes, code: str) -> None:
    """Require codes of this secret at the operator's sign-ins from now on.

    Raises InvalidError `exists` when the operator has a factor already, which must be
    removed first, and `code` unless the code proves that the operator's device has the
    secret.
    """
    if has_factor(operator):
        raise InvalidError(code="exists", loc="code")
    step = _find_step(secret, code, after=0)
    if step is None:
        raise InvalidError(code="code", loc="code")
    kek = keyring.get_ring().current
    wrapped = wrap(kek, secret, purpose=KeyPurpose.FACTOR, owner=operator.id)
    OperatorKey.objects.using("keys").create(
        operator=operator.id,
        kek_id=kek.id,
        wrapped=wrapped,
        last_step=step,
        created_at=clock.now(),
    )
    audit.record_operator(operator, "operator.factor_added")


def remove(operator: Operator, *, actor: str = "") -> bool:
    """Remove the operator's factor; returns whether one existed.

    The audit entry is written before the factor is deleted.
    """
    if not has_factor(operator):
        return False
    audit.record_operator(operator, "operator.factor_removed", actor=actor)
    gone, _ = _filter_factors(operator).delete()
    return bool(gone)


def use_code(operator: Operator, code: str) -> bool:
    """Use a code of the operator's once; returns whether the code was right.

    After `WRONG_CODES` wrong codes, from any addresses, every code is refused for an
    hour.
    """
    row = _filter_factors(operator).first()
    if row is None or _is_locked(row):
        return False
    step = _find_step(_unwrap_secret(row), code, after=row.last_step)
    if step is None:
        _count_wrong_code(row)
        return False
    # Compare-and-set: of two requests with the same code one succeeds.
    taken = _filter_factors(operator).filter(last_step=row.last_step)
    return bool(taken.update(last_step=step, wrong=0))


def to_base32(secret: bytes) -> str:
    """Encode the secret in base32, to be typed into a device."""
    return base64.b32encode(secret).decode().rstrip("=")


def build_otpauth_uri(secret: bytes, operator: Operator) -> str:
    """Build the secret's otpauth URI for devices to scan (Key URI Format)."""
    label = quote(f"{_ISSUER}:{operator.username}", safe="")
    query = {"secret": to_base32(secret), "issuer": _ISSUER, "digits": DIGITS}
    return f"otpauth://totp/{label}?{urlencode(query)}"


def compute_code(secret: bytes, step: int) -> str:
    """Compute the code of a step (RFC 4226, section 5.3)."""
    digest = hmac.digest(secret, struct.pack(">Q", step), "sha1")
    start = digest[-1] & 0x0F
    value = struct.unpack(">I", digest[start : start + 4])[0] & 0x7FFFFFFF
    return f"{value % 10**DIGITS:0{DIGITS}}"


def _find_step(secret: bytes, code: str, *, after: int) -> int | None:
    """Find the step later than `after` that has this code, in constant time."""
    now, found = int(clock.time()) // STEP_SECONDS, None
    plain = "".join(code.split())
    for step in range(now - _TOLERANCE, now + _TOLERANCE + 1):
        same = hmac.compare_digest(compute_code(secret, step).encode(), plain.encode())
        if same and step > after:
            found = step
    return found


def _unwrap_secret(row: OperatorKey) -> bytes:
    """Unwrap the operator's secret."""
    kek = keyring.get_kek(row.kek_id)
    return unwrap(
        kek, bytes(row.wrapped), purpose=KeyPurpose.FACTOR, owner=row.operator
    )


def _is_locked(row: OperatorKey) -> bool:
    """Return whether too many wrong codes lock the factor."""
    return row.wrong >= WRONG_CODES and not _has_period_ended(row)


def _has_period_ended(row: OperatorKey) -> bool:
    """Return whether the wrong codes are old enough to count no more."""
    return row.wrong_at is None or clock.now() - row.wrong_at > WRONG_PERIOD


def _count_wrong_code(row: OperatorKey) -> None:
    """Count a wrong code in the database, so that parallel tries are counted too."""
    rows = OperatorKey.objects.using("keys").filter(operator=row.operator)
    if _has_period_ended(row):
        rows.filter(wrong_at=row.wrong_at).update(wrong=1, wrong_at=clock.now())
    else:
        rows.update(wrong=F("wrong") + 1)


def _filter_factors(operator: Operator) -> QuerySet[OperatorKey]:
    """Filter the factor of an operator."""
    return OperatorKey.objects.using("keys").filter(operator=operator.id)
