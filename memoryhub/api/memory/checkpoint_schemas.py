"""Checkpoints on the wire: taken, listed, compared, restored."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from memoryhub.api.document.fields import In, Limit, Name, Out, RefusedError, example
from memoryhub.api.document.memory_fields import CheckpointName, CheckpointRef, Remark
from memoryhub.api.document.samples import AT, UNTIL, measured
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.kernel.memory.checkpoint_events import COUNTED
from memoryhub.kernel.memory.nouns import MOVED, RESTORABLE, RESTORED, moved
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.memory.comparisons import Comparison
from memoryhub.queries.memory.nouns import COMPARED

if TYPE_CHECKING:
    RestoredPart = str
else:
    RestoredPart = Literal[RESTORABLE]

_CHECKPOINT_IN = {"name": "before-payment", "description": "The seat is held."}
CHECKPOINT = {
    **_CHECKPOINT_IN,
    "seq": 44,
    "at": AT,
    "auto": False,
    "parent": None,
    "keys": 2,
    **measured("checkpoint"),
    "touched": None,
}
_SIDE = {"seq": 41, "expires_at": UNTIL, "bytes": 64}
_COMPARISON = {
    "seq": 52,
    "keys": [
        {
            "key": "seat",
            "kind": "changed",
            "before": {**_SIDE, "value": None, "erased": False},
            "after": {
                "seq": 50,
                "expires_at": None,
                "bytes": 64,
                "value": None,
                "erased": False,
            },
        }
    ],
    "next": None,
    **{name: value for each in COMPARED for name, value in each.example.items()},
    "frames_in": ["slot-9"],
    "frames_out": ["slot-2"],
    "pins_in": [],
    "pins_out": [],
}


class CheckpointsQuery(AsOf, Pagination):
    name: Name | None = None
    auto: Literal["true", "false"] | None = None


class CompareQuery(AsOf, Pagination):
    a: CheckpointRef = Field(description="A checkpoint, or `head`.")
    b: CheckpointRef = Field("head", description="A checkpoint, or `head`.")
    values: Literal["true", "false"] = "false"
    limit: Limit = 200


class CheckpointIn(In):
    model_config = example(_CHECKPOINT_IN)

    name: CheckpointName | None = None
    description: Remark | None = None


class CheckpointOut(Out):
    model_config = example(CHECKPOINT)

    seq: int
    name: str | None
    description: str | None
    at: datetime
    auto: bool
    parent: int | None
    __annotations__ |= COUNTED
    touched: int | None = Field(description="Names; null: any, since the beginning.")

    @classmethod
    def of(cls, line: CheckpointLine) -> CheckpointOut:
        return cls.from_record(line, **line.counts)


class CheckpointsOut(Out):
    model_config = example({"items": [CHECKPOINT], "next": None})

    items: list[CheckpointOut]
    next: str | None


def _parts(parts: list[RestoredPart]) -> list[RestoredPart]:
    if not parts or len(set(parts)) < len(parts):
        raise RefusedError("value", allowed="at least one part, and each once")
    return parts


class RestoreIn(In):
    model_config = example({"parts": ["keys", "task"], "dry_run": False})

    parts: Annotated[list[RestoredPart], AfterValidator(_parts)] = list(RESTORED)
    dry_run: bool = Field(
        default=False, description="Only tell what would change; nothing is written."
    )


class SideOut(Out):
    """A key at one of the two moments."""

    seq: int = Field(validation_alias="version")
    expires_at: datetime | None
    bytes: int
    value: Any = Field(None, description="Null unless values were asked for.")
    erased: bool = Field(
        default=False, description="It was asked for, and is gone for good."
    )


class DifferenceOut(Out):
    key: str = Field(validation_alias="name")
    kind: Literal["added", "removed", "changed", "rewritten", "retimed"]
    before: SideOut | None
    after: SideOut | None


class CompareOut(Out):
    """What differs from `a` to `b`. The keys come in parts, the rest with each."""

    model_config = example(_COMPARISON)

    seq: int
    keys: list[DifferenceOut]
    next: str | None
    __annotations__ |= {n: kind for each in COMPARED for n, kind in each.fields.items()}
    frames_in: list[str]
    frames_out: list[str]
    pins_in: list[str]
    pins_out: list[str]

    @classmethod
    def of(cls, found: Comparison) -> CompareOut:
        keys = {"keys": found.keys.items, "next": found.keys.next}
        return cls.from_record(found, **keys, **found.slices)


class RestoredOut(Out):
    model_config = example(
        {
            "seq": 54,
            "parts": ["keys", "task"],
            "before": 53,
            "set": 1,
            "removed": 0,
            "expired": 0,
            **moved({}),
            "left_out": [],
            "comparison": None,
        }
    )

    seq: int | None = Field(description="Null when nothing differs, and on a dry run.")
    parts: list[RestoredPart]
    before: int | None = Field(description="The checkpoint whose restore undoes this.")
    set: int
    removed: int
    expired: int
    __annotations__ |= dict.fromkeys(MOVED, int)
    left_out: list[str] = Field(
        description="Pages of the working set that are gone since, and stay away."
    )
    comparison: CompareOut | None = Field(
        None, description="Of a dry run: what differs from now to the checkpoint."
    )
