"""Weights: what a page takes of a working set.

Pure. A cost is that of a page's text with its own framing; what memory brings stands as
the result of a call as well, and what is shortened says so.
"""

from __future__ import annotations

from memoryhub.kernel.state.pages import SYSTEM_PROMPT, Entry, system_prompt

#: Tokens, by any tokenizer of ours, of a call that brings a page, but for its id.
_CALL = 88
#: Of what says that a message was shortened, and of the id of the call it answers.
_SHORTENED = {"tool": 48}
_SHORTENED_SPEECH = 16
#: Of a result that is only named, but for its id.
STUB = 72


def weight(entry: Entry, level: int, *, recalled: bool) -> int:
    """Return the tokens of the page at this level; `recalled` as in `Frame`."""
    cost = entry.at(level).cost
    if system_prompt(entry):
        return cost
    if recalled or entry.slot is None:
        return cost + fetching(entry.page_id)
    shortened = _SHORTENED.get(entry.role or "", _SHORTENED_SPEECH)
    return cost + (shortened if level else 0)


def fetching(page_id: str) -> int:
    """Return the tokens of the call that fetches a page, beside the page."""
    if page_id == SYSTEM_PROMPT:
        return 0
    return _CALL + len(page_id.encode())
