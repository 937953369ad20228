"""Prefetch: what a turn would bring along whatever it is asked, and by what counts."""

from __future__ import annotations

from typing import Any

from memoryhub.kernel.packing import selection
from memoryhub.kernel.packing.selection import Options
from memoryhub.kernel.state.paging import Frame, Hot, values
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import own_tools
from memoryhub.vault.keys import blind_index, keys


def get_prefetch(thread: Thread, state: ThreadState) -> dict[str, Any]:
    """Return what is counted of tools and claims, and what would come now, and why.

    A tool that the thread does not define any more has no name. One query, if it
    defines any; `thread` comes with its subject.
    """
    paging = state.paging
    name = names.called(thread.name, thread.subject_id)
    wanted = selection.wanted(state, Options(name=name, turn=state.turn_count), home=())
    held: list[Frame | Hot] = [*values(paging.frames), *values(paging.hot)]
    at = {entry.full.location: page for page, entry in paging.tlb.held.items()}
    at |= {each.entry.full.location: each.page_id for each in held}
    claims = [each for each in held if each.entry.type == "claim"]
    claims.sort(key=lambda each: (-each.references, -each.referenced_seq))
    named = _names(thread, state)
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
            for each in selection.prefetched(wanted, state)
        ],
    }


def _names(thread: Thread, state: ThreadState) -> dict[str, str]:
    """By the digest of its name, each tool that the thread defines."""
    if not state.paging.tools:
        return {}
    key = keys.subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    defined = own_tools.of(thread, state).definitions
    found = (str(each["function"]["name"]) for each in defined)
    return {blind_index.lookup(key, "call", name).hex(): name for name in found}
