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
from memoryhub.kernel.packing import context_records, packers, requests
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.state.pages import Location

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "contexts-pack-2.json"
#: Two turns for each API: with a picture, thoughts, two calls of which one has failed,
#: a page that came back, a manifest, and texts that were brought along.
RECORDED: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
THREAD = UUID(RECORDED["thread"])


def _open_row(row: dict[str, Any]) -> tuple[Location, OpenedPage]:
    fields = {name: row[name] for name in row if name not in ("seq", "level", "at")}
    at = datetime.fromisoformat(row["at"]) if "at" in row else None
    return Location(THREAD, row["seq"], row["level"]), OpenedPage(**fields, at=at)


@pytest.mark.parametrize("context", RECORDED["contexts"])
def test_old_packers_still_hash(context: dict[str, Any]) -> None:
    """The recordings are fixed: other bytes need another packer beside this one."""
    event = TurnPacked.model_validate_json(json.dumps(context["event"]))
    record = context_records.build_record(
        event, context["shown"], thread_name=RECORDED["name"], own=THREAD
    )
    record = requests.convert_record(record, context["format"])
    texts = dict(map(_open_row, RECORDED["texts"]))
    made = packers.PACKERS[record.packer].assemble(record, texts, thread=THREAD)
    assert hashlib.sha256(made).hexdigest() == context["sha256"]
