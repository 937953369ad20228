"""Contexts as they were recorded once: the same bytes for ever, whoever packs today."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from uuid import UUID

from memoryhub.kernel.levels.contexts import (
    FrameRow,
    Manifest,
    Policies,
    Record,
    Row,
    Section,
)
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.packing import packers
from memoryhub.kernel.state.pages import Location

GOLDEN = Path(__file__).parent.parent.parent / "golden"


def texts_of(plain: list[dict[str, Any]]) -> dict[Location, Opened]:
    found = {}
    for each in plain:
        thread, seq, level = each.pop("place")
        found[Location(UUID(thread), seq, level)] = Opened(**each)
    return found


def record_in(plain: dict[str, Any]) -> Record:
    """A record as the golden file has it: rows and refs are lists."""
    manifest = plain.pop("manifest")
    sections = tuple(Section.of(section) for section in plain.pop("sections"))
    return Record(
        **plain, sections=sections, manifest=manifest and manifest_in(manifest)
    )


def manifest_in(plain: dict[str, Any]) -> Manifest:
    listed = {
        "policies": Policies(*plain["policies"]),
        "frames": tuple(FrameRow(*frame) for frame in plain["frames"]),
        "rows": tuple(Row(*row) for row in plain["rows"]),
    }
    return Manifest(**(plain | listed))


def test_recorded_pack_1_still_hashes() -> None:
    """With each mode, both forms of the tools, cuts, parts, levels and a parent's."""
    recorded = json.loads((GOLDEN / "pack-1.json").read_text())
    texts, thread = texts_of(recorded["texts"]), UUID(recorded["thread"])
    for each in recorded["contexts"]:
        record = record_in(each["record"])
        assert record.packer == "pack/1"
        made = packers.ASSEMBLE[record.packer](record, texts, thread=thread)
        assert hashlib.sha256(made).hexdigest() == each["sha256"]
        assert len(made) == record.bytes
