"""Bundles: the manifest of a subject's export, and bodies moved to new ids. Pure.

An export names threads and the subject by ids of its instance. An import gives each
thread and the subject a new id, wherever a body names the old one.
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
#: Limits of an import; an export of ours never exceeds them.
MOST_ENTRIES: Final = 10_000
MOST_BYTES: Final = 4 * 2**30
MOST_RATIO: Final = 100
#: Unpacked size below which the compression ratio is not checked.
SMALL_BYTES: Final = 16 * 2**20

#: List fields whose items contain thread ids, with the ids' indexes in an item.
_LISTS: Final = {"refs": (3, 8), "ranges": (0,)}
#: Fields of body models with ids of other things than threads and subjects.
OTHER_IDS: Final = frozenset({"erasure"})


class ManifestPart(BaseModel):
    """Part of a manifest, read only exactly as it was written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BundleSubject(ManifestPart):
    """The subject of a bundle."""

    id: UUID
    #: The application's id of the subject; None for the anonymous subject.
    user_id: str | None
    anonymous: bool
    state: str
    basis: str
    generation: int
    created_at: datetime
    holds: list[dict[str, str | None]]


class CutThread(ManifestPart):
    """A thread, and the last event of it in the bundle."""

    thread: UUID
    name: str
    status: str
    head_seq: int = Field(ge=1)
    head_hash: str
    #: Parent thread of a fork, and the seq of the parent where the fork begins.
    parent: UUID | None = None
    parent_seq: int | None = None


class BundleFile(ManifestPart):
    """A file of the bundle."""

    path: str
    #: Number of lines or shown events; 1 for a document.
    records: int = Field(ge=0)
    bytes: int = Field(ge=0)
    #: Hex.
    sha256: str
    #: Path of the file that describes a line.
    described_by: str | None = Field(None, alias="schema")


class BundleSignature(ManifestPart):
    key_id: str
    #: Hex of an Ed25519 signature of the rest: canonical JSON of all other members.
    sig: str


class BundleManifest(ManifestPart):
    """Contents of a bundle, with their signature."""

    format: Literal["memoryhub.subject/2"]
    instance: UUID
    exported_at: datetime
    subject: BundleSubject
    #: Parents before their forks.
    cut: list[CutThread]
    files: list[BundleFile]
    #: Events whose content was erased.
    erased: int = Field(ge=0)
    signature: BundleSignature


def move_ids(
    model: type[BaseModel], body: dict[str, Any], change: Callable[[str], str]
) -> dict[str, Any]:
    """Return a JSON body of `model`, its thread and subject ids changed by `change`."""
    ids, nested = _list_id_places(model)
    changed = dict(body)
    for field in ids:
        if found := changed.get(field):
            changed[field] = change(found)
    for field, places in _LISTS.items():
        for place in places if field in changed else ():
            changed[field] = [_change_at(row, place, change) for row in changed[field]]
    for field, inner in nested:
        if found := changed.get(field):
            changed[field] = _move_inside(inner, found, change)
    return changed


def _change_at(row: list[Any], place: int, change: Callable[[str], str]) -> list[Any]:
    if len(row) <= place or row[place] is None:
        return row
    return [*row[:place], change(row[place]), *row[place + 1 :]]


def _move_inside(
    model: type[BaseModel], value: Any, change: Callable[[str], str]
) -> Any:
    """Move the ids in a model, or in a list of models with gaps."""
    if isinstance(value, list):
        return [_move_inside(model, each, change) for each in value]
    return None if value is None else move_ids(model, value, change)


@cache
def _list_id_places(
    model: type[BaseModel],
) -> tuple[tuple[str, ...], tuple[tuple[str, type[BaseModel]], ...]]:
    """Return the names of the fields with such an id, and of the fields with models."""
    ids, nested = [], []
    for field, info in model.model_fields.items():
        name = info.serialization_alias or info.alias or field
        parts = _list_parts(info.annotation)
        named = UUID in parts or field == "thread"
        if named and field not in OTHER_IDS and field not in _LISTS:
            ids.append(name)
        nested += [
            (name, part)
            for part in parts
            if isinstance(part, type) and issubclass(part, BaseModel)
        ]
    return tuple(ids), tuple(nested)


def _list_parts(annotation: Any) -> list[Any]:
    """Return an annotation and all its arguments, at any depth."""
    return [annotation, *(p for arg in get_args(annotation) for p in _list_parts(arg))]
