"""Bundles: what stands in a subject's export, and bodies that move to other ids. Pure.

An export names threads and the subject by ids of its instance. An import gives each a
new one, wherever a body names it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

FORMAT: Final = "memoryhub.subject/2"
MANIFEST: Final = "manifest.json"
EVENTS: Final = "events.jsonl"
#: Of the import: more is no export of ours.
MOST_ENTRIES: Final = 10_000
MOST_BYTES: Final = 4 * 2**30
MOST_RATIO: Final = 100
#: Below it a bundle is no bomb, however well it was packed.
SMALL_BYTES: Final = 16 * 2**20

#: Lists in whose items ids of threads stand, by field: at which places.
_LISTS: Final = {"refs": (3, 8), "ranges": (0,)}
#: Fields of body models that hold ids of other things than threads and subjects.
OTHER_IDS: Final = frozenset({"erasure"})


class ManifestPart(BaseModel):
    """Part of a manifest; exactly as it was written, or it is none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Whom(ManifestPart):
    """The subject of a bundle."""

    id: UUID
    #: As its application knows it; None for the anonymous subject.
    user_id: str | None
    anonymous: bool
    state: str
    basis: str
    generation: int
    created_at: datetime
    holds: list[dict[str, str | None]]


class CutThread(ManifestPart):
    """A thread, and up to where it is in the bundle."""

    thread: UUID
    name: str
    status: str
    head_seq: int = Field(ge=1)
    head_hash: str
    #: Of a fork: where it goes on from.
    parent: UUID | None = None
    parent_seq: int | None = None


class File(ManifestPart):
    """A file of the bundle."""

    path: str
    #: Lines, events shown or, of a document, one.
    records: int = Field(ge=0)
    bytes: int = Field(ge=0)
    #: Hex.
    sha256: str
    #: The file that says what a line looks like.
    described_by: str | None = Field(None, alias="schema")


class Signature(ManifestPart):
    key_id: str
    #: Hex of an Ed25519 signature of the rest: canonical JSON of all other members.
    sig: str


class Manifest(ManifestPart):
    """What a bundle holds, and who vouches for it."""

    format: Literal["memoryhub.subject/2"]
    instance: UUID
    exported_at: datetime
    subject: Whom
    #: Parents before their forks.
    cut: list[CutThread]
    files: list[File]
    #: Events whose content was erased.
    erased: int = Field(ge=0)
    signature: Signature


def moved(
    model: type[BaseModel], body: dict[str, Any], change: Callable[[str], str]
) -> dict[str, Any]:
    """Return `model`'s JSON body, each id of a thread or subject through `change`."""
    ids, nested = _places(model)
    changed = dict(body)
    for field in ids:
        if found := changed.get(field):
            changed[field] = change(found)
    for field, places in _LISTS.items():
        for place in places if field in changed else ():
            changed[field] = [_at(row, place, change) for row in changed[field]]
    for field, inner in nested:
        if found := changed.get(field):
            changed[field] = _inside(inner, found, change)
    return changed


def _at(row: list[Any], place: int, change: Callable[[str], str]) -> list[Any]:
    if len(row) <= place or row[place] is None:
        return row
    return [*row[:place], change(row[place]), *row[place + 1 :]]


def _inside(model: type[BaseModel], value: Any, change: Callable[[str], str]) -> Any:
    """A model, or a list of them with gaps."""
    if isinstance(value, list):
        return [_inside(model, each, change) for each in value]
    return None if value is None else moved(model, value, change)


@cache
def _places(
    model: type[BaseModel],
) -> tuple[tuple[str, ...], tuple[tuple[str, type[BaseModel]], ...]]:
    """Names of the fields that hold such an id, and of those that hold models."""
    ids, nested = [], []
    for field, info in model.model_fields.items():
        name = info.serialization_alias or info.alias or field
        parts = _parts(info.annotation)
        named = UUID in parts or field == "thread"
        if named and field not in OTHER_IDS and field not in _LISTS:
            ids.append(name)
        nested += [
            (name, part)
            for part in parts
            if isinstance(part, type) and issubclass(part, BaseModel)
        ]
    return tuple(ids), tuple(nested)


def _parts(annotation: Any) -> list[Any]:
    """All that an annotation is made of."""
    return [annotation, *(p for arg in get_args(annotation) for p in _parts(arg))]
