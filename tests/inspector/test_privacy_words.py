"""Words of the console: each that the engine may say is told on the screens."""

from __future__ import annotations

from typing import get_args

from inspector import forgetting
from inspector.views import subject_acts
from memoryhub.kernel.erase_events import Reason
from memoryhub.models.erasures import Erasure, Hold
from memoryhub.services import receipts, restrictions


def test_every_choice_of_the_engine_is_offered() -> None:
    assert set(forgetting.SCOPES) == set(Erasure.Scope.values)
    assert set(forgetting.REASONS) == set(get_args(Reason))
    assert set(subject_acts.HOLDS) == set(Hold.Basis.values)
    assert set(subject_acts.RESTRICTIONS) == set(restrictions.BASES)


def test_every_word_of_a_receipt_is_told() -> None:
    assert set(receipts.RESIDUE) <= forgetting.RESIDUE.keys()
    ways = {control for control, _ in receipts.RESIDUE.values()}
    ends = {until for _, until in receipts.RESIDUE.values()} - {"backup", "keys"}
    assert ways <= forgetting.CONTROL.keys()
    assert ends <= forgetting.UNTIL.keys()
    assert {each.reason for each in receipts.RETAINED} <= forgetting.KEPT.keys()
    assert {each.what for each in receipts.RETAINED} == forgetting.STAYS.keys()
