"""Weights: what a page takes of a working set, by how its thread's requests speak.

Pure. A cost is that of a page's text with its own framing; in a conversation, what
memory brings stands as the result of a call as well, and what is shortened says so.
"""

from __future__ import annotations

from memoryhub.kernel.state.pages import SYSTEM_PROMPT, Entry, system_prompt
from memoryhub.kernel.state.paging_config import Settings

#: Tokens, by any tokenizer of ours, of a call that brings a page, but for its id.
_CALL = 88
#: Of what says that a message was shortened, and of the id of the call it answers.
_SHORTENED = {"tool": 48}
_SHORTENED_SPEECH = 16
#: Of a result that is only named, but for its id.
STUB = 72


def weight(settings: Settings, entry: Entry, level: int, *, recalled: bool) -> int:
    """Return the tokens of the page at this level; `recalled` as in `Frame`."""
    cost = entry.at(level).cost
    if settings.layout == "developer" or system_prompt(entry):
        return cost
    if recalled or entry.slot is None:
        return cost + fetching(settings, entry.page_id)
    shortened = _SHORTENED.get(entry.role or "", _SHORTENED_SPEECH)
    return cost + (shortened if level else 0)


def fetching(settings: Settings, page_id: str) -> int:
    """Return the tokens of the call that fetches a page, beside the page."""
    if settings.layout == "developer" or page_id == SYSTEM_PROMPT:
        return 0
    return _CALL + len(page_id.encode())
