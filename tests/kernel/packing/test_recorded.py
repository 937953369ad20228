"""Recorded contexts from before: their packers still make the same bytes."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.messages.message import Vendor
from memoryhub.kernel.packing import context_records, packers, requests
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.state.pages import Location

GOLDEN = Path(__file__).parent.parent.parent / "golden"
#: Two turns for each API: with a picture, thoughts, two calls of which one has failed,
#: a page that came back, a manifest, and texts that were brought along.
RECORDED: dict[str, Any] = json.loads((GOLDEN / "contexts-pack-2.json").read_bytes())
#: The same turns by `pack/3`, where the model thinks and speaks between its calls: the
#: text that differs, and a context's number, API and hash.
NEWER: dict[str, Any] = json.loads((GOLDEN / "contexts-pack-3.json").read_bytes())
THREAD = UUID(RECORDED["thread"])


def _open_row(row: dict[str, Any]) -> tuple[Location, OpenedPage]:
    fields = {name: row[name] for name in row if name not in ("seq", "level", "at")}
    at = datetime.fromisoformat(row["at"]) if "at" in row else None
    return Location(THREAD, row["seq"], row["level"]), OpenedPage(**fields, at=at)


def _hash_request(
    context: dict[str, Any], shape: Vendor, rows: list[dict[str, Any]], **event: Any
) -> str:
    turn = TurnPacked.model_validate_json(json.dumps({**context["event"], **event}))
    record = context_records.build_record(
        turn, context["shown"], thread_name=RECORDED["name"], own=THREAD
    )
    record = requests.convert_record(record, shape)
    texts = dict(map(_open_row, rows))
    made = packers.PACKERS[record.packer].assemble(record, texts, thread=THREAD)
    return hashlib.sha256(made).hexdigest()


@pytest.mark.parametrize("context", RECORDED["contexts"])
def test_old_packers_still_hash(context: dict[str, Any]) -> None:
    """The recordings are fixed: other bytes need another packer beside this one."""
    found = _hash_request(context, context["format"], RECORDED["texts"])
    assert found == context["sha256"]


@pytest.mark.parametrize("recorded", NEWER["contexts"])
def test_requests_of_version_3_still_hash(recorded: dict[str, Any]) -> None:
    rows = [*RECORDED["texts"], *NEWER["texts"]]
    context = RECORDED["contexts"][recorded["context"]]
    found = _hash_request(context, recorded["format"], rows, packer="pack/3")
    assert found == recorded["sha256"]
