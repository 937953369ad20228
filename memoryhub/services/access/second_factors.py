"""Second factors: codes by time (RFC 6238), six digits every thirty seconds.

The secret lies wrapped in the keys database, as every key does; no code is taken twice.
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
#: Steps before and after the one at hand whose codes are taken: clocks differ.
_TOLERANCE = 1
#: So many may be wrong in a period, beside a right password.
WRONG_CODES: Final = 20
WRONG_PERIOD: Final = timedelta(hours=1)
_ISSUER = "MemoryHub"


def new_secret() -> bytes:
    return os.urandom(SECRET_BYTES)


def exists(operator: Operator) -> bool:
    """Return whether the operator has a second factor. One query."""
    return _rows(operator).exists()


def wanted(operator: Operator) -> bool:
    """Return whether the operator may do what a password alone should not open.

    One query.
    """
    roles = Membership.objects.filter(operator=operator).values_list("role", flat=True)
    return any(operators.allows(role, Membership.Role.OFFICER) for role in roles)


def add(operator: Operator, secret: bytes, code: str) -> None:
    """Require codes of this secret at the operator's sign-ins from now on.

    Raises InvalidError `exists` when there is another one, which is to be taken away
    first, and `code` unless a code shows that their device has it.
    """
    if exists(operator):
        raise InvalidError(code="exists", loc="code")
    step = _step_of(secret, code, after=0)
    if step is None:
        raise InvalidError(code="code", loc="code")
    kek = keyring.ring().current
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
    """Take the factor away; whether there was one. Told before it goes."""
    if not exists(operator):
        return False
    audit.record_operator(operator, "operator.factor_removed", actor=actor)
    gone, _ = _rows(operator).delete()
    return bool(gone)


def accepts(operator: Operator, code: str) -> bool:
    """Accept a code of the operator's, once, and return whether it is one.

    No code is taken for an hour once `WRONG_CODES` were wrong, from whatever addresses.
    """
    row = _rows(operator).first()
    if row is None or _locked(row):
        return False
    step = _step_of(_secret(row), code, after=row.last_step)
    if step is None:
        _count_wrong(row)
        return False
    # Compare-and-set: of two that show the same code one gets in.
    taken = _rows(operator).filter(last_step=row.last_step)
    return bool(taken.update(last_step=step, wrong=0))


def text_of(secret: bytes) -> str:
    """Return the secret as people type it into a device."""
    return base64.b32encode(secret).decode().rstrip("=")


def address_of(secret: bytes, operator: Operator) -> str:
    """Return the secret as devices read it (otpauth, Key URI Format)."""
    label = quote(f"{_ISSUER}:{operator.username}", safe="")
    query = {"secret": text_of(secret), "issuer": _ISSUER, "digits": DIGITS}
    return f"otpauth://totp/{label}?{urlencode(query)}"


def code_at(secret: bytes, step: int) -> str:
    """Return the code of a step (RFC 4226, section 5.3)."""
    digest = hmac.digest(secret, struct.pack(">Q", step), "sha1")
    start = digest[-1] & 0x0F
    value = struct.unpack(">I", digest[start : start + 4])[0] & 0x7FFFFFFF
    return f"{value % 10**DIGITS:0{DIGITS}}"


def _step_of(secret: bytes, code: str, *, after: int) -> int | None:
    """The step behind `after` whose code this is; takes as long whichever it is."""
    now, found = int(clock.time()) // STEP_SECONDS, None
    plain = "".join(code.split())
    for step in range(now - _TOLERANCE, now + _TOLERANCE + 1):
        same = hmac.compare_digest(code_at(secret, step).encode(), plain.encode())
        if same and step > after:
            found = step
    return found


def _secret(row: OperatorKey) -> bytes:
    kek = keyring.kek(row.kek_id)
    return unwrap(
        kek, bytes(row.wrapped), purpose=KeyPurpose.FACTOR, owner=row.operator
    )


def _locked(row: OperatorKey) -> bool:
    return row.wrong >= WRONG_CODES and not _forgiven(row)


def _forgiven(row: OperatorKey) -> bool:
    """Whether the first of the wrong codes is so long ago that they count no more."""
    return row.wrong_at is None or clock.now() - row.wrong_at > WRONG_PERIOD


def _count_wrong(row: OperatorKey) -> None:
    """Counted by the database, so that many at once are no way around it."""
    rows = OperatorKey.objects.using("keys").filter(operator=row.operator)
    if _forgiven(row):
        rows.filter(wrong_at=row.wrong_at).update(wrong=1, wrong_at=clock.now())
    else:
        rows.update(wrong=F("wrong") + 1)


def _rows(operator: Operator) -> QuerySet[OperatorKey]:
    return OperatorKey.objects.using("keys").filter(operator=operator.id)
