from __future__ import annotations

import pytest

from memoryhub.errors import ErasuresToReplayError
from memoryhub.services.forget.maintenance import Maintenance


def test_maintenance_refuses_while_erasures_wait() -> None:
    standstill = Maintenance()
    standstill.require_none()
    standstill.waiting = 3
    with pytest.raises(ErasuresToReplayError) as refusal:
        standstill.require_none()
    assert refusal.value.detail == {"erasures": 3}


def test_maintenance_refusal_is_one_line_with_the_remedy() -> None:
    said = Maintenance().refusal_text.decode()
    assert said.startswith("erasures_to_replay: ")
    assert "forget --replay" in said
    assert said.count("\n") == 1
