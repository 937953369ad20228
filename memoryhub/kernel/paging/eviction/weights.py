"""Weights: the tokens that a page takes in a working set.

Pure. A page's cost is the cost of its text with its own framing. A page from memory
also takes a call, whose result it is; a shortened message also says that it is short.
See decision 47.
"""

from __future__ import annotations

from memoryhub.kernel.state.pages import SYSTEM_PROMPT, PageEntry, is_system_prompt

#: Tokens, by any tokenizer of ours, of a call that brings a page, except its id.
_CALL = 88
#: Tokens of the note on a shortened message, and of the id of the call it answers.
_SHORTENED = {"tool": 48}
_SHORTENED_SPEECH = 16
#: Tokens of a result that is only named, except its id.
STUB = 72


def weigh_page(entry: PageEntry, level: int, *, recalled: bool) -> int:
    """Return the tokens of the page at this level; `recalled` as in `Frame`."""
    cost = entry.require_level(level).cost
    if is_system_prompt(entry):
        return cost
    if recalled or entry.slot is None:
        return cost + weigh_call(entry.page_id)
    shortened = _SHORTENED.get(entry.role or "", _SHORTENED_SPEECH)
    return cost + (shortened if level else 0)


def weigh_call(page_id: str) -> int:
    """Return the tokens of the call that fetches a page, without the page."""
    if page_id == SYSTEM_PROMPT:
        return 0
    return _CALL + len(page_id.encode())
