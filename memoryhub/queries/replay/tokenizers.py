"""Tokenizers that count the tokens of a thread.

`est/1` is always available; other tokenizers come with an extra and are loaded at first
use. A thread with a tokenizer that this server cannot run is counted by its agent; the
server also estimates the tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from threading import Lock
from types import MappingProxyType

import orjson
import structlog

from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import EST, Count, Tokenizer
from memoryhub.kernel.levels import making
from memoryhub.kernel.state.paging_config import ESTIMATED, TOKENIZERS
from memoryhub.models.threads import Thread

log = structlog.get_logger()

#: Modules of tokenizers in an extra: each has `load() -> Count`.
ADAPTERS: Mapping[str, str] = MappingProxyType(
    {"o200k_base": "memoryhub.queries.replay.o200k"}
)

assert {ESTIMATED, *ADAPTERS} == set(TOKENIZERS)

_loading = Lock()
#: Tokenizers requested so far; None for a tokenizer that cannot be loaded.
_held: dict[str, Tokenizer | None] = {}


def find(name: str) -> Tokenizer | None:
    """Return the tokenizer of that name, if this server can run it.

    The first call for a tokenizer of an extra takes half a second, in each process.
    """
    if name == ESTIMATED:
        return EST
    if name not in ADAPTERS:
        return None
    with _loading:
        if name not in _held:
            _held[name] = _load_tokenizer(name)
        return _held[name]


def get_nearest(name: str) -> Tokenizer:
    """Return the tokenizer of that name, else est/1."""
    return find(name) or EST


def get_for_thread(thread: Thread) -> Tokenizer:
    """Return the tokenizer with which this server counts the thread. No query."""
    return get_nearest(orjson.loads(thread.config).get("tokenizer") or ESTIMATED)


def build_counter(opened: OpenedPage, *, tokens: int, tokenizer: str) -> Count:
    """Return the counter for texts derived from this page, whose FULL has `tokens`.

    Exact where this server can run the tokenizer, else est/1 scaled by the ratio of the
    agent's count of FULL to est/1.
    """
    found = find(tokenizer)
    if found is not None:
        return found.count
    return making.build_counter(opened, tokens=tokens, tokenizer=tokenizer)


def _load_tokenizer(name: str) -> Tokenizer | None:
    try:
        adapter = import_module(ADAPTERS[name])
    except ModuleNotFoundError:
        return None
    try:
        return Tokenizer(name, adapter.load())
    except (OSError, ValueError) as failure:
        # No count is better than a wrong count: the thread's agent may count.
        log.error("tokenizer.failed", code=type(failure).__name__)
        return None
