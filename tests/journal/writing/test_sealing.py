from __future__ import annotations

from typing import Annotated

import pytest
from django.core.checks import run_checks
from pydantic import Field

from memoryhub.journal.writing.sealing import every_page_can_go
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.state.bodies import ClientChosen, EventBody, Token
from memoryhub.kernel.text.names import Name


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (Name, False),
        (Name | None, False),
        (Token, False),
        (str, True),
        (Annotated[str, ClientChosen()], True),
        (Annotated[Name, Field(alias="page")], True),
    ],
)
@pytest.mark.parametrize("field", ["page_id", "carries"])
def test_system_check_refuses_a_page_that_no_erasure_blanks(
    monkeypatch: pytest.MonkeyPatch, field: str, kind: object, *, refused: bool
) -> None:
    planted = type(
        "Planted",
        (EventBody,),
        {
            "__annotations__": {field: kind},
            "__module__": __name__,
            "event_type": "page.planted",
        },
    )
    assert every_page_can_go() == []
    monkeypatch.setitem(TYPES, "page.planted", planted)
    found = [each for each in run_checks() if each.id == "memoryhub.E004"]
    assert found == every_page_can_go()
    assert [each.is_serious() for each in found] == [True] * refused
