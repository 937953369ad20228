"""Bundle passes: source ids become target ids in every event body."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from pydantic import BaseModel

from memoryhub.kernel.formats import bundles
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.state.context_bodies import SectionBody
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.services.export.bundle_passes import BundleIds

#: Fields whose name or type says id, and what becomes of each.
MOVED = {
    "ThreadCreated.subject",
    "ThreadForked.subject",
    "ThreadForked.parent",
    "PlaceBody.thread",
    "ExchangeConsolidated.thread",
    "ExchangeRequested.thread",
    "ExchangeRetried.thread",
    "MarkBody.thread",
    "LevelBody.thread",
    "OfferedBody.thread",
    "SectionBody.refs",
    "RecordsErased.ranges",
}
#: A field of the fork's own history, made anew by the import.
REMADE = {"ThreadForked.parent_chain"}
#: Fields left alone: erasures stay with their instance, and parts are numbers.
LEFT = {"ThreadErased.erasure", "RecordsErased.erasure", "PageFaulted.parts"}


def models() -> set[type[BaseModel]]:
    found: set[type[BaseModel]] = set()
    waiting: list[type[BaseModel]] = [*TYPES.values()]
    while waiting:
        model = waiting.pop()
        if model not in found:
            found.add(model)
            waiting += [inner for _, inner in bundles._list_id_places(model)[1]]
    return found


def looks_like_an_id(field: str, annotation: Any) -> bool:
    words = ("thread", "subject", "chain", "erasure", "project", "instance")
    listed = "list[typing.Any]" in str(annotation)
    return UUID in bundles._list_parts(annotation) or field in words or listed


def test_every_id_field_of_a_body_is_known() -> None:
    """Fail for a new id field, which an import would leave unmapped."""
    found = {
        f"{model.__name__}.{field}"
        for model in models()
        for field, info in model.model_fields.items()
        if looks_like_an_id(field, info.annotation) or field == "parent_chain"
    }
    assert found == MOVED | REMADE | LEFT


def test_every_moved_field_is_mapped() -> None:
    by_name = {model.__name__: model for model in models()}
    for each in MOVED:
        model, _, field = each.partition(".")
        ids, _ = bundles._list_id_places(by_name[model])
        assert field in ids or field in bundles._LISTS, each


def test_ids_are_mapped_at_any_depth() -> None:
    own, other, subject = (str(uuid4()) for _ in range(3))
    ids = BundleIds(
        project=uuid4(),
        subject=uuid4(),
        subject_in_bundle=subject,
        threads={own: uuid4()},
    )
    refs = [[1, 0], [2, 1, None, own], [3, 0, 5, None, True]]
    body = {
        # A name that looks like an id is still a name.
        "packer": own,
        "sections": [{"name": own, "bytes": 1, "tokens": 1, "refs": refs}],
    }
    moved = bundles.move_ids(TurnPacked, body, ids.map_id)
    assert moved["packer"] == own
    (section,) = moved["sections"]
    assert section["name"] == own
    assert section["refs"] == [refs[0], [2, 1, None, str(ids.threads[own])], refs[2]]
    assert body["sections"][0]["refs"] == refs  # type: ignore[index]  # as above
    with pytest.raises(KeyError):
        bundles.move_ids(SectionBody, {"refs": [[1, 0, None, other]]}, ids.map_id)
    assert orjson.dumps(moved)
