"""Prefetch: pages that a turn prefetches whatever its question, and use counts."""

from __future__ import annotations

from typing import Any

from memoryhub.kernel.packing import selection
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.state.paging import Frame, Hot, list_values
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import own_tools
from memoryhub.vault.keys import blind_index, keys


def get_prefetch(thread: Thread, state: ThreadState) -> dict[str, Any]:
    """Return use counts of tools and claims, and the pages to prefetch, with reasons.

    A tool that the thread no longer defines has no name. One query, if the thread
    defines any tools; `thread` comes with its subject.
    """
    paging = state.paging
    name = names.remove_subject(thread.name, thread.subject_id)
    wanted = selection.build_packing_input(
        state, PackingOptions(name=name, turn=state.turn_count), home=()
    )
    held: list[Frame | Hot] = [*list_values(paging.frames), *list_values(paging.hot)]
    at = {entry.full.location: page for page, entry in paging.tlb.held.items()}
    at |= {each.entry.full.location: each.page_id for each in held}
    claims = [each for each in held if each.entry.type == "claim"]
    claims.sort(key=lambda each: (-each.references, -each.referenced_seq))
    named = _map_names(thread, state)
    return {
        "thread": name,
        "turn": state.turn_count,
        "tool_uses": [
            {
                "tool": named.get(tool.digest),
                "pages": [{"page_id": page, "reads": n} for page, n in tool.pages],
            }
            for tool in reversed(paging.tools)
        ],
        "claim_uses": [
            {"page_id": each.page_id, "references": each.references} for each in claims
        ],
        "coming": [
            {"page_id": at[each.place], "why": each.source}
            for each in selection.list_prefetched(wanted, state)
        ],
    }


def _map_names(thread: Thread, state: ThreadState) -> dict[str, str]:
    """Map the digest of each tool's name to the name, for the thread's tools."""
    if not state.paging.tools:
        return {}
    key = keys.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    defined = own_tools.get_own_tools(thread, state).definitions
    found = (str(each["function"]["name"]) for each in defined)
    return {blind_index.digest_lookup(key, "call", name).hex(): name for name in found}
