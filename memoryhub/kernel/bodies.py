"""What all event bodies are made of: pydantic, frozen, strict."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_by_name=True
    )


class Event(Body):
    """Base of all events; `sealed` ones carry a payload."""

    event_type: ClassVar[str]
    sealed: ClassVar[bool] = False
