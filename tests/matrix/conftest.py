from __future__ import annotations

import pytest

from memoryhub.api.http import auth, limits


@pytest.fixture(autouse=True)
def fresh_accounts() -> None:
    """Nobody's key is known and nobody has used up anything."""
    auth.forget()
    limits.account = limits.Limits()
