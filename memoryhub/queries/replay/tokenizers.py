"""Tokenizers: who counts the tokens of a thread.

`est/1` is always at hand; others come with an extra and are loaded when first needed.
A thread of one that is not run here is counted by its agent, and estimated beside that.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from threading import Lock
from types import MappingProxyType

import orjson
import structlog

from memoryhub.kernel.levels import making
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import EST, Count, Tokenizer
from memoryhub.kernel.state.paging_config import ESTIMATED, TOKENIZERS
from memoryhub.models.threads import Thread

log = structlog.get_logger()

#: Modules of tokenizers that an extra brings: each has `load() -> Count`.
ADAPTERS: Mapping[str, str] = MappingProxyType(
    {"o200k_base": "memoryhub.queries.replay.o200k"}
)

assert {ESTIMATED, *ADAPTERS} == set(TOKENIZERS)

_loading = Lock()
#: Those that were asked for; None is one that can't be loaded.
_held: dict[str, Tokenizer | None] = {}


def find(name: str) -> Tokenizer | None:
    """Return the tokenizer of that name, if it is run here.

    The first call for one of an extra takes half a second, in each process.
    """
    if name == ESTIMATED:
        return EST
    if name not in ADAPTERS:
        return None
    with _loading:
        if name not in _held:
            _held[name] = _loaded(name)
        return _held[name]


def nearest(name: str) -> Tokenizer:
    """Return the tokenizer of that name, else est/1."""
    return find(name) or EST


def of(thread: Thread) -> Tokenizer:
    """Return the tokenizer that counts here for the thread. No query."""
    return nearest(orjson.loads(thread.config).get("tokenizer") or ESTIMATED)


def deriving(opened: Opened, *, tokens: int, tokenizer: str) -> Count:
    """Return the counter for texts made of this page, whose FULL has `tokens`.

    Exact where the tokenizer is run here, else as its agent's count and est/1 relate.
    """
    found = find(tokenizer)
    if found is not None:
        return found.count
    return making.counting(opened, tokens=tokens, tokenizer=tokenizer)


def _loaded(name: str) -> Tokenizer | None:
    try:
        adapter = import_module(ADAPTERS[name])
    except ModuleNotFoundError:
        return None
    try:
        return Tokenizer(name, adapter.load())
    except (OSError, ValueError) as failure:
        # Not counted at all is better than counted wrongly: its agent may do it.
        log.error("tokenizer.failed", code=type(failure).__name__)
        return None
