"""Acts on pages on the wire: faults, maps, pins, and what they did."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from memoryhub.api.document.fields import In, LevelNumber, Out, counted, example, within
from memoryhub.api.document.samples import PLACE
from memoryhub.api.paging.page_schemas import ENVELOPE, By, EnvelopeOut
from memoryhub.kernel.levels.tools import LEAST
from memoryhub.kernel.state.page_events import Reason
from memoryhub.kernel.state.pages import Tier
from memoryhub.kernel.text.strict_json import MAX_INTEGER

Offset = Annotated[int, within(0, MAX_INTEGER), counted(0, MAX_INTEGER)]
PartLimit = Annotated[int, within(LEAST, MAX_INTEGER), counted(LEAST, MAX_INTEGER)]

_EFFECTS = {
    "promoted_to_working_set": True,
    "tokens_est": 16,
    "evictions": [],
    "faults_left": 2,
    "fault_tokens_left": 8176,
    "offset": None,
    "next_offset": None,
}


class FaultIn(In):
    model_config = example({"level": 2, "reason": "user_requested_recall"})

    level: LevelNumber | None = Field(
        None, description="2 without it; with `offset` or `limit` it is 0."
    )
    offset: Offset | None = Field(
        None, description="Serve a part of FULL: tokens to skip, or a `next_offset`."
    )
    limit: PartLimit | None = Field(
        None, description="Tokens of the part; without it as many as fit."
    )
    reason: Reason = "resolve_reference"
    by: By = "tool"


class MapIn(In):
    model_config = example({"level": 0})

    level: LevelNumber = 0
    by: By = "tool"


class ActIn(In):
    model_config = example({})

    by: By = "tool"


class ReferenceIn(In):
    model_config = example({"how": "cited"})

    how: Literal["cited", "read"] = "read"
    by: By = "tool"


class EffectOut(Out):
    """What stands where after a command of paging."""

    model_config = example(
        {
            **PLACE,
            "seq": 15,
            "page_id": "fare-rules",
            "tier": "L0",
            "level": 0,
            "pinned": True,
            "evictions": [],
        }
    )

    thread: str
    thread_id: UUID
    seq: int
    page_id: str
    tier: Tier
    level: int | None = Field(description="As it is mapped; null when it is not.")
    pinned: bool
    evictions: list[str]


class EffectsOut(Out):
    promoted_to_working_set: bool
    tokens_est: int
    evictions: list[str]
    faults_left: int
    fault_tokens_left: int
    offset: int | None = Field(description="Of a part that was served, in tokens.")
    next_offset: int | None = Field(
        description="Where the next part begins; null behind the last."
    )


class FaultOut(Out):
    model_config = example({"page": ENVELOPE, "effects": _EFFECTS})

    page: EnvelopeOut
    effects: EffectsOut
