"""Whole manifests of a thread's pages, for a model. Never writes."""

from __future__ import annotations

from typing import Any

from memoryhub.journal import texts
from memoryhub.kernel.context import manifest
from memoryhub.kernel.packing import selection
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.state.paging import Frame
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import contexts


def get_manifest(thread: Thread, state: ThreadState) -> dict[str, Any]:
    """Return the manifest as of a state, with every frame and the best pages to fetch.

    Unlike the manifest in a request, this manifest is not cut to a token budget.
    `thread` comes with its subject. Two queries, and one for texts of each thread of
    the lineage.
    """
    name = names.remove_subject(thread.name, thread.subject_id)
    options = PackingOptions(name=name, turn=state.turn_count)
    wanted = selection.build_packing_input(
        state, options, home=contexts.list_home(thread, state)
    )
    rows = wanted.available[: manifest.MAX_ROWS]
    opened = texts.open_texts(thread, [row.get_location(wanted.thread) for row in rows])
    listed = [
        manifest.build_available_page(row, text)
        for row in rows
        # A page whose text was erased meanwhile cannot be offered.
        if (text := opened.get(row.get_location(wanted.thread))) is not None
    ]
    return {
        "thread": name,
        "turn": state.turn_count,
        "mapped": wanted.mapped,
        "tokenizer": state.paging.settings.tokenizer,
        "working_set": [
            _build_frame(frame) for frame in state.paging.list_in_context_order()
        ],
        "available_pages": listed,
        "omitted": len(wanted.available) + wanted.unlisted - len(listed),
        "policies": {
            **wanted.policies._asdict(),
            "prefer_levels": manifest.PREFER_LEVELS,
        },
    }


def _build_frame(frame: Frame) -> dict[str, Any]:
    return {
        "page_id": frame.page_id,
        "modality": frame.entry.modality,
        "level": frame.level,
        "tokens_est": frame.tokens,
        "importance": frame.entry.importance,
    }
