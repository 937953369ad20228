"""Bodies of what a request was made of. Pydantic, frozen, strict."""

from __future__ import annotations

from typing import Any

from memoryhub.kernel.bodies import Body
from memoryhub.kernel.names import Name
from memoryhub.kernel.pages import Level, Modality, Tier


class SectionBody(Body):
    """A part of a request: `contexts.Section`."""

    name: str
    bytes: int
    tokens: int
    #: As `contexts.Ref` has them.
    refs: list[list[Any]]


class OfferedBody(Body):
    """A page that the manifest offers: `contexts.Row`."""

    page_id: Name
    tier: Tier
    levels: str
    seq: int
    key: int = 0
    thread: str | None = None


class ShownBody(Body):
    """A frame below FULL, as the manifest tells of it: `contexts.FrameRow`."""

    page_id: Name
    modality: Modality
    level: Level
    tokens: int
    importance: float


class ManifestBody(Body):
    """What the manifest said: `contexts.Manifest`, but for the thread's name."""

    turn: int
    mapped: int
    #: Faults allowed, faults a turn, faults left, fault tokens left.
    policies: list[bool | int]
    frames: list[ShownBody]
    rows: list[OfferedBody]
    omitted: int
