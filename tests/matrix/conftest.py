from __future__ import annotations

import pytest

from memoryhub.api.http import auth, limits


@pytest.fixture(autouse=True)
def fresh_accounts() -> None:
    """Forget cached keys and used quotas."""
    auth.forget()
    limits.account = limits.UsageAccount()
